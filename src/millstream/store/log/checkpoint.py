"""Checkpoints: bring the stream files and the catalog up to the log, so that the log can be cut.

What is on the disk at each step, and what a power cut there leaves:

        1  nothing new yet             the old catalog, the whole log
        2  tails in stream files,      the same: bytes beyond what the catalog knows are ignored, and
           files of the gone removed   the log still says that the gone are gone
        3  files and names synced      the same
        4  catalog committed           the new catalog; the log still reaches further back than needed
        5  old segments released       done

The picture is taken of the accepted state, and written only once the log is durable up to it: neither
the files nor the catalog ever hold a change that a power cut could take out of the log.
"""

import errno
import sqlite3

import msgspec

from millstream.store.log.catalog import Catalog, Row
from millstream.store.log.content import Unflushed, remove_files, write_unflushed
from millstream.store.log.disk import Disk, SyncError
from millstream.store.log.failpoints import reach
from millstream.store.table import Kept

APPLIED_LSN = "applied_lsn"
NEXT_ID = "next_id"

_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_PASSING_SQLITE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN)


class Checkpoint(msgspec.Struct, frozen=True):
    """A picture of everything that changed since the last one, taken in one moment."""

    lsn: int
    next_id: int
    rows: list[Row]
    unflushed: list[Unflushed]
    kept: list[Kept]
    gone: list[int]

    def write(self, disk: Disk, catalog: Catalog) -> None:
        """Make it the state to recover from; the log must be durable up to its lsn."""
        write_unflushed(disk, self.unflushed)
        reach("checkpoint.written")
        remove_files(disk, self.gone)
        reach("checkpoint.removed")
        catalog.checkpoint(self.rows, self.gone, {APPLIED_LSN: self.lsn, NEXT_ID: self.next_id})
        reach("checkpoint.committed")


def may_pass(error: BaseException) -> bool:
    """Tell whether a checkpoint that failed may be tried again, or the disk is not to be trusted."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING_SQLITE
    return isinstance(error, OSError) and error.errno in _PASSING and not isinstance(error, SyncError)
