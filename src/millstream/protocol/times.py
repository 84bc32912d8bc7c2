"""Times: RFC 3339 on the wire, milliseconds since 1970 in the code.

PROTOCOL.md 5.1; rules C3, X7.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

from millstream.protocol.errors import MalformedError

_RFC_3339 = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):([0-5]\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_time(time_ms: int) -> bytes:
    """Write a time with milliseconds, in UTC."""
    second, milliseconds = divmod(time_ms, 1000)
    return b"%b.%03dZ" % (_format_second(second), milliseconds)


@lru_cache(maxsize=64)  # most responses are about the last few seconds
def _format_second(second: int) -> bytes:
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S").encode()


def parse_timestamp_ms(text: bytes, name: str, *, round_up: bool = False) -> int:
    """Read an RFC 3339 timestamp as milliseconds since 1970; finer digits are dropped, or rounded up."""
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
            f"{name} must be an RFC 3339 time with a zone, such as 2030-01-31T12:00:00Z.",
        ) from None
    digits = fraction or b""
    milliseconds = int(digits.ljust(3, b"0")[:3]) + (round_up and bool(digits[3:].strip(b"0")))
    return int((instant - _EPOCH) / timedelta(milliseconds=1)) + milliseconds
