"""Attributes: what users note about a stream, for people and for searches. The server gives them no meaning.

They are one flat JSON object: names with strings, numbers and booleans. A change is merged by name, as JSON
merge patch has it (RFC 7396): a name that is given is set, one with null is removed, others stay. So two
writers that set different names do not undo each other.

        {"team": "a", "tier": 1}   and   {"tier": null, "owner": "x"}   become   {"team": "a", "owner": "x"}

A stream keeps them as the text that headers carry: JSON in ASCII, without spaces, at most `MAX_BYTES` long.

Rule X10.
"""

import json
from collections.abc import Mapping
from typing import Final

import msgspec

from millstream.protocol.errors import MalformedError

MAX_BYTES: Final = 4096

NONE: Final = b""
"""The attributes of most streams."""

Value = str | int | float | bool
Changes = Mapping[str, Value | None]

_decode = msgspec.json.Decoder(dict[str, Value | None]).decode


def parse_attributes(text: bytes) -> Changes:
    """Read `Stream-Attributes`; None is a value that removes its name."""
    if len(text) > MAX_BYTES:
        raise _too_large()
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise MalformedError(
            "INVALID_ATTRIBUTES",
            "Stream-Attributes is a JSON object of strings, numbers and booleans; null removes a name.",
        ) from None


def merged(attributes: bytes, changes: Changes) -> bytes:
    """Give attributes after a change; raise `MalformedError` if they become too large."""
    found: dict[str, Value] = read(attributes)
    for name, value in changes.items():
        found.pop(name, None)
        if value is not None:
            found[name] = value
    if not found:
        return NONE
    text = json.dumps(found, separators=(",", ":"), allow_nan=False).encode()
    if len(text) > MAX_BYTES:
        raise _too_large()
    return text


def read(attributes: bytes) -> dict[str, Value]:
    """Give attributes by name."""
    return (
        {name: value for name, value in _decode(attributes).items() if value is not None}
        if attributes
        else {}
    )


def matches(attributes: bytes, wanted: Mapping[str, str]) -> bool:
    """Tell whether attributes have all wanted values; of numbers and booleans, their JSON text counts."""
    if not wanted:
        return True
    found = read(attributes)
    return all(name in found and _text(found[name]) == text for name, text in wanted.items())


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _too_large() -> MalformedError:
    return MalformedError(
        "ATTRIBUTES_TOO_LARGE", f"A stream's attributes are at most {MAX_BYTES} bytes of JSON in ASCII."
    )
