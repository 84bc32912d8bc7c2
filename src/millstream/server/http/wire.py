"""Replies as the bytes of HTTP/1.1."""

from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from millstream.protocol.http import Header, Reply

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus
}
_BODILESS = (204, 304)


def encode_headers(fields: list[Header]) -> bytes:
    """Write headers as lines."""
    return b"".join([b"%b: %b\r\n" % field for field in fields])


def date_line(now_s: float) -> bytes:
    """Write the Date header; it changes once a second, so the caller keeps it."""
    return b"date: %b\r\n" % formatdate(now_s, usegmt=True).encode()


def encode_head(reply: Reply, common: bytes, *, has_body: bool, keep_alive: bool) -> bytes:
    """Write a reply up to its body; `common` are header lines that every reply has."""
    parts = [_STATUS_LINES[reply.status], common]
    if reply.lines:
        parts.append(reply.lines)
    else:
        for field in reply.headers:
            parts.append(b"%b: %b\r\n" % field)  # noqa: PERF401  a comprehension costs a call
    if not keep_alive:
        parts.append(b"connection: close\r\n")
    has_length = has_body and reply.status not in _BODILESS
    parts.append(b"content-length: %d\r\n\r\n" % len(reply.body) if has_length else b"\r\n")
    return b"".join(parts)


def encode_stream_head(reply: Reply, common: bytes, *, chunked: bool) -> bytes:
    """Write the head of a reply whose body follows in parts."""
    framing = b"transfer-encoding: chunked\r\n" if chunked else b"connection: close\r\n"
    return b"".join([_STATUS_LINES[reply.status], common, encode_headers(reply.headers), framing, b"\r\n"])
