"""Checkpoints: bring the stream files and the catalog up to the log, so that the log can be cut.

What is on the disk at each step, and what a power cut there leaves. The last checkpoint was of the state
after record 4, this one is of the state after record 8, and meanwhile the log goes on:

        step                     log          files     catalog     a start after a power cut here takes
        1  snapshots taken,      5 6 7 8      to 4      4           4 from the catalog, 5 6 7 8 from the log
           log durable
        2  files of the gone     5 6 7 8 9    to 4      4           the same, and 9: the log still says that
           removed                                                  they are gone, streams and beginnings
        3  tails and new parts   5 6 7 8 9    to 4~8    4           the same: bytes in files beyond what the
           written                                                  catalog knows are ignored
        4  files and folders     5 6 7 8 9    to 8      4           the same
           synced
        5  catalog committed     5 6 7 8 9    to 8      8           8 from the catalog, 9 from the log,
                                                                    which reaches further back than needed
        6  old segments          9            to 8      8           the same
           released, files of
           former parts removed

A snapshot is taken of the accepted state, and written only once the log is durable up to it: neither
the files nor the catalog ever hold a change that a power cut could take out of the log. Files are removed
before others are written, so that a full disk has room for those.

The way of a checkpoint:

        due --> snapshots taken --the log is durable up to them--> writing --> written --> cleaned
                      |                                               |
                      +-- refused: what they show did not happen,     +-- failed: what they show is dirty
                          and nothing was written                         again, if a retry may succeed

One is due after a time, and as soon as memory holds a certain amount that the files lack. When as much
again arrives while it is being written, writers wait for it. So memory holds at most twice that amount,
as long as checkpoints succeed and nothing else holds the guard. If not, the engine refuses changes from
another amount on (`unsaved_bytes`), and one that failed is tried again after the usual time.

There is one at a time, and it holds the guard from the snapshots to the end of writing. The engine
decides when the log is durable, and what a failure means.
"""

import copy
import errno
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import PurePath

import msgspec

from millstream.protocol.streams import Stream
from millstream.store.entries import StreamEntry
from millstream.store.log.catalog import Catalog, ProducerRow, Row, encode_stream
from millstream.store.log.disk import Disk, SyncError, is_full
from millstream.store.log.failpoints import reach
from millstream.store.log.files.content import Extent, StreamFiles, Unflushed, take_back, write_unflushed
from millstream.store.log.files.staged import PartId, StoredPart, part_name, remove_parts, write_parts
from millstream.store.log.guard import NAME as GUARD
from millstream.store.log.intervals import elapsed
from millstream.store.log.runtime import Runtime
from millstream.store.log.stream_cache import StreamCache, content_of
from millstream.store.measures import Measures

APPLIED_LSN = "applied_lsn"
LAST_ID = "next_id"  # its name on the disk

_DUE_STREAMS = 5_000
_DUE_AGE_MS = 5_000
_WARN_POSTPONED_S = 30.0
_RETRIED_SQLITE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_TOOBIG,
)

_log = logging.getLogger("millstream")


