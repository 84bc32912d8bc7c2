"""What a checkpoint could not save: a failure of one stream, or one of the whole disk?

A failure of one stream is noted, and all others are saved. Anything else ends the checkpoint.
"""

import contextlib
import errno
import sqlite3
from collections.abc import Iterator

from millstream.store.log.disk import SyncError, is_full

_OF_ALL = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EROFS)


def is_of_one_stream(error: BaseException) -> bool:
    """Tell whether what kept a stream from being saved says nothing about the others."""
    if isinstance(error, OSError):
        return not isinstance(error, SyncError) and not is_full(error) and error.errno not in _OF_ALL
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_TOOBIG
    return isinstance(error, Exception) and not isinstance(error, MemoryError)


class Failures:
    """The streams that could not be saved, and why."""

    def __init__(self) -> None:
        self.errors: dict[int, Exception] = {}

    @contextlib.contextmanager
    def of(self, stream_id: int) -> Iterator[None]:
        """Note what fails in here, if it is of this stream only."""
        try:
            yield
        except Exception as error:
            self.note(stream_id, error)

    def note(self, stream_id: int, error: Exception) -> None:
        """Note an error, or raise it if it is not of this stream only."""
        if not is_of_one_stream(error):
            raise error
        self.errors.setdefault(stream_id, error)
