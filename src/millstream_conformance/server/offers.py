"""Detect which optional parts the server has.

A server may leave out forks, subscriptions and every extension and still conform. The
checks of a missing part are skipped. A probe looks for a clear "no", so that a part that is present
but broken is tested and fails.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from millstream_conformance.server.servers import Server

_EXTENSIONS = {
    "until",
    "list",
    "delete",
    "events",
    "parts",
    "many",
    "retain",
    "expect",
    "time",
    "last",
    "patch",
}
CONTROL_ROOTS = ("", "/v1/stream")
NUMBERED = re.compile(r"\d{16}_\d{16}")

DESCRIPTIONS = {
    "forks": "forks (a fork of a missing stream is not refused)",
    "sub-offsets": "sub-offsets of forks (a sub-offset has no effect)",
    "subscriptions": "subscriptions (no pull-wake subscription can be created)",
    "webhooks": "webhooks (no JWKS at __ds/jwks.json)",
    "until": "bounded reads (Millstream-Extensions does not name `until`)",
    "list": "listing (Millstream-Extensions does not name `list`)",
    "delete": "deletions by prefix (Millstream-Extensions does not name `delete`)",
    "events": "many streams on one connection (Millstream-Extensions does not name `events`)",
    "parts": "multipart appends (Millstream-Extensions does not name `parts`)",
    "many": "parts of many streams in one request (Millstream-Extensions does not name `many`)",
    "retain": "retention (Millstream-Extensions does not name `retain`)",
    "expect": "compare-and-append (Millstream-Extensions does not name `expect`)",
    "time": "arrival times (Millstream-Extensions does not name `time`)",
    "last": "reads of the last messages (Millstream-Extensions does not name `last`)",
    "patch": "changes of what lives (Millstream-Extensions does not name `patch`)",
    "numbered-offsets": "numbered offsets (offsets have another form, which the protocol allows)",
    "default-port": "default port and interface (the URL is not http://127.0.0.1:4437)",
    "restart": "restarts (no restart command was given)",
}


@dataclass(frozen=True, slots=True)
class Offers:
    """The optional parts that are present, and the stream root above `__ds`."""

    present: frozenset[str]
    control_root: str = ""

    def missing(self, needed: list[str]) -> list[str]:
        """Those of `needed` that are missing."""
        return [part for part in needed if part not in self.present]

    def absent(self) -> list[str]:
        """All missing parts, in the table's order."""
        return [part for part in DESCRIPTIONS if part not in self.present]


def detect(server: Server, *, can_restart: bool = False) -> Offers:
    """Probe the server. Raises AssertionError when it does not answer."""
    stream = server.stream("application/octet-stream", b"probe")
    present = _announced(server, stream.path)
    if NUMBERED.fullmatch(stream.tail()):
        present.add("numbered-offsets")
    if _has_forks(server):
        present.add("forks")
        if _has_sub_offsets(server):
            present.add("sub-offsets")
    root = next((root for root in CONTROL_ROOTS if _has_subscriptions(server, root)), None)
    if root is not None:
        present.add("subscriptions")
        if server.request("GET", f"{root}/__ds/jwks.json").status == 200:
            present.add("webhooks")
    if (server.address.hostname, server.address.port) == ("127.0.0.1", 4437):
        present.add("default-port")
    if can_restart:
        present.add("restart")
    stream.delete()
    return Offers(frozenset(present), root or "")


def _announced(server: Server, path: str) -> set[str]:
    found: set[str] = set()
    for method in ("OPTIONS", "HEAD"):
        found |= server.request(method, path).headers.tokens("Millstream-Extensions")
    return found & _EXTENSIONS


def _has_forks(server: Server) -> bool:
    fork = server.at(server.path("fork"))
    answer = fork.put(headers={"Stream-Forked-From": server.address.mount + server.path("missing")})
    if answer.status < 300:
        fork.delete()
    return answer.status not in {200, 201, 501}


def _has_sub_offsets(server: Server) -> bool:
    """Whether a sub-offset moves the fork point: without it, the fork of nothing but a start is empty."""
    source = server.stream("application/octet-stream")
    source.append(b"probe")
    fork = server.at(server.path("fork"), "application/octet-stream")
    point = {"Stream-Fork-Offset": source.created.next_offset, "Stream-Fork-Sub-Offset": "3"}
    answer = fork.put(headers={"Stream-Forked-From": source.full_path, **point})
    is_ignored = answer.status == 201 and not fork.get("-1").body
    fork.delete()
    source.delete()
    return not is_ignored


def _has_subscriptions(server: Server, root: str) -> bool:
    """Whether a pull-wake subscription can be created; a stream of that name does not count."""
    name = server.path("probe").strip("/").replace("/", "-")
    wanted = {"type": "pull-wake", "pattern": f"{name}/*", "wake_stream": f"{name}-wake"}
    path = f"{root}/__ds/subscriptions/{name}"
    body = json.dumps(wanted).encode()
    answer = server.request("PUT", path, {"Content-Type": "application/json"}, body)
    if answer.status >= 300:
        return False
    server.request("DELETE", path)
    return b"subscription_id" in answer.body
