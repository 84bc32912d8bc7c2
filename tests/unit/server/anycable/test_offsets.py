"""AnyCable's offsets: a position and its epoch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import MalformedError
from millstream.protocol.offsets import NOW, START
from millstream.server.anycable.offsets import NO_STREAM, Offset, format_offset, parse_offset


@given(st.integers(0, 10**31), st.integers(1, 2**64))
def test_what_is_written_is_read_back(position: int, stream_id: int) -> None:
    assert parse_offset(format_offset(position, stream_id)) == Offset(position, stream_id)


@pytest.mark.parametrize("text", [b"-1", b"0", b""])
def test_three_spellings_of_the_start(text: bytes) -> None:
    assert parse_offset(text) == Offset(START)


def test_now() -> None:
    assert parse_offset(b"now") == Offset(NOW)


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"1",
            b"x",
            b"::",
            b"1::",
            b"::a",
            b"-1::a",
            b"+1::a",
            b"1::A",
            b"1::g",
            b"1::a::b",
            b"1:a",
            b"1 ::a",
        ),
        *(b"0000000000000000_0000000000000042", b"9" * 33 + b"::a", b"1::" + b"f" * 33, b"\xb2::a", b"NOW"),
    ],
)
def test_what_was_never_given_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_offset(text)


def test_an_offset_fits_its_own_stream_only() -> None:
    assert Offset(1, 5).fits(5)
    assert not Offset(1, 5).fits(6)
    assert Offset(START).fits(6)


def test_a_stream_that_is_not_there_has_the_start_only() -> None:
    assert format_offset(0, NO_STREAM) == b"0"
