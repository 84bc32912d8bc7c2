"""Expiry: how long a stream lives, and what renews it.

A TTL is a sliding window, renewed by every read and write; an expiry time is fixed. A stream has at most
one of the two. HEAD renews nothing.

PROTOCOL.md 5.1, 5.5; rules C3, F4, G8.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

import msgspec

from millstream.protocol.errors import MalformedError
from millstream.protocol.headers import MAX_SAFE_INTEGER, parse_canonical_integer

_RFC_3339 = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):([0-5]\d))", re.ASCII
)

_MAX_TTL_DIGITS: Final = len(str(MAX_SAFE_INTEGER))


class Lifetime(msgspec.Struct, frozen=True, gc=False):
    """How long a stream lives: for ever, for a TTL after its last use, or until a fixed time."""

    ttl_s: int | None = None
    expires_at: bytes | None = None
    expires_ms: int | None = None

    def __bool__(self) -> bool:
        return self.ttl_s is not None or self.expires_ms is not None

    @property
    def is_sliding(self) -> bool:
        """Whether every GET and POST renews the lifetime: a TTL, but not a fixed expiry (rule G8)."""
        return self.ttl_s is not None

    def same(self, other: "Lifetime") -> bool:
        """Tell whether two lifetimes are the same; one instant has many spellings."""
        return self.ttl_s == other.ttl_s and self.expires_ms == other.expires_ms

    def deadline_ms(self, now_ms: int) -> int | None:
        """Give the deadline of a stream that was last used at `now_ms`."""
        if self.ttl_s is not None:
            return now_ms + self.ttl_s * 1000
        return self.expires_ms


FOREVER = Lifetime()


def parse_lifetime(ttl: bytes | None, expires_at: bytes | None) -> Lifetime:
    """Read `Stream-TTL` and `Stream-Expires-At`; both together are refused (rule C3)."""
    if ttl is not None:
        if expires_at is not None:
            raise MalformedError("CONFLICTING_EXPIRY", "Give Stream-TTL or Stream-Expires-At, not both.")
        return Lifetime(ttl_s=_parse_ttl(ttl))
    if expires_at is not None:
        return Lifetime(expires_at=expires_at, expires_ms=parse_timestamp_ms(expires_at))
    return FOREVER


def _parse_ttl(text: bytes) -> int:
    """Read a TTL; one of more than 2^53-1 seconds, which no stream will reach, counts as so many."""
    if text.isdigit() and text[:1] != b"0" and len(text) >= _MAX_TTL_DIGITS:
        return min(int(text), MAX_SAFE_INTEGER) if len(text) == _MAX_TTL_DIGITS else MAX_SAFE_INTEGER
    return parse_canonical_integer(text, "Stream-TTL")


def parse_timestamp_ms(text: bytes) -> int:
    """Read an RFC 3339 timestamp as milliseconds since 1970."""
    match = _RFC_3339.fullmatch(text)
    try:
        if match is None:
            raise ValueError  # noqa: TRY301  one exit for both ways to be wrong
        *date_and_time, fraction, sign, zone_hours, zone_minutes = match.groups()
        year, month, day, hour, minute, second = map(int, date_and_time)
        zone = timezone.utc  # noqa: UP017  a timezone, where UTC is typed as its subclass
        if sign is not None:
            shift = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
            zone = timezone(-shift if sign == b"-" else shift)
        leap, second = divmod(second, 60) if second == 60 else (0, second)
        instant = datetime(year, month, day, hour, minute, second, tzinfo=zone) + timedelta(minutes=leap)
    except (ValueError, OverflowError):
        raise MalformedError(
            "INVALID_TIMESTAMP",
            "Stream-Expires-At must be an RFC 3339 time with a zone, such as 2030-01-31T12:00:00Z.",
        ) from None
    milliseconds = int((fraction or b"").ljust(3, b"0")[:3])
    return int((instant - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)) + milliseconds
