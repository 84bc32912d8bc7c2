"""Invalid bodies and encoded bodies (protocol 5.2, 9.1)."""

from __future__ import annotations

import gzip
import zlib

from millstream_conformance.server.checks import each, rule, stricter
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream

TEXT = b"hello encoded world, " * 8
# Encoders that the standard library lacks, as finished bytes: a raw zstd frame and a brotli
# stream of one uncompressed block are short enough to be written by hand.
ZSTD = b"\x28\xb5\x2f\xfd\x20\x0b" + (11 << 3 | 1).to_bytes(3, "little") + b"hello zstd\n"
BROTLI = b"\x0b\x04\x80hello br\n\x03"


def unchanged(stream: Stream, before: str) -> bool:
    """Whether a stream still ends where it did."""
    return stream.tail() == before


@rule("A3")
def test_an_empty_append_is_400(server: Server) -> None:
    """An empty body without Stream-Closed is 400."""
    stream = server.stream("text/plain", b"x")
    assert stream.append(b"").status == 400
    assert unchanged(stream, stream.created.next_offset)


@rule("A3")
def test_a_body_without_a_content_type_is_400(server: Server) -> None:
    """A body without Content-Type is 400."""
    stream = server.stream("text/plain", b"x")
    assert stream.append(b"y", content_type=None).status == 400
    assert unchanged(stream, stream.created.next_offset)


@rule("A3")
@each(
    "body",
    {
        "empty-array": b"[]",
        "spaced-empty-array": b" [ ] ",
        "truncated-object": b'{"a":',
        "truncated-array": b"[1,2",
        "trailing-comma": b"[1,2,]",
        "two-values": b"1 2",
        "trailing-garbage": b"{} x",
        "single-quotes": b"{'a':1}",
        "bare-word": b"hello",
        "nan": b"NaN",
        "infinity": b"[1, Infinity]",
        "minus-infinity": b'{"a": -Infinity}',
        "leading-zero": b"01",
        "plus": b"+1",
        "comment": b"1 // one",
        "bad-escape": b'"\\x41"',
        "raw-newline-in-string": b'"a\nb"',
        "invalid-utf-8": b'{"a":"\xff"}',
        "invalid-utf-8-in-batch": b'["ok","\xc3"]',
        "overlong-utf-8": b'"\xc0\xaf"',
        "utf-16": '{"a":1}'.encode("utf-16-le"),
        "only-spaces": b"   ",
        "never-ending": b"[" * 200_000,
    },
)
def test_bad_json_is_400_and_changes_nothing(server: Server, body: bytes) -> None:
    """Invalid JSON is 400, and nothing of it is stored."""
    stream = server.stream("application/json", b'[{"kept":true}]')
    before = stream.content()
    assert stream.append(body).status == 400
    assert stream.content() == before
    assert unchanged(stream, stream.created.next_offset)


@rule("A3")
@each(
    "body",
    {
        "array": b"[" * 520 + b"]" * 520,
        "object": b'{"a":' * 520 + b"1" + b"}" * 520,
        "in-a-batch": b"[1," + b"[" * 520 + b"]" * 520 + b"]",
        "very-deep": b"[" * 100_000 + b"]" * 100_000,
    },
)
@stricter("readers parse what a server accepts, and many of them recurse")
def test_json_that_nests_too_deep_is_400(server: Server, body: bytes) -> None:
    """More than 512 levels of nesting are 400."""
    stream = server.stream("application/json", b'[{"kept":true}]')
    assert stream.append(body).status == 400
    assert stream.get().json() == [{"kept": True}]


@rule("A3")
@stricter("RFC 8259 lets a parser limit the depth")
def test_json_may_nest_up_to_the_limit(server: Server) -> None:
    """500 levels of nesting are accepted."""
    stream = server.stream("application/json")
    deep = '{"a":' * 500 + "1" + "}" * 500
    assert stream.append(deep.encode()).status == 204
    assert len(elements(stream.content())) == 1


@rule("A3", "C6")
def test_other_types_take_any_bytes(server: Server) -> None:
    """Types such as application/ndjson are bytes."""
    for content_type in ("application/ndjson", "application/vnd.example.json", "application/json-seq"):
        stream = server.stream(content_type)
        assert stream.append(b"{not json\xff").status == 204
        assert stream.content() == b"{not json\xff"


@rule("A11", "A1")
def test_a_chunked_body_is_joined(server: Server) -> None:
    """Transfer-Encoding is framing, not content."""
    stream = server.stream()
    assert stream.append(b"one two three", chunked=True).status == 204
    assert stream.content() == b"one two three"


@rule("A11")
@each(
    "encoded",
    {
        "gzip": ("gzip", gzip.compress(TEXT), TEXT),
        "gzip-upper-case": ("GZIP", gzip.compress(TEXT), TEXT),
        "deflate": ("deflate", zlib.compress(TEXT), TEXT),
        "zstd": ("zstd", ZSTD, b"hello zstd\n"),
        "br": ("br", BROTLI, b"hello br\n"),
        "identity": ("identity", TEXT, TEXT),
    },
)
@stricter("HTTP lets a sender compress; storing compressed bytes as content would corrupt the stream")
def test_an_encoded_body_is_stored_decoded(server: Server, encoded: tuple[str, bytes, bytes]) -> None:
    """Content-Encoding is decoded before the bytes are stored, on POST and on PUT."""
    encoding, body, content = encoded
    stream = server.stream("text/plain", body, headers={"Content-Encoding": encoding})
    assert stream.append(body, {"Content-Encoding": encoding}).status == 204
    assert stream.get(headers={"Accept-Encoding": "identity"}).body == content + content


@rule("A11")
@stricter("JSON can only be validated after decoding")
def test_encoded_json_is_validated_after_decoding(server: Server) -> None:
    """A gzipped batch is flattened, and gzipped invalid JSON is 400."""
    stream = server.stream("application/json")
    assert stream.append(gzip.compress(b"[1,2]"), {"Content-Encoding": "gzip"}).status == 204
    assert stream.append(gzip.compress(b"[3,"), {"Content-Encoding": "gzip"}).status == 400
    assert elements(stream.content()) == ["1", "2"]


@rule("A11")
@stricter("appending bytes that nobody can decode is silent corruption")
def test_an_unknown_encoding_is_415(server: Server) -> None:
    """An unknown Content-Encoding is 415."""
    stream = server.stream("text/plain", b"x")
    assert stream.append(b"y", {"Content-Encoding": "rot13"}).status == 415
    assert unchanged(stream, stream.created.next_offset)


@rule("A11")
@each("damaged", {"not-gzip": b"plain", "cut-off": gzip.compress(TEXT)[:-6], "empty": b""})
@stricter("half a body is not a body")
def test_a_damaged_encoding_is_400(server: Server, damaged: bytes) -> None:
    """A body that cannot be decoded is 400, and nothing of it is stored."""
    stream = server.stream("text/plain", b"x")
    assert stream.append(damaged, {"Content-Encoding": "gzip"}).status == 400
    assert unchanged(stream, stream.created.next_offset)