# -- What is written -----------------------------------------------------------------------------------


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A stream at one moment. Taking it holds up the event loop, so it only copies."""

    entry: StreamEntry
    stream: Stream
    end: int
    appends: int
    unflushed: Unflushed | None
    extent: Extent
    parts: list[tuple[PartId, bytes]]
    """Those that have no files yet."""
    producers: list[ProducerRow]
    """Those that have changed."""

    @classmethod
    def of(cls, entry: StreamEntry, changed_producers: Iterable[bytes]) -> "Snapshot":
        """Take a snapshot of a stream."""
        content = content_of(entry)
        stream = copy.copy(entry.stream)
        known, stream.producers = stream.producers or {}, None  # they have rows of their own
        producers = [ProducerRow(stream.id, id, known.get(id)) for id in changed_producers]
        parts: list[tuple[PartId, bytes]] = []
        if stream.staged is not None:
            stream.staged = stream.staged.copy()
            parts = [((stream.id, n), data) for n, data in entry.staged.items() if isinstance(data, bytes)]
        unflushed, extent = content.unflushed(), Extent.of(stream)
        return cls(entry, stream, content.end, content.appends, unflushed, extent, parts, producers)

    def row(self) -> Row:
        """Encode the stream as the catalog has it."""
        stream = self.stream
        return Row(stream.id, stream.name, stream.due_ms, self.end, self.appends, encode_stream(stream))

    def drop_saved(self, files: StreamFiles) -> None:
        """Drop from memory what the stream's files now hold."""
        content = content_of(self.entry)
        content.drop_flushed(self.end, self.appends)
        content.note_removed(self.extent)
        staged = self.entry.staged
        for part, data in self.parts:
            if part[1] in staged:
                staged[part[1]] = StoredPart(files, part_name(part), len(data))


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything that changed since the last one, at one moment."""

    lsn: int
    last_id: int
    snapshots: list[Snapshot]
    removed: dict[int, list[str]]
    """Streams that are gone, and their files."""
    trimmed: list[str]
    """Files of which nothing is left, of streams that still exist."""
    released_parts: list[PartId]
    changed_bytes: int
    """How much was logged since the last one."""

    @classmethod
    def take(cls, cache: StreamCache, lsn: int) -> "Checkpoint":
        """Take snapshots of all dirty streams, which are clean from then on."""
        dirty, changed_bytes = cache.dirty, cache.changed_bytes
        cache.dirty, cache.changed_bytes, cache.frees_room = {}, 0, False
        changed = cache.changed_producers
        snapshots = [Snapshot.of(entry, changed.pop(id, ())) for id, entry in dirty.items()]
        trimmed = [name for one in snapshots for name in content_of(one.entry).removable(one.extent, one.end)]
        removed, released = cache.removed.copy(), list(cache.released_parts)
        return cls(lsn, cache.last_id, snapshots, removed, trimmed, released, changed_bytes)

    def write(self, disk: Disk, catalog: Catalog) -> None:
        """Make it the state to recover from; the log must be durable up to its lsn."""
        remove_files(disk, [name for names in self.removed.values() for name in names])
        remove_files(disk, self.trimmed)
        reach("checkpoint.removed")
        unflushed = [one.unflushed for one in self.snapshots if one.unflushed is not None]
        parts = [part for one in self.snapshots for part in one.parts]
        try:
            write_unflushed(disk, unflushed)
            write_parts(disk, parts)
        except OSError as error:
            if is_full(error):  # what was written is not needed, and its room is
                take_back(disk, unflushed)
                remove_parts(disk, [part for part, _ in parts])
            raise
        reach("checkpoint.written")
        remove_files(disk, self.trimmed, sync=True)  # what arrived and was trimmed since was just written
        rows = [one.row() for one in self.snapshots]
        producers = [row for one in self.snapshots for row in one.producers]
        facts = {APPLIED_LSN: self.lsn, LAST_ID: self.last_id}
        catalog.checkpoint(rows, producers, list(self.removed), facts)
        reach("checkpoint.committed")

    def clean(self, disk: Disk) -> None:
        """Remove the files of former parts, now that this is the state to recover from."""
        remove_parts(disk, self.released_parts)
        reach("checkpoint.cleaned")


def remove_files(disk: Disk, names: Iterable[str], *, sync: bool = False) -> None:
    """Remove files, where they exist; `sync` makes sure that they do not come back."""
    folders = set()
    for name in names:
        disk.remove(name)
        folders.add(str(PurePath(name).parent))
    if sync and folders:
        reach("checkpoint.trimmed")
        for folder in sorted(folders):
            disk.sync_folder(folder)


def may_retry(error: BaseException) -> bool:
    """Tell whether a checkpoint that failed is tried again, or the disk is not to be trusted.

    The log has what a checkpoint lacks. So whatever is wrong with one stream or file ends no server: all
    streams go on until too much waits (`unsaved_bytes`), and an operator has the log's word for why.
    """
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _RETRIED_SQLITE
    return not isinstance(error, SyncError) and getattr(error, "errno", 0) != errno.EIO


# -- When, and how it ends -----------------------------------------------------------------------------


class Checkpoints:
    """Checkpoints, one at a time, in the background."""

    def __init__(
        self, catalog: Catalog, files: StreamFiles, runtime: Runtime, measures: Measures, due_bytes: int
    ) -> None:
        self._catalog = catalog
        self._files = files
        self._runtime = runtime
        self._measures = measures
        self._due_bytes = due_bytes
        self._begun_ms = 0
        self.under_way = False  # from the snapshots on
        self.writing = False  # from when the log was durable up to them
        self.in_progress: set[int] = set()
        """The streams that it has snapshots of."""
        self._bytes = 0  # what it has snapshots of
        self._has_failed = False  # the last one did
        self._warned_s = 0.0

    def unsaved_bytes(self, cache: StreamCache) -> int:
        """Give how much of the log is not in the files and the catalog yet."""
        return cache.changed_bytes + self._bytes

    def take_guard(self) -> bool:
        """Take the guard for a checkpoint that is due; one that must be postponed is measured and logged."""
        if self._runtime.take_guard():
            self._measures.postponed_since_s = 0.0
            return True
        now_s = time.monotonic()
        since_s = self._measures.postponed_since_s
        if not since_s:
            self._measures.postponed_since_s = self._warned_s = now_s
        elif now_s - self._warned_s >= _WARN_POSTPONED_S:
            self._warned_s = now_s
            _log.warning(
                "a checkpoint has been postponed for %d s: another process, such as a backup, locks %s",
                now_s - since_s,
                GUARD,
            )
        return False

    def is_due(self, cache: StreamCache, now_ms: int) -> bool:
        """Tell whether it is time for one."""
        if self.under_way or not cache.has_changed:
            return False
        is_large = len(cache.dirty) >= _DUE_STREAMS and not self._has_failed
        return self.is_full(cache) or is_large or elapsed(self._begun_ms, now_ms, _DUE_AGE_MS)

    def is_full(self, cache: StreamCache) -> bool:
        """Tell whether one should begin at once, for the amount that there is to write."""
        return not self.under_way and not self._has_failed and cache.changed_bytes >= self._due_bytes

    def is_behind(self, cache: StreamCache) -> bool:
        """Tell whether enough for another one has arrived while one is being written."""
        return self.writing and cache.changed_bytes >= self._due_bytes

    def begin(self, checkpoint: Checkpoint, now_ms: int) -> None:
        """Begin with the snapshots; `write` or `abort` follows, once the outcome of the log is known."""
        self.under_way = True
        self.in_progress = {snapshot.stream.id for snapshot in checkpoint.snapshots}
        self._begun_ms = now_ms
        self._bytes = checkpoint.changed_bytes

    def abort(self) -> None:
        """Give up: what the snapshots show did not happen."""
        self._finish()

    def write(
        self, checkpoint: Checkpoint, cache: StreamCache, done: Callable[[BaseException | None], None]
    ) -> None:
        """Write in the background, now that the log is durable up to the snapshots."""
        self.writing = True
        for snapshot in checkpoint.snapshots:
            content_of(snapshot.entry).narrow(snapshot.extent)

        def job() -> None:
            began_s = time.monotonic()
            checkpoint.write(self._files.disk, self._catalog)
            self._measures.checkpoint_s.observe(time.monotonic() - began_s)

        def finish(error: BaseException | None) -> None:
            self._files.close_some(checkpoint.trimmed)
            self._finish()
            self._has_failed = error is not None
            if error is None:
                self._drop_saved(checkpoint, cache)
                self._clean_after(checkpoint, cache)
            elif may_retry(error):
                _log.error("a checkpoint failed and will be tried again: %s", error)
                self._measures.checkpoint_failures += 1
                _mark_dirty(checkpoint, cache)
            done(error)

        self._runtime.begin_job(job, finish)

    def _finish(self) -> None:
        self.under_way = self.writing = False
        self.in_progress = set()
        self._bytes = 0
        self._runtime.release_guard()

    def _drop_saved(self, checkpoint: Checkpoint, cache: StreamCache) -> None:
        """Drop from memory what the files and the catalog now hold."""
        for snapshot in checkpoint.snapshots:
            stream = snapshot.entry.stream
            if cache.by_id.get(stream.id) is snapshot.entry:
                snapshot.drop_saved(self._files)
                cache.unsaved_names.discard(stream.name)
        for id in checkpoint.removed:
            cache.removed.pop(id, None)

    def _clean_after(self, checkpoint: Checkpoint, cache: StreamCache) -> None:
        """Remove the files of former parts; what cannot be removed is found again at the next start."""
        if not checkpoint.released_parts:
            return
        cache.released_parts.difference_update(checkpoint.released_parts)
        self._files.close_some(part_name(part) for part in checkpoint.released_parts)

        def done(error: BaseException | None) -> None:
            if error is not None:
                _log.error("files of former parts could not be removed: %s", error)

        self._runtime.begin_job(lambda: checkpoint.clean(self._files.disk), done)


def _mark_dirty(checkpoint: Checkpoint, cache: StreamCache) -> None:
    cache.changed_bytes += checkpoint.changed_bytes
    for snapshot in checkpoint.snapshots:
        id = snapshot.stream.id
        if cache.by_id.get(id) is snapshot.entry:
            cache.dirty[id] = snapshot.entry
            for row in snapshot.producers:
                cache.note_producers(id, row.producer_id)
