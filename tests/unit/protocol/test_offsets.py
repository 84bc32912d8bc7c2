"""Offsets: rules O1 to O3."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import MalformedError
from millstream.protocol.offsets import NOW, START, format_offset, parse_offset

positions = st.integers(0, 10**32 - 1)


def test_a_stream_starts_at_zero_in_two_fields() -> None:
    """O1."""
    assert format_offset(0) == b"0000000000000000_0000000000000000"


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (42, b"0000000000000000_0000000000000042"),
        (10**16 - 1, b"0000000000000000_9999999999999999"),
        (10**16, b"0000000000000001_0000000000000000"),
        (10**32 - 1, b"9999999999999999_9999999999999999"),
    ],
)
def test_the_fields_are_generation_and_bytes(position: int, text: bytes) -> None:
    """O1."""
    assert format_offset(position) == text
    assert parse_offset(text) == position


@given(positions, positions)
def test_text_order_is_number_order(one: int, other: int) -> None:
    """O1."""
    assert (format_offset(one) < format_offset(other)) == (one < other)
    assert parse_offset(format_offset(one)) == one


def test_the_sentinels_are_read_but_never_written() -> None:
    """O2."""
    assert parse_offset(b"-1") == START
    assert parse_offset(b"now") == NOW
    assert START < 0 > NOW


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"0",
        b"-2",
        b"-01",
        b"NOW",
        b" now",
        b"now ",
        b"42",
        b"0000000000000000_000000000000004",  # one digit short
        b"0000000000000000_00000000000000042",  # one too many
        b"0000000000000000-0000000000000042",
        b"00000000000000000000000000000000_",
        b"_00000000000000000000000000000000",
        b"0000000000000000_000000000000004x",
        b"+000000000000000_0000000000000042",
        b"0000000000000000_00000000000_0042",
        b"0000000000000000_000000000000 042",
        b"0000000000000000_0000000000000042,",
        b"0000000000000000_0000000000000042\n",
        b"0000000000000000/0000000000000042",
        b"../../../../../../../etc/passwd..",
        "٠٠٠٠٠٠٠٠_".encode() + b"0" * 16,  # Arabic digits are digits, but not ours
        b"\x00" * 33,
    ],
)
def test_anything_else_is_refused(text: bytes) -> None:
    """O3."""
    with pytest.raises(MalformedError) as refused:
        parse_offset(text)
    assert refused.value.code == "INVALID_OFFSET"


@given(st.binary(max_size=40))
def test_no_bytes_break_the_parser(text: bytes) -> None:
    """O3."""
    try:
        position = parse_offset(text)
    except MalformedError:
        return
    assert {START: b"-1", NOW: b"now"}.get(position) or format_offset(position) == text
