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

import errno
import logging
import sqlite3
import time
from collections.abc import Callable

from millstream.store.log.catalog import Catalog
from millstream.store.log.disk import SyncError
from millstream.store.log.files.content import StreamFiles
from millstream.store.log.files.staged import part_name
from millstream.store.log.intervals import elapsed
from millstream.store.log.runtime import Runtime
from millstream.store.log.saving.guard import NAME as GUARD
from millstream.store.log.saving.snapshots import Checkpoint, Snapshot, Written
from millstream.store.log.stream_cache import StreamCache, content_of
from millstream.store.measures import Measures

_DUE_STREAMS = 5_000
_DUE_AGE_MS = 5_000
_WARN_POSTPONED_S = 30.0
_MAX_NAMED = 10  # streams that a checkpoint could not save and that have lines of their own in the log
_RETRIED_SQLITE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_TOOBIG,
)

_log = logging.getLogger("millstream")


def may_retry(error: BaseException) -> bool:
    """Tell whether a checkpoint that failed is tried again, or the disk is not to be trusted.

    The log has what a checkpoint lacks, so all streams go on until too much waits (`unsaved_bytes`). What is
    wrong with one stream only fails no checkpoint (`held`).
    """
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _RETRIED_SQLITE
    return not isinstance(error, SyncError) and getattr(error, "errno", 0) != errno.EIO


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
        """Give how much waits for a checkpoint, without what was held back by the last one."""
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
        is_large = len(cache.dirty) - len(cache.held_back) >= _DUE_STREAMS and not self._has_failed
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

        written: list[Written] = []

        def job() -> None:
            began_s = time.monotonic()
            written.append(checkpoint.write(self._files.disk, self._catalog))
            self._measures.checkpoint_s.observe(time.monotonic() - began_s)

        def finish(error: BaseException | None) -> None:
            for names in checkpoint.trimmed.values():
                self._files.close_some(names)
            self._finish()
            self._has_failed = error is not None
            if error is None:
                self._drop_saved(checkpoint, written[0], cache)
                self._hold_back(checkpoint, written[0], cache)
                self._clean_after(checkpoint, written[0], cache)
            elif may_retry(error):
                _log.error("a checkpoint failed and will be tried again: %s", error)
                self._measures.checkpoint_failures += 1
                cache.changed_bytes += checkpoint.changed_bytes
                for snapshot in checkpoint.snapshots:
                    _mark_dirty(snapshot, cache)
            done(error)

        self._runtime.begin_job(job, finish)

    def _finish(self) -> None:
        self.under_way = self.writing = False
        self.in_progress = set()
        self._bytes = 0
        self._runtime.release_guard()

    def _drop_saved(self, checkpoint: Checkpoint, written: Written, cache: StreamCache) -> None:
        """Drop from memory what the files and the catalog now hold."""
        for snapshot in checkpoint.snapshots:
            stream = snapshot.entry.stream
            if stream.id not in written.unsaved and cache.by_id.get(stream.id) is snapshot.entry:
                snapshot.drop_saved(self._files)
                snapshot.entry.refusal = None
                cache.unsaved_names.discard(stream.name)
                if cache.held_back.pop(stream.id, None) is not None:
                    _log.warning("%s is saved", stream.name)
        for id in checkpoint.removed:
            if id not in written.not_removed:
                cache.removed.pop(id, None)

    def _hold_back(self, checkpoint: Checkpoint, written: Written, cache: StreamCache) -> None:
        """Keep what could not be saved in memory, and try again with the next checkpoint."""
        named = 0
        for snapshot in checkpoint.snapshots if written.unsaved else ():
            id = snapshot.stream.id
            if id in written.unsaved and cache.by_id.get(id) is snapshot.entry:
                if id not in cache.held_back and (named := named + 1) <= _MAX_NAMED:
                    _log.error("%s cannot be saved: %s", snapshot.stream.name, written.unsaved[id])
                cache.held_back[id] = cache.held_back.get(id, 0) + written.held_bytes[id]
                _mark_dirty(snapshot, cache)
        if named > _MAX_NAMED:
            _log.error("%d more streams cannot be saved", named - _MAX_NAMED)
        for error in written.not_removed.values():
            _log.error("a file of a deleted stream cannot be removed: %s", error)

    def _clean_after(self, checkpoint: Checkpoint, written: Written, cache: StreamCache) -> None:
        """Remove the files of former parts; what cannot be removed is found again at the next start."""
        released = [part for part in checkpoint.released_parts if part[0] not in written.unsaved]
        if not released:
            return
        cache.released_parts.difference_update(released)
        self._files.close_some(part_name(part) for part in released)

        def done(error: BaseException | None) -> None:
            if error is not None:
                _log.error("files of former parts could not be removed: %s", error)

        self._runtime.begin_job(lambda: checkpoint.clean(self._files.disk, released), done)


def _mark_dirty(snapshot: Snapshot, cache: StreamCache) -> None:
    id = snapshot.stream.id
    if cache.by_id.get(id) is snapshot.entry:
        cache.dirty[id] = snapshot.entry
        for row in snapshot.producers:
            cache.note_producers(id, row.producer_id)
