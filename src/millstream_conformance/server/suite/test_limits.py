"""Limits: what exceeds one is refused at once (A11, H4)."""

from __future__ import annotations

import zlib

from millstream_conformance.server.checks import each, rule, stricter
from millstream_conformance.server.servers import Server

WHY = "a limit that is not answered is a hanging client or a dead server"


def bomb(expanded_bytes: int) -> bytes:
    """A gzip body of zeros that is about a thousand times larger than it looks."""
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    block = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = block.compress(bytes(1 << 20)) + block.flush(zlib.Z_FULL_FLUSH)
    return header + piece * (expanded_bytes >> 20)


@rule("A11", "H4")
@each("method", ["POST", "PUT"])
@stricter(WHY)
def test_an_announced_giant_is_refused_at_once(server: Server, method: str) -> None:
    """A Content-Length of a terabyte is 413 before a byte of it is sent."""
    stream = server.stream() if method == "POST" else server.at(server.path())
    headers = {"Content-Type": "text/plain", "Content-Length": str(1 << 40)}
    answer = server.request(method, stream.path, headers, fresh=True, timeout_s=3)
    assert answer.status == 413
    assert stream.head().status == (200 if method == "POST" else 404)


@rule("A11", "H4")
@stricter(WHY)
def test_a_compression_bomb_is_413(server: Server) -> None:
    """A body that exceeds the limit when decoded is 413."""
    stream = server.stream("text/plain", b"x")
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    answer = server.request("POST", stream.path, headers, bomb(1 << 30), fresh=True)
    assert answer.status == 413
    assert stream.content() == b"x"


@rule("H4")
@stricter(WHY)
def test_endless_headers_are_431(server: Server) -> None:
    """Half a megabyte of header fields is 431."""
    fields = [(f"X-Filler-{number}", "x" * 1000) for number in range(512)]
    answer = server.request("GET", server.path(), fields, fresh=True, timeout_s=3)
    assert answer.status == 431
    assert server.stream().head().status == 200
