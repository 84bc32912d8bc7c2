"""Compressed answers (G5)."""

from __future__ import annotations

import gzip
import unittest
import zlib

from millstream_conformance.server.checks import each, rule, stricter
from millstream_conformance.server.servers import Server

LONG = b"the quick brown fox jumps over the lazy dog\n" * 100
MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "deflate": b"", "br": b""}


@rule("G5")
@each("encoding", ["gzip", "deflate", "br", "zstd"])
@stricter("the protocol does not ask for compression")
def test_a_long_body_is_compressed_on_request(server: Server, encoding: str) -> None:
    """A body of 4 KiB comes in the requested encoding, with Vary."""
    stream = server.stream("text/plain", LONG)
    answer = stream.get(headers={"Accept-Encoding": encoding})
    used = answer.headers.get("Content-Encoding")
    if used is None and encoding in {"br", "zstd"}:
        raise unittest.SkipTest(f"the server does not offer {encoding}")
    assert used == encoding
    assert "accept-encoding" in answer.headers.tokens("Vary")
    assert len(answer.body) < len(LONG) // 2
    assert answer.body.startswith(MAGIC[encoding])
    if encoding == "gzip":
        assert gzip.decompress(answer.body) == LONG
    if encoding == "deflate":
        assert zlib.decompress(answer.body) == LONG
    assert answer.next_offset == stream.tail()
    assert answer.content_type == "text/plain"


@rule("G5")
@each("accepted", {"none": None, "identity": "identity", "refused": "gzip;q=0", "unknown": "rot13"})
@stricter("RFC 9110 demands it; the protocol does not mention Accept-Encoding", rows=["refused"])
def test_nothing_is_compressed_unasked(server: Server, accepted: str | None) -> None:
    """Without an acceptable encoding the bytes come uncompressed."""
    stream = server.stream("text/plain", LONG)
    answer = stream.get(headers={"Accept-Encoding": accepted} if accepted else {})
    assert "Content-Encoding" not in answer.headers
    assert answer.body == LONG


@rule("G5")
@stricter("HTTP asks for Vary where a server compresses; the protocol does not ask for compression")
def test_the_uncompressed_variant_says_vary(server: Server) -> None:
    """The uncompressed variant has Vary: Accept-Encoding too."""
    assert "accept-encoding" in server.stream("text/plain", LONG).get().headers.tokens("Vary")


@rule("G5")
@stricter("compressing it is allowed, but costs more than it saves")
def test_a_short_body_is_not_compressed(server: Server) -> None:
    """A body below 1 KiB is not compressed."""
    answer = server.stream("text/plain", b"x" * 900).get(headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in answer.headers
    assert answer.body == b"x" * 900


@rule("G5", "G3")
@stricter("a compressed copy must be revalidated like any other")
def test_a_compressed_read_can_be_revalidated(server: Server) -> None:
    """The ETag of a compressed answer gives 304 when sent back the same way."""
    stream = server.stream("text/plain", LONG)
    asked = {"Accept-Encoding": "gzip"}
    tag = stream.get(headers=asked).etag
    assert tag
    assert stream.get(headers={**asked, "If-None-Match": tag}).status == 304


@rule("G5", "L4")
@stricter("compressing them is allowed, but an event that waits in a compressor's buffer is late")
def test_events_are_not_compressed(server: Server) -> None:
    """Event streams are not compressed."""
    stream = server.stream("text/plain", LONG, closed=True)
    with stream.events("-1", headers={"Accept-Encoding": "gzip, br, zstd"}) as events:
        assert "Content-Encoding" not in events.answer.headers
        assert events.events()[0].kind == "data"
