"""Compression both ways: rules A11, G5."""

import gzip
import random
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import MalformedError, TooLargeError, UnsupportedEncodingError
from millstream.server.compression import MAX_MEMBERS, choose, compress, decompress

CODINGS = [b"gzip", b"deflate", b"br", b"zstd"]
LIMIT = 1_000_000


@pytest.mark.parametrize("coding", CODINGS)
@given(body=st.binary(max_size=200) | st.binary(min_size=1, max_size=20).map(lambda piece: piece * 5000))
def test_what_is_compressed_can_be_read_again(coding: bytes, body: bytes) -> None:
    """A11, G5."""
    assert decompress(compress(body, coding), coding, LIMIT) == body


OTHERS = {
    "gzip": (b"gzip", gzip.compress(b"hello")),
    "in capitals": (b"GZIP", gzip.compress(b"hello")),
    "gzip of several members": (b"gzip", gzip.compress(b"hel") + gzip.compress(b"") + gzip.compress(b"lo")),
    "zlib": (b"deflate", zlib.compress(b"hello")),
    "raw deflate": (b"deflate", zlib.compress(b"hello")[2:-4]),
    "brotli": (b"br", brotli.compress(b"hello")),
    "zstd": (b"zstd", zstandard.compress(b"hello")),
    "zstd without its size": (b"zstd", zstandard.ZstdCompressor(write_content_size=False).compress(b"hello")),
    "zstd of several frames": (b"zstd", zstandard.compress(b"hel") + zstandard.compress(b"lo")),
    "nothing done": (b"identity", b"hello"),
    "a coding with space around it": (b" gzip\t", gzip.compress(b"hello")),
}


@pytest.mark.parametrize("which", OTHERS)
def test_what_others_compressed_can_be_read(which: str) -> None:
    """A11."""
    coding, body = OTHERS[which]
    assert decompress(body, coding, LIMIT) == b"hello"


@pytest.mark.parametrize("coding", CODINGS)
def test_what_is_cut_short_is_refused(coding: bytes) -> None:
    """A11: wherever it is cut; a part of a body is not a body."""
    body = compress(bytes(range(256)) * 20, coding)
    for length in range(1, len(body)):
        with pytest.raises(MalformedError) as refused:
            decompress(body[:length], coding, LIMIT)
        assert refused.value.code == "INVALID_ENCODING"


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("damage", [b"plain text", b"\x00" * 20, b"\xff" * 20])
def test_what_is_not_compressed_is_refused(coding: bytes, damage: bytes) -> None:
    """A11."""
    with pytest.raises(MalformedError):
        decompress(damage, coding, LIMIT)


@pytest.mark.parametrize("coding", CODINGS)
def test_what_follows_the_end_is_refused(coding: bytes) -> None:
    """A11: or two parsers might not agree on what was sent."""
    with pytest.raises(MalformedError):
        decompress(compress(b"hello", coding) + b"junk", coding, LIMIT)


@pytest.mark.parametrize(
    "coding",
    [
        *(b"", b"compress", b"x-unknown", b"gzip, lzma", b"gzip;q=1"),
        *(b"gzip, gzip", b"deflate, gzip", b"identity, gzip", b"gzip,"),
    ],
)
def test_an_unknown_coding_is_refused_and_so_is_a_list(coding: bytes) -> None:
    """A11: a coding within a coding multiplies the work."""
    with pytest.raises(UnsupportedEncodingError):
        decompress(b"x", coding, LIMIT)


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_members_are_limited_also_when_they_are_empty(coding: bytes) -> None:
    """A11: each costs time, whatever it holds."""
    assert decompress(compress(b"x", coding) * MAX_MEMBERS, coding, LIMIT) == b"x" * MAX_MEMBERS
    with pytest.raises(TooLargeError) as refused:
        decompress(compress(b"", coding) * (MAX_MEMBERS + 1), coding, LIMIT)
    assert refused.value.code == "TOO_MANY_MEMBERS"


@pytest.mark.parametrize("coding", CODINGS)
def test_nothing_is_no_compressed_body(coding: bytes) -> None:
    """A11: except for the codings that are a sequence, of which there may be none."""
    if coding in (b"gzip", b"zstd"):
        assert decompress(b"", coding, LIMIT) == b""
        return
    with pytest.raises(MalformedError):
        decompress(b"", coding, LIMIT)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_long_body_is_decoded_in_steps(coding: bytes) -> None:
    """A11: of input, too, which is longer than one of them."""
    body = random.Random(1).randbytes(700_000)
    assert decompress(compress(body, coding), coding, LIMIT) == body


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 200_000])
def test_a_member_behind_a_long_one_is_decoded(coding: bytes, size: int) -> None:
    """A11: long is what does not fit into one step of the output."""
    members = [b"x" * size, b"y", bytes(size), b"z"]
    sent = b"".join(compress(member, coding) for member in members)
    assert decompress(sent, coding, 2**20) == b"".join(members)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_refused_before_it_explodes(coding: bytes) -> None:
    """A11: while it is being read, with constant memory."""
    bomb = compress(bytes(200 * LIMIT), coding)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            decompress(bomb, coding, LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 3 * LIMIT
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("coding", [b"br", b"zstd"])
def test_a_suspicious_ratio_is_refused_whatever_the_limit(coding: bytes) -> None:
    """A11."""
    with pytest.raises(TooLargeError):
        decompress(compress(bytes(50_000_000), coding), coding, 2**40)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_of_exactly_the_limit_is_taken(coding: bytes) -> None:
    """A11."""
    body = bytes(range(256)) * 40
    assert decompress(compress(body, coding), coding, len(body)) == body
    with pytest.raises(TooLargeError):
        decompress(compress(body, coding), coding, len(body) - 1)


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        (b"", None),
        (b"identity", None),
        (b"gzip", b"gzip"),
        (b"GZIP", b"gzip"),
        (b"gzip, deflate, br, zstd", b"zstd"),
        (b"gzip, deflate, br", b"br"),
        (b"gzip, deflate", b"gzip"),
        (b"deflate", b"deflate"),
        (b"*", b"zstd"),
        (b"*;q=0", None),
        (b"zstd;q=0, *", b"br"),
        (b"br;q=0.5, gzip;q=0.9", b"gzip"),
        (b"gzip;q=0", None),
        (b"gzip; q=0.000", None),
        (b"gzip;q=0.001", b"gzip"),
        (b"gzip;q=x", None),
        (b"gzip;q=nan", None),
        (b"compress, lzma", None),
        (b"gzip;q=1.0, identity; q=0.5, *;q=0", b"gzip"),
    ],
)
def test_the_client_chooses_and_among_equals_we_do(accepted: bytes, coding: bytes | None) -> None:
    """G5."""
    assert choose(accepted, b"text/plain") == coding


@pytest.mark.parametrize(
    ("content_type", "worth_it"),
    [(b"text/plain", True), (b"application/json", True), (b"image/png", False), (b"video/mp4", False)],
)
def test_what_is_compressed_already_is_left_alone(content_type: bytes, worth_it: bool) -> None:
    """G5."""
    assert (choose(b"gzip", content_type) is not None) is worth_it
