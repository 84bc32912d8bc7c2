"""Lifetimes: rules C3, F4, G8."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import MalformedError
from millstream.protocol.expiry import FOREVER, Lifetime, parse_lifetime
from millstream.protocol.times import parse_timestamp_ms

NEW_YEAR_2030_MS = 1_893_456_000_000


@pytest.mark.parametrize(
    ("text", "after_new_year_ms"),
    [
        (b"2030-01-01T00:00:00Z", 0),
        (b"2030-01-01t00:00:00z", 0),
        (b"2030-01-01T00:00:00.5Z", 500),
        (b"2030-01-01T00:00:00.123Z", 123),
        (b"2030-01-01T00:00:00.1239Z", 123),
        (b"2030-01-01T00:00:00.001999999Z", 1),
        (b"2030-01-01T00:00:00.000000000000001Z", 0),
        (b"2030-01-01T00:00:00+00:00", 0),
        (b"2030-01-01T00:00:00-00:00", 0),
        (b"2030-01-01T01:00:00+01:00", 0),
        (b"2029-12-31T23:30:00-00:30", 0),
        (b"2030-01-01T05:45:00+05:45", 0),
        (b"2029-12-31T00:01:00-23:59", 0),
        (b"2029-12-31T23:59:60Z", 0),  # a leap second is the next one
        (b"2030-01-01T00:59:60.250+01:00", 250),
        (b"1970-01-01T00:00:00Z", -NEW_YEAR_2030_MS),
        (b"1969-12-31T23:59:59.999Z", -NEW_YEAR_2030_MS - 1),
        (b"2032-02-29T00:00:00Z", 789 * 86_400_000),
    ],
)
def test_a_timestamp_is_an_instant(text: bytes, after_new_year_ms: int) -> None:
    """C3."""
    assert parse_timestamp_ms(text, "it") == NEW_YEAR_2030_MS + after_new_year_ms


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"tomorrow",
        b"1893456000",
        b"2030-01-01",
        b"2030-01-01T00:00:00",  # no zone
        b"2030-01-01T00:00Z",
        b"2030-01-01 00:00:00Z",
        b"2030-1-1T00:00:00Z",
        b"2030-01-01T00:00:00.Z",
        b"2030-01-01T00:00:00,5Z",
        b"2030-01-01T00:00:00+0100",
        b"2030-01-01T00:00:00+01",
        b"2030-01-01T00:00:00+24:00",
        b"2030-01-01T00:00:00+01:60",
        b"2030-01-01T00:00:00-01:99",
        b"2030-13-01T00:00:00Z",
        b"2030-00-01T00:00:00Z",
        b"2030-02-29T00:00:00Z",
        b"2030-01-32T00:00:00Z",
        b"2030-01-01T24:00:00Z",
        b"2030-01-01T00:60:00Z",
        b"2030-01-01T00:00:61Z",
        b"0000-01-01T00:00:00Z",
        b"9999-12-31T23:59:60Z",
        b"+2030-01-01T00:00:00Z",
        b" 2030-01-01T00:00:00Z",
        b"2030-01-01T00:00:00Z\n",
        b"2030-01-01T00:00:00Zjunk",
        b"2030-W01-1T00:00:00Z",
        "２０３０-01-01T00:00:00Z".encode(),
        b"Tue, 01 Jan 2030 00:00:00 GMT",
    ],
)
def test_anything_else_is_no_timestamp(text: bytes) -> None:
    """C3."""
    with pytest.raises(MalformedError) as refused:
        parse_timestamp_ms(text, "it")
    assert refused.value.code == "INVALID_TIMESTAMP"


zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=zones))
def test_what_python_writes_is_read_to_the_millisecond(instant: datetime) -> None:
    """C3."""
    since_1970 = instant - datetime(1970, 1, 1, tzinfo=UTC)
    assert parse_timestamp_ms(instant.isoformat().encode(), "it") == since_1970 // timedelta(milliseconds=1)


@pytest.mark.parametrize("ttl", [b"0", b"1", b"86400", b"9007199254740991"])
def test_a_ttl_is_a_whole_number_of_seconds(ttl: bytes) -> None:
    """C3."""
    assert parse_lifetime(ttl, None) == Lifetime(ttl_s=int(ttl))


@pytest.mark.parametrize("ttl", [b"9007199254740992", b"9" * 16, b"1" + b"0" * 16, b"9" * 30_000])
def test_a_ttl_beyond_all_clocks_is_the_longest_that_there_is(ttl: bytes) -> None:
    """C3: as an integer of any size, it would not fit into what keeps it."""
    assert parse_lifetime(ttl, None) == Lifetime(ttl_s=2**53 - 1)


@pytest.mark.parametrize(
    "ttl",
    [
        b"",
        b"-1",
        b"+1",
        b"01",
        b"00",
        b"1.0",
        b"1.5",
        b"1e3",
        b"0x10",
        b" 1",
        b"abc",
        b"0" * 5000,
        b"1" * 99 + b"x",
    ],
)
def test_anything_else_is_no_ttl(ttl: bytes) -> None:
    """C3."""
    with pytest.raises(MalformedError):
        parse_lifetime(ttl, None)


def test_a_stream_has_one_kind_of_lifetime() -> None:
    """C3."""
    assert parse_lifetime(None, None) is FOREVER
    with pytest.raises(MalformedError) as refused:
        parse_lifetime(b"60", b"2030-01-01T00:00:00Z")
    assert refused.value.code == "CONFLICTING_EXPIRY"


def test_an_expiry_is_echoed_as_it_was_given_and_compared_by_what_it_means() -> None:
    """C1, G8."""
    one = parse_lifetime(None, b"2030-01-01T00:00:00Z")
    other = parse_lifetime(None, b"2030-01-01T01:00:00+01:00")
    assert one.expires_at == b"2030-01-01T00:00:00Z"
    assert one != other
    assert one.same(other)
    assert not one.same(parse_lifetime(None, b"2030-01-01T00:00:01Z"))
    assert not one.same(FOREVER)


@pytest.mark.parametrize(
    ("lifetime", "deadline_ms"),
    [(FOREVER, None), (Lifetime(ttl_s=2), 3_000), (Lifetime(ttl_s=0), 1_000), (Lifetime(expires_ms=5), 5)],
)
def test_a_window_slides_and_a_fixed_time_stays(lifetime: Lifetime, deadline_ms: int | None) -> None:
    """F4, G8."""
    assert lifetime.deadline_ms(1_000) == deadline_ms
    assert bool(lifetime) is (deadline_ms is not None)
