"""Header values: rules A4, C3, R1."""

import pytest

from millstream.protocol.errors import MalformedError
from millstream.protocol.headers import MAX_SAFE_INTEGER, is_true, parse_canonical_integer, parse_integer

NOT_INTEGERS = [
    b"",
    b"-1",
    b"+5",
    b" 5",
    b"5 ",
    b"1.0",
    b"1e3",
    b"0x10",
    b"1_0",
    b"five",
    b"5, 5",
    "٥".encode(),
    b"9007199254740992",
    b"10000000000000000",
    b"9" * 5000,
]


@pytest.mark.parametrize(
    ("text", "value"), [(b"0", 0), (b"7", 7), (b"9007199254740991", MAX_SAFE_INTEGER), (b"007", 7)]
)
def test_integers_are_ascii_digits_up_to_the_safe_limit(text: bytes, value: int) -> None:
    """R1."""
    assert parse_integer(text, "Producer-Seq") == value


@pytest.mark.parametrize("text", NOT_INTEGERS)
@pytest.mark.parametrize("parse", [parse_integer, parse_canonical_integer])
def test_anything_else_is_not_an_integer(parse: type[int], text: bytes) -> None:
    """R1, C3."""
    with pytest.raises(MalformedError, match="Some-Header"):
        parse(text, "Some-Header")


@pytest.mark.parametrize("text", [b"00", b"01", b"007", b"0000000000000000"])
def test_a_canonical_integer_has_no_leading_zero(text: bytes) -> None:
    """C3."""
    assert parse_canonical_integer(b"0", "Stream-TTL") == 0
    with pytest.raises(MalformedError):
        parse_canonical_integer(text, "Stream-TTL")


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        (b"true", True),
        (b"TRUE", True),
        (b"True", True),
        (None, False),
        (b"", False),
        (b"false", False),
        (b"1", False),
        (b"yes", False),
        (b"true, true", False),
        (b"true ", False),
    ],
)
def test_a_flag_is_set_only_by_the_word_true(value: bytes | None, flag: bool) -> None:
    """A4."""
    assert is_true(value) is flag
