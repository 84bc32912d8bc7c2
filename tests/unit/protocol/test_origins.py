"""Origins: times and numbers of messages, parsed. Rules X7, X8."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.caching import NO_STORE, PUBLIC, for_read
from millstream.protocol.errors import MalformedError
from millstream.protocol.offsets import START
from millstream.protocol.origins import MAX_LAST, Ago, Last, Origin, Since, parse_origin
from millstream.protocol.queries import Query
from millstream.protocol.requests import parse_read
from millstream.protocol.times import format_time, parse_timestamp_ms


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        (b"time:1970-01-01T00:00:01Z", Since(1000)),
        (b"time:1970-01-01T00:00:00.1234Z", Since(124)),  # what arrived at .123 was before it
        (b"time:1970-01-01T00:00:00.12300Z", Since(123)),
        (b"time:1970-01-01T01:00:00+01:00", Since(0)),
        (b"time:-0s", Ago(0)),
        (b"time:-90s", Ago(90_000)),
        (b"time:-10m", Ago(600_000)),
        (b"time:-2h", Ago(7_200_000)),
        (b"time:-3d", Ago(259_200_000)),
        (b"last:0", Last(0)),
        (b"last:20", Last(20)),
        (b"last:100000", Last(MAX_LAST)),
    ],
)
def test_an_origin_is_a_time_or_a_number(text: bytes, origin: Origin) -> None:
    """X7, X8."""
    assert parse_origin(text) == origin
    assert parse_read(Query(b"offset=" + text.replace(b"+", b"%2B"))).origin == origin


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (b"time:", "INVALID_TIMESTAMP", "RFC 3339"),
        (b"time:noon", "INVALID_TIMESTAMP", "2030-01-31T12:00:00Z"),
        (b"time:-10", "INVALID_TIMESTAMP", "time:-10m"),
        (b"time:-1w", "INVALID_TIMESTAMP", "s, m, h or d"),
        (b"time:-9999999999999s", "INVALID_TIMESTAMP", "s, m, h or d"),
        (b"time:2030-01-31T12:00:00 01:00", "INVALID_TIMESTAMP", "%2B"),
        (b"last:", "INVALID_LAST", "last:20"),
        (b"last:-1", "INVALID_LAST", "last:20"),
        (b"last:007", "INVALID_LAST", "last:20"),
        (b"last:100001", "INVALID_LAST", "at most 100000"),
        (b"last:" + b"9" * 5000, "INVALID_LAST", "at most 100000"),
    ],
)
def test_what_is_neither_says_what_is_wrong(text: bytes, code: str, words: str) -> None:
    """X7, X8, O3."""
    with pytest.raises(MalformedError) as refused:
        parse_origin(text)
    assert refused.value.code == code
    assert words in refused.value.detail


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_is_written_as_it_is_read(time_ms: int) -> None:
    """X7."""
    assert parse_timestamp_ms(format_time(time_ms), "it") == time_ms
    assert len(format_time(time_ms)) == len("2030-01-31T12:00:00.000Z")


@pytest.mark.parametrize(
    ("origin", "is_empty", "cache"),
    [
        (Since(5), False, PUBLIC),
        (Since(5), True, NO_STORE),
        (Ago(5), False, NO_STORE),
        (Last(5), False, NO_STORE),
        (None, True, PUBLIC),
    ],
)
def test_only_what_stays_is_cached(origin: Origin | None, is_empty: bool, cache: bytes) -> None:
    """X7, X8, G6."""
    assert for_read(START, PUBLIC, origin, is_empty=is_empty) == cache
