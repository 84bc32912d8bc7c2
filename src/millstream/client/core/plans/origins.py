"""Where a read begins that names no offset: at a time, or some messages before the end. An extension.

docs/protocol.md, "Extensions"; rules X7, X8.
"""

import math
from datetime import UTC, datetime, timedelta


def since(when: datetime | timedelta) -> str:
    """Return the offset of what arrived at a time or later, or within so long before the request.

    >>> from datetime import UTC, datetime, timedelta
    >>> since(datetime(2030, 1, 31, 12, 0, tzinfo=UTC))
    'time:2030-01-31T12:00:00.000Z'
    >>> since(timedelta(minutes=10))
    'time:-600s'

    A time without a zone is one of this machine's.
    """
    if isinstance(when, timedelta):
        if when < timedelta():
            raise ValueError("since a time in the future there is nothing yet")
        seconds = math.ceil(when.total_seconds())
        return f"time:-{seconds}s"
    rounded = when.astimezone(UTC).isoformat(timespec="milliseconds")
    return f"time:{rounded.removesuffix('+00:00')}Z"


def last(count: int) -> str:
    """Return the offset before the last messages of a JSON stream, or the last appends of another.

    >>> last(20)
    'last:20'
    """
    if count < 0:
        raise ValueError("a number of messages is not negative")
    return f"last:{count}"
