"""Offsets of the messages of one response."""

import pytest

from millstream.cli.positions import Located, messages_between


def offset(count: int, generation: int = 0) -> str:
    return f"{generation:016}_{count:016}"


@pytest.mark.parametrize("before", [offset(10), offset(10, 3)])
def test_messages_move_the_offset_by_their_length_and_a_separator(before: str) -> None:
    prefix = before[:17]
    found = messages_between([b"1", b"[2, 3]"], before, f"{prefix}{19:016}")
    assert found == [Located(b"1", f"{prefix}{12:016}"), Located(b"[2, 3]", f"{prefix}{19:016}")]


def test_the_beginning_counts_from_zero() -> None:
    assert messages_between([b"1", b"2"], "-1", offset(4)) == [
        Located(b"1", offset(2)),
        Located(b"2", offset(4)),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("-1", offset(50)),  # the beginning was trimmed
        ("now", offset(4)),
        (offset(0), offset(4, 1)),
        (offset(0), "b2Zmc2V0"),  # another server's
        ("17", "18"),
    ],
)
def test_otherwise_only_the_last_offset_is_known(before: str, after: str) -> None:
    assert messages_between([b"1", b"2"], before, after) == [Located(b"1", None), Located(b"2", after)]


def test_no_messages_have_no_offsets() -> None:
    assert messages_between([], offset(3), offset(3)) == []
    assert messages_between([], "-1", "abc") == []
