"""Checkpoints: bring the stream files and the catalog up to the log, so that the log can be cut.

What is on the disk at each step, and what a power cut there leaves:

        1  nothing new yet             the old catalog, the whole log
        2  tails in stream files,      the same: bytes beyond what the catalog knows are ignored, and
           files of the gone removed   the log still says that the gone are gone
        3  files and names synced      the same
        4  catalog committed           the new catalog; the log still reaches further back than needed
        5  old segments released       done

Every record sets values and adds none, so replaying one that a row already knows does no harm.
"""

import msgspec

from millstream.store.log.catalog import Catalog, Row
from millstream.store.log.content import Unflushed, remove_files, write_unflushed
from millstream.store.log.disk import Disk
from millstream.store.table import Kept

APPLIED_LSN = "applied_lsn"
NEXT_ID = "next_id"


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
        remove_files(disk, self.gone)
        catalog.checkpoint(self.rows, self.gone, {APPLIED_LSN: self.lsn, NEXT_ID: self.next_id})
