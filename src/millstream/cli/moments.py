"""Times on the command line: `10m` ago, `12:00` today, `2030-01-31`, or an RFC 3339 time.

A time without a zone is one of this machine's.
"""

import re
from datetime import UTC, datetime, timedelta

from millstream.cli.exits import Exit, Failure
from millstream.client.core.plans.origins import since

_AGO = re.compile(r"-?(\d{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")


def parse(text: str, option: str) -> datetime:
    """Parse what the user gave as a time."""
    now = datetime.now(UTC).astimezone()
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        if _CLOCK.fullmatch(text) is not None:
            clock = datetime.strptime(text, "%H:%M" if text.count(":") == 1 else "%H:%M:%S")
            return now.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise Failure(
            Exit.USAGE,
            f"{option} is not a time",
            "10m, 2h or 3d ago, 12:00 today, 2030-01-31 or 2030-01-31T12:00:00Z",
        ) from None


def origin(text: str, option: str) -> str:
    """Give the offset of what arrived at a time or later."""
    return since(parse(text, option))
