"""Checkpoints: bring the stream files and the catalog up to the log, so that the log can be cut.

What is on the disk at each step, and what a power cut there leaves. The last checkpoint was of the state
after record 4, this one is of the state after record 8, and meanwhile the log goes on:

        step                     log          files     catalog     a start after a power cut here takes
        1  pictures taken,       5 6 7 8      to 4      4           4 from the catalog, 5 6 7 8 from the log
           log durable
        2  tails and new parts   5 6 7 8 9    to 4~8    4           the same, and 9: bytes in files beyond
           written                                                  what the catalog knows are ignored
        3  files and folders     5 6 7 8 9    to 8      4           the same
           synced
        4  files of the gone     5 6 7 8 9    to 8      4           the same: the log still says that they
           removed                                                  are gone, streams and beginnings
        5  catalog committed     5 6 7 8 9    to 8      8           8 from the catalog, 9 from the log,
                                                                    which reaches further back than needed
        6  old segments          9            to 8      8           the same
           released, files of
           former parts removed

The picture is taken of the accepted state, and written only once the log is durable up to it: neither
the files nor the catalog ever hold a change that a power cut could take out of the log.
"""

import copy
import errno
import sqlite3

import msgspec

from millstream.protocol.streams import Stream
from millstream.store.log.catalog import Catalog, Row, encode_stream
from millstream.store.log.disk import Disk, SyncError, is_full
from millstream.store.log.failpoints import reach
from millstream.store.log.files.content import Extent, StreamFiles, Unflushed, write_unflushed
from millstream.store.log.files.removal import remove_files
from millstream.store.log.files.staged import PartId, StoredPart, part_name, remove_parts, write_parts
from millstream.store.log.stream_cache import Residents, content_of
from millstream.store.table import Kept

APPLIED_LSN = "applied_lsn"
NEXT_ID = "next_id"

_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_PASSING_SQLITE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN)


class Picture(msgspec.Struct, frozen=True, gc=False):
    """A stream as it was in one moment. Taking it holds up the event loop, so it copies and no more."""

    kept: Kept
    stream: Stream
    end: int
    appends: int
    unflushed: Unflushed | None
    extent: Extent
    parts: list[tuple[PartId, bytes]]
    """Those that have no files yet."""

    @classmethod
    def of(cls, kept: Kept) -> "Picture":
        """Take a picture of a stream."""
        content = content_of(kept)
        stream = copy.copy(kept.stream)
        if stream.producers is not None:
            stream.producers = stream.producers.copy()
        parts: list[tuple[PartId, bytes]] = []
        if stream.staged is not None:
            stream.staged = stream.staged.copy()
            parts = [((stream.id, n), data) for n, data in kept.staged.items() if isinstance(data, bytes)]
        unflushed, extent = content.unflushed(), Extent.of(stream)
        return cls(kept, stream, content.end, content.appends, unflushed, extent, parts)

    def row(self) -> Row:
        """Write the stream as the catalog has it."""
        stream = self.stream
        return Row(stream.id, stream.name, stream.due_ms, self.end, self.appends, encode_stream(stream))

    def forget_saved(self, files: StreamFiles) -> None:
        """Drop from memory what the stream's files now hold."""
        content = content_of(self.kept)
        content.forget(self.end, self.appends)
        content.forget_removed(self.extent)
        staged = self.kept.staged
        for part, data in self.parts:
            if part[1] in staged:
                staged[part[1]] = StoredPart(files, part_name(part), len(data))


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything that changed since the last one, as it was in one moment."""

    lsn: int
    next_id: int
    pictures: list[Picture]
    gone: dict[int, list[str]]
    """Streams that are no more, and their files."""
    trimmed: list[str]
    """Files of which nothing is left, of streams that are."""
    released: list[PartId]

    @classmethod
    def take(cls, residents: Residents, lsn: int) -> "Checkpoint":
        """Take pictures of all that is dirty, which it is no more."""
        dirty, residents.dirty, residents.changed_bytes = residents.dirty, {}, 0
        pictures = [Picture.of(kept) for kept in dirty.values()]
        trimmed = [name for one in pictures for name in content_of(one.kept).removable(one.extent, one.end)]
        gone, released = residents.lost.copy(), list(residents.released)
        return cls(lsn, residents.next_id, pictures, gone, trimmed, released)

    def write(self, disk: Disk, catalog: Catalog) -> None:
        """Make it the state to recover from; the log must be durable up to its lsn."""
        write_unflushed(disk, [one.unflushed for one in self.pictures if one.unflushed is not None])
        write_parts(disk, [part for one in self.pictures for part in one.parts])
        reach("checkpoint.written")
        remove_files(disk, [name for names in self.gone.values() for name in names])
        remove_files(disk, self.trimmed, sync=True)
        reach("checkpoint.removed")
        rows = [one.row() for one in self.pictures]
        catalog.checkpoint(rows, list(self.gone), {APPLIED_LSN: self.lsn, NEXT_ID: self.next_id})
        reach("checkpoint.committed")

    def clean(self, disk: Disk) -> None:
        """Remove the files that nobody needs any more, now that it is the state to recover from."""
        remove_parts(disk, self.released)
        reach("checkpoint.cleaned")


def may_pass(error: BaseException) -> bool:
    """Tell whether a checkpoint that failed may be tried again, or the disk is not to be trusted."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING_SQLITE
    if isinstance(error, SyncError):
        return False
    return is_full(error) or (isinstance(error, OSError) and error.errno in _PASSING)
