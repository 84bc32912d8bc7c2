"""Compressed bodies: decoded as other decoders do, or refused; never more than the limit.

An input is the name of a coding, a line break, and the body.
"""

import zlib
from collections.abc import Callable, Hashable
from random import Random

import brotli
import zstandard

from hardening.fuzz.fuzzing import Target, stateless
from millstream.protocol.errors import RequestError
from millstream.server import compression

MAX_BYTES = 4 * 2**20
CODINGS = (b"gzip", b"deflate", b"br", b"zstd")
TOKENS = (
    *(coding + b"\n" for coding in (*CODINGS, b"identity", b"gzip, gzip", b"x-gzip", b"")),
    *(
        compression.compress(content, coding)
        for coding in CODINGS
        for content in (b"", b"abc", bytes(100_000))
    ),
    *(b"\x1f\x8b\x08", b"\x1f\x8b\x08\x1e", b"\x78\x9c", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18\0\0\0\0"),
    *(b"\0", b"\xff", b"\0\0\xff\xff", b"\x03\0", b"\0" * 64, b"\xff" * 64),
)


def check(data: bytes) -> Hashable:
    """Decode a body, and once more by another way if it could be."""
    name, _, body = data.partition(b"\n")
    coding = name.strip().lower()
    try:
        decoded = compression.decompress(body, name, MAX_BYTES)
    except RequestError as error:
        if error.code == "INVALID_ENCODING" and coding in _STRICT:
            assert _STRICT[coding](body) is None, "refused, but it is valid"
        return coding if coding in CODINGS else None, error.code
    assert len(decoded) <= max(MAX_BYTES, len(body))
    if coding in _REFERENCES:
        assert _REFERENCES[coding](body) == decoded, "decoded differently"
    return coding, min(len(decoded).bit_length() // 6, 3)


def _zlib(body: bytes, window: int) -> tuple[bytes, bytes] | None:
    """Decode one zlib stream as a whole: the content and what follows; None if it is not valid."""
    decompressor = zlib.decompressobj(window)
    try:
        content = decompressor.decompress(body, MAX_BYTES + 1)
    except zlib.error:
        return None
    return (content, decompressor.unused_data) if decompressor.eof else None


def _gunzip(body: bytes) -> bytes | None:
    pieces = []
    while body:
        found = _zlib(body, 31)
        if found is None:
            return None
        piece, body = found
        pieces.append(piece)
    return b"".join(pieces)


def _inflate(body: bytes) -> bytes | None:
    found = _zlib(body, 15 if body[:1] and body[0] & 0x0F == 8 else -15)
    return found[0] if found is not None and not found[1] else None


def _unbrotli(body: bytes) -> bytes:
    return bytes(brotli.decompress(body))


def _unzstd(body: bytes) -> bytes:
    reader = zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True)
    return reader.read()


_STRICT: dict[bytes, Callable[[bytes], bytes | None]] = {b"gzip": _gunzip, b"deflate": _inflate}
_REFERENCES: dict[bytes, Callable[[bytes], bytes | None]] = {**_STRICT, b"br": _unbrotli, b"zstd": _unzstd}


def generate(dice: Random) -> bytes:
    """Compress something: text, noise, or much of the same; in one member or several."""
    coding = dice.choice(CODINGS)
    return coding + b"\n" + b"".join(_member(dice, coding) for _ in range(dice.choice((1, 1, 1, 2, 5))))


def _member(dice: Random, coding: bytes) -> bytes:
    content = dice.choice((b"", b"hello ", dice.randbytes(20), b'{"a":1},', bytes(1000)))
    content *= dice.choice((1, 1, 10, 1000))
    if coding == b"zstd":
        size, checked = dice.random() < 0.5, dice.random() < 0.5
        compressor = zstandard.ZstdCompressor(
            level=dice.choice((1, 3, 19)), write_content_size=size, write_checksum=checked
        )
        return compressor.compress(content)
    if coding == b"br":
        return bytes(brotli.compress(content, quality=dice.choice((0, 4, 9)), lgwin=dice.choice((10, 22))))
    window = 31 if coding == b"gzip" else dice.choice((15, -15))
    deflate = zlib.compressobj(dice.choice((0, 1, 9)), zlib.DEFLATED, window)
    return deflate.compress(content) + deflate.flush(zlib.Z_FULL_FLUSH) + deflate.flush()


TARGET = Target("compressed", stateless(check), generate, TOKENS)
