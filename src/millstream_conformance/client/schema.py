"""The schema of a case file, as data: the actions and the keys of each.

An unknown key is an error, so that a misspelt expectation is not ignored.

    id, name, description?, tests:
      - id, name, rules, stricter?, needs?, server?, setup?, operations

The steps of `setup` and `operations` are alike; a failure in `setup` is reported as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeAlias

Types: TypeAlias = type | UnionType
Keys: TypeAlias = Mapping[str, Types]

FILE: Keys = {"id": str, "name": str, "description": str, "tests": list}
FILE_REQUIRED = ("id", "name", "tests")

CASE: Keys = {
    "id": str, "name": str, "description": str, "rules": list, "needs": list, "stricter": str,
    "server": dict, "setup": list, "operations": list,
}  # fmt: skip
CASE_REQUIRED = ("id", "name", "rules", "operations")

SERVER: Keys = {"chunkBytes": int, "longPollMs": int, "oddOffsets": bool}
"""Options of the scripted server."""

STEP: Keys = {"action": str, "expect": dict, "save": dict}

_PATH: Keys = {"path": str}
_HEADERS: Keys = {"path": str, "headers": dict}
_PRODUCER: Keys = {**_HEADERS, "producerId": str, "epoch": int, "autoClaim": bool}

CLIENT_ACTIONS: Mapping[str, Keys] = {
    "create": {**_HEADERS, "as": str, "contentType": str, "ttlSeconds": int, "expiresAt": str,
               "closed": bool, "data": str},
    "connect": _HEADERS,
    "head": _HEADERS,
    "delete": _HEADERS,
    "append": {**_HEADERS, "data": str, "binary": bool, "seq": int},
    "read": {**_HEADERS, "offset": str, "live": str | bool, "timeoutMs": int, "maxChunks": int,
             "waitForUpToDate": bool},
    "close": {**_PATH, "data": str, "contentType": str},
    "idempotent-append": {**_PRODUCER, "data": str},
    "idempotent-append-batch": {**_PRODUCER, "items": list, "maxInFlight": int},
    "idempotent-close": {**_PRODUCER, "data": str},
    "idempotent-detach": _PRODUCER,
    "set-dynamic-header": {"name": str, "valueType": str, "initialValue": str},
    "set-dynamic-param": {"name": str, "valueType": str, "initialValue": str},
    "clear-dynamic": {},
    "validate": {"target": dict},
}  # fmt: skip
"""Commands for the adapter."""

SERVER_ACTIONS: Mapping[str, Keys] = {
    "server-create": {**_PATH, "as": str, "contentType": str, "data": str, "binary": bool, "closed": bool},
    "server-append": {**_PATH, "data": str, "binary": bool, "whenWaiting": bool},
    "server-close": {**_PATH, "data": str, "whenWaiting": bool},
    "server-delete": {**_PATH, "whenWaiting": bool},
    "server-state": _PATH,
    "misbehave": {"method": str, "live": str, "skip": int, "times": int, "drop": str, "delayMs": int,
                  "status": int, "commit": bool, "headers": dict, "body": str, "bodyBase64": str,
                  "truncate": int, "piece": int, "hang": bool},
    "behave": {},
}  # fmt: skip
"""Changes to the scripted server. With `whenWaiting` they happen once a reader waits."""

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "append": ("data",),
    "idempotent-append": ("data", "producerId"),
    "idempotent-append-batch": ("items", "producerId"),
    "idempotent-close": ("producerId",),
    "idempotent-detach": ("producerId",),
    "set-dynamic-header": ("name", "valueType"),
    "set-dynamic-param": ("name", "valueType"),
    "validate": ("target",),
    "server-append": ("data",),
    "server-state": ("expect",),
}

EXPECT_RESULT: Keys = {
    "status": int | list,
    "error": str | list,
    "mayFail": str | list,
    "messageContains": str | list,
    "hasOffset": bool,
    "offset": str,
    "finalOffset": str,
    "offsetNot": str,
    "contentType": str,
    "upToDate": bool,
    "streamClosed": bool,
    "data": str,
    "dataIn": list,
    "bytes": str,
    "json": list,
    "dataContainsAll": list,
    "chunks": list,
    "chunkCount": int,
    "minChunks": int,
    "headersSent": dict,
    "paramsSent": dict,
    "withinMs": int,
    "atLeastMs": int,
    "sent": list,
}
EXPECT_STATE: Keys = {
    "exists": bool, "closed": bool, "contentType": str, "content": str, "contentIn": list,
    "contentBase64": str, "json": list, "messageCount": int,
}  # fmt: skip
SENT: Keys = {
    "method": str, "live": str, "nth": int, "count": int, "atMost": int, "atLeast": int, "headers": dict,
    "without": list, "query": dict, "withoutQuery": list, "body": str, "bodyJson": list, "sorted": bool,
    "gapAtLeastMs": int,
}  # fmt: skip
"""Expectations about the requests of one step: a selection, then what must hold for each."""


class CaseError(ValueError):
    """A case file that violates the schema."""


def check_keys(value: object, keys: Keys, where: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A mapping with the table's keys and types; CaseError names what is wrong."""
    if not isinstance(value, dict):
        raise CaseError(f"{where}: must be a mapping, not {value!r}")
    for key, given in value.items():
        if key not in keys:
            raise CaseError(f"{where}: unknown key {key!r}; there are {', '.join(keys)}")
        wanted = keys[key]
        number = isinstance(given, bool) and wanted is int  # bool is a subclass of int
        if number or not isinstance(given, wanted):
            raise CaseError(f"{where}: {key} must be {_named(wanted)}, not {given!r}")
    for key in required:
        if key not in value:
            raise CaseError(f"{where}: {key} is missing")
    return value


def _named(wanted: Types) -> str:
    return wanted.__name__ if isinstance(wanted, type) else str(wanted)
