"""Examining what is saved: everything is read, a step at a time, and what is damaged is named."""

from collections.abc import Callable

from millstream.store.log.wal.segments import DamagedError


def complaint_of(read: Callable[[], object]) -> str | None:
    """Read something, and give what is wrong with it; None when it is as it was written."""
    try:
        read()
    except DamagedError as error:
        return str(error)
    return None
