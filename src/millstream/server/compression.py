"""Compression both ways: responses by `Accept-Encoding`, request bodies by `Content-Encoding`.

A decoded body may not exceed the limit on bodies, nor grow a thousandfold: a few kilobytes that expand
to gigabytes are refused while they are decoded, not after. The time is bounded, too: a body has one coding
and a limited number of gzip members or zstd frames, and input is taken in steps, so that nothing copies the
rest of it again and again.

Rules A11, G5.
"""

import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import lru_cache

import brotli

from millstream.protocol.errors import MalformedError, TooLargeError, UnsupportedEncodingError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MIN_BYTES = 1024
"""Smaller responses are not worth compressing."""

MAX_MEMBERS = 1024
"""Most gzip members or zstd frames in one body: each costs time, even an empty one."""

_MAX_RATIO = 1000
_MIN_RATIO_BYTES = 2**20  # below this much output, no ratio is suspicious
_STEP = 64 * 1024
_ZSTD_STEP = 4 * 1024  # of input: what follows the end of a frame is copied, and a frame can be tiny
_ZSTD_LIMITS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}

# Fast levels: the aim is to save bytes at a rate that does not slow the reader down.
_COMPRESSORS: dict[bytes, Callable[[bytes], bytes]] = {
    b"zstd": lambda body: zstd.compress(body, level=3),
    b"br": lambda body: brotli.compress(body, quality=4),
    b"gzip": lambda body: _deflate(body, 31),
    b"deflate": lambda body: _deflate(body, 15),
}

_INCOMPRESSIBLE = (b"image/", b"audio/", b"video/", b"application/zip", b"application/gzip")


@lru_cache(maxsize=128)
def choose(accept_encoding: bytes, content_type: bytes) -> bytes | None:
    """Choose the coding that the client prefers, and among equals the one that we prefer."""
    if content_type.startswith(_INCOMPRESSIBLE):
        return None
    weights: dict[bytes, float] = {}
    for item in accept_encoding.lower().split(b","):
        coding, _, parameter = item.partition(b";")
        weights[coding.strip()] = _weight(parameter)
    rest = weights.get(b"*", 0.0)
    best = max(_COMPRESSORS, key=lambda coding: weights.get(coding, rest))
    return best if weights.get(best, rest) > 0 else None


def compress(body: bytes, coding: bytes) -> bytes:
    """Compress a response body."""
    return _COMPRESSORS[coding](body)


def decompress(body: bytes, content_encoding: bytes, max_bytes: int) -> bytes:
    """Decode a request body; it has one coding, because each further one multiplies the work."""
    coding = content_encoding.strip().lower()
    if coding == b"identity":
        return body
    if coding not in _DECOMPRESSORS:
        known = ", ".join(name.decode() for name in _DECOMPRESSORS)
        raise UnsupportedEncodingError("UNSUPPORTED_ENCODING", f"Content-Encoding may be one of {known}.")
    limit = min(max_bytes, max(_MIN_RATIO_BYTES, len(body) * _MAX_RATIO))
    pieces, size = [], 0
    try:
        for piece in _DECOMPRESSORS[coding](body):
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise TooLargeError("BODY_TOO_LARGE", f"The body is more than {limit} bytes when decoded.")
    except (zlib.error, brotli.error, zstd.ZstdError, EOFError):
        raise MalformedError("INVALID_ENCODING", f"The body is not valid {coding.decode()}.") from None
    return b"".join(pieces)


def _weight(parameter: bytes) -> float:
    name, _, value = parameter.partition(b"=")
    if name.strip() != b"q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


def _deflate(body: bytes, window: int) -> bytes:
    compressor = zlib.compressobj(level=5, wbits=window)
    return compressor.compress(body) + compressor.flush()


def _inflate(decompressor: "zlib._Decompress", body: memoryview, at: int) -> Generator[bytes, None, int]:
    """Decode one zlib stream that begins at an index of the body, and return the index of its end."""
    while not decompressor.eof:
        given = body[at : at + _STEP]
        piece = decompressor.decompress(given, _STEP)
        # At the end, both attributes may have what follows.
        rest = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
        taken = len(given) - len(rest)
        if not piece and not taken and not decompressor.eof:
            raise EOFError
        at += taken
        yield piece
    return at


def _count(member: int) -> int:
    """Count one more member of a body, if it may have one."""
    if member >= MAX_MEMBERS:
        raise TooLargeError(
            "TOO_MANY_MEMBERS", f"A body has at most {MAX_MEMBERS} gzip members or zstd frames."
        )
    return member + 1


def _gunzip(body: bytes) -> Iterator[bytes]:
    at = members = 0
    while at < len(body):
        members = _count(members)
        at = yield from _inflate(zlib.decompressobj(wbits=31), memoryview(body), at)


def _inflate_deflate(body: bytes) -> Iterator[bytes]:
    # "deflate" means the zlib format, but some clients send it raw; the first byte tells them apart.
    decompressor = zlib.decompressobj(wbits=15 if body[:1] and body[0] & 0x0F == 8 else -15)
    end = yield from _inflate(decompressor, memoryview(body), 0)
    if end < len(body):
        raise zlib.error


def _unbrotli(body: bytes) -> Iterator[bytes]:
    decompressor = brotli.Decompressor()
    at = 0
    while not decompressor.is_finished():
        given = body[at : at + _STEP] if decompressor.can_accept_more_data() else b""
        at += len(given)
        piece = decompressor.process(given, output_buffer_limit=_STEP)
        if not piece and not given and not decompressor.is_finished():
            raise EOFError
        yield piece
    if at < len(body):
        raise brotli.error


def _unzstd(body: bytes) -> Iterator[bytes]:
    at = frames = 0
    while at < len(body):
        frames = _count(frames)
        frame = zstd.ZstdDecompressor(options=_ZSTD_LIMITS)
        while not frame.eof:
            given = body[at : at + _ZSTD_STEP] if frame.needs_input else b""
            if frame.needs_input and not given:
                raise EOFError
            at += len(given)
            yield frame.decompress(given, _STEP)
        at -= len(frame.unused_data)


_DECOMPRESSORS: dict[bytes, Callable[[bytes], Iterator[bytes]]] = {
    b"gzip": _gunzip,
    b"deflate": _inflate_deflate,
    b"br": _unbrotli,
    b"zstd": _unzstd,
}
