"""Where a writer expects the tail: rule X6."""

import pytest

from millstream.protocol.caching import tail_tag
from millstream.protocol.conditions import (
    Condition,
    OffsetConflict,
    TagConflict,
    parse_condition,
    refuse,
)
from millstream.protocol.errors import MalformedError

OFFSET = b"0000000000000000_0000000000000010"
TAG = tail_tag(b"1", 10, closed=False)


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({}, None),
        ({b"stream-expected-offset": OFFSET}, Condition(10, None)),
        ({b"if-match": b"*"}, None),
        ({b"if-match": b" * "}, None),
        ({b"if-match": TAG}, Condition(None, (TAG,))),
        ({b"if-match": b'"a", "b,c" ,\t"",'}, Condition(None, (b'"a"', b'"b,c"', b'""'))),
        ({b"if-match": b'W/"a", "b"'}, Condition(None, (b'"b"',))),
        ({b"if-match": b"W/" + TAG}, Condition(None, ())),
        ({b"stream-expected-offset": OFFSET, b"if-match": b"*"}, Condition(10, None)),
        ({b"stream-expected-offset": OFFSET, b"if-match": TAG}, Condition(10, (TAG,))),
    ],
)
def test_both_headers_are_read(fields: dict[bytes, bytes], condition: Condition | None) -> None:
    assert parse_condition(fields) == condition


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        (b"stream-expected-offset", value, "INVALID_OFFSET")
        for value in (b"", b"-1", b"now", b"10", OFFSET + b"0", OFFSET + b", " + OFFSET, b"../" + OFFSET)
    ]
    + [
        (b"if-match", value, "INVALID_IF_MATCH")
        for value in (b"", b"abc", b'"abc', b'abc"', b"*, *", b'"a" b', b'w/"a"', b'"a" *', b",")
    ],
)
def test_malformed_values_are_refused(name: bytes, value: bytes, code: str) -> None:
    with pytest.raises(MalformedError) as refused:
        parse_condition({name: value})
    assert refused.value.code == code


def test_a_long_list_of_tags_takes_no_longer_than_its_length() -> None:
    """A head is at most 64 KiB; a search that goes back again and again would be noticed here."""
    tags = b'"a",' * 15_000
    assert parse_condition({b"if-match": tags}) == Condition(None, (b'"a"',) * 15_000)
    with pytest.raises(MalformedError):
        parse_condition({b"if-match": b" ," * 30_000 + b"x"})


def test_a_condition_holds_at_the_tail_and_nowhere_else() -> None:
    assert refuse(Condition(10, (b'"old"', TAG)), b"1", 10) is None
    assert refuse(Condition(10, None), b"1", 11) == OffsetConflict(10, 11)
    assert refuse(Condition(11, None), b"1", 10) == OffsetConflict(11, 10)
    assert refuse(Condition(None, (TAG,)), b"1", 11) == TagConflict(11, tail_tag(b"1", 11, closed=False))
    assert refuse(Condition(None, (TAG,)), b"2", 10) == TagConflict(10, tail_tag(b"2", 10, closed=False))
    assert refuse(Condition(None, ()), b"1", 10) == TagConflict(10, TAG)
