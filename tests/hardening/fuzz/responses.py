"""Responses: how many of them a connection has sent, and whether each is whole."""

import re
from dataclasses import dataclass

_HEAD = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) [^\r\n\0]*\r\n((?:[a-z0-9-]+: [^\r\n\0]*\r\n)*+)\r\n")


@dataclass
class Responses:
    """What a client received on one connection."""

    statuses: list[int]
    is_last: bool
    """Whether nothing may follow the last response: it closes the connection, or has not ended."""


def split(received: bytes, methods: list[bytes]) -> Responses:
    """Split what was received into responses to requests with these methods; fail if that cannot be done."""
    found = Responses([], is_last=False)
    at = 0
    while at < len(received):
        assert not found.is_last, "something follows the last response"
        head = _HEAD.match(received, at)
        assert head is not None, f"not a response: {received[at:][:300]!r}"
        status, fields, at = int(head[1]), _fields(head[2]), head.end()
        if status == 100:
            continue
        method = methods[len(found.statuses)] if len(found.statuses) < len(methods) else b"GET"
        found.statuses.append(status)
        found.is_last = fields.get(b"connection") == b"close"
        if fields.get(b"transfer-encoding") == b"chunked":
            end = _after_chunks(received, at)
            found.is_last = end is None
            at = end or len(received)
        elif b"content-length" in fields and (method != b"HEAD" or found.is_last):
            at += int(fields[b"content-length"])
            assert at <= len(received), "a response is cut"
        elif fields.get(b"content-type", b"").startswith(b"text/event-stream") and method != b"HEAD":
            return found  # for HTTP/1.0: it ends with the connection
    return found


def _fields(lines: bytes) -> dict[bytes, bytes]:
    names = [line.partition(b": ")[::2] for line in lines.split(b"\r\n")[:-1]]
    return dict(names)


def _after_chunks(received: bytes, at: int) -> int | None:
    """Find the end of a chunked body; None if it goes on."""
    while True:
        size, end, _ = received[at:].partition(b"\r\n")
        if not end:
            assert not size, "a chunk is cut"
            return None
        at += len(size) + 2 + int(size, 16) + 2
        assert received[at - 2 : at] == b"\r\n", "a chunk does not end"
        if not int(size, 16):
            return at
