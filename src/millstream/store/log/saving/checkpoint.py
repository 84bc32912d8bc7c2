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

One is due as soon as memory holds a certain amount that the files lack. What it costs is mostly work for
each stream, so the amount is larger when many have changed. When as much again arrives while it is being
written, writers wait for it. So memory holds at most twice that amount, as long as checkpoints succeed and
nothing else holds the guard. If not, the engine refuses changes from another amount on (`unsaved_bytes`).

One is also due after a time: of minutes, since a stream that changes several times until then is written
once, and that amount bounds how long recovery takes; of seconds when it frees room, when files are left that
nothing needs any more, or when the last one could not save everything.

There is one at a time, and it holds the guard from the snapshots to the end of writing. The engine
decides when the log is durable, and what a failure means. What has to be done for each stream is done some
streams at a time (`taking`, `Runtime.begin_work`), however many there are.
"""

import errno
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial

from millstream.store.log.cache.stream_cache import StreamCache, content_of
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.disk import SyncError
from millstream.store.log.files.extents import WHOLE
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.staged import part_name
from millstream.store.log.intervals import elapsed
from millstream.store.log.runtime import Runtime
from millstream.store.log.saving.guard import NAME as GUARD
from millstream.store.log.saving.snapshots import Checkpoint, Snapshot, Written
from millstream.store.log.saving.taking import Taking
from millstream.store.measures import Measures

_DUE_AGE_MS = 300_000
_SOON_AGE_MS = 30_000  # when files are left over, or when the last one failed or could not save some streams
_FREEING_AGE_MS = 5_000  # when it frees room
_AWAITED_AGE_MS = 1_000  # when a full disk needs the room that it frees
_DUE_SHARE_BYTES = 5 * 2**10
"""How much of the memory there must be for each stream that waits for a checkpoint, or it begins: an entry,
what has changed, a snapshot, and as much again for streams that change while it is written."""
_DIRTY_BYTES = 400
"""What a stream that has changed takes for that; measured, as are entries (`memory_use`)."""
_TAKEN_BYTES = 1_100
"""What a stream takes that is in a checkpoint: also its snapshot, and what is written of it."""
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
        self,
        catalog: Catalog,
        files: StreamFiles,
        runtime: Runtime,
        measures: Measures,
        due_bytes: Callable[[int], int],
        memory_bytes: int,
    ) -> None:
        self._catalog = catalog
        self._files = files
        self._runtime = runtime
        self._measures = measures
        self._due_bytes = due_bytes
        # What is dirty cannot leave memory, and most of what has changed waits for the next one meanwhile.
        self._due_streams = max(1, memory_bytes // _DUE_SHARE_BYTES)
        self._begun_ms = 0
        self.taking: Taking | None = None
        """Its snapshots; None when no checkpoint is under way."""
        self.writing = False  # from when all snapshots are taken, and the log is durable up to them
        self._has_failed = False  # the last one did
        self._warned_s = 0.0

    def unsaved_bytes(self, cache: StreamCache) -> int:
        """Give how much waits for a checkpoint, without what was held back by the last one."""
        return cache.changed_bytes + (self.taking.changed_bytes if self.taking is not None else 0)

    def working_bytes(self, cache: StreamCache) -> int:
        """Give what the streams take that wait for one, beside their entries and what was logged of them."""
        taken = _TAKEN_BYTES * len(self.taking) if self.taking is not None else 0
        return taken + _DIRTY_BYTES * len(cache.dirty)

    @property
    def under_way(self) -> bool:
        """Whether there is one, from its beginning until memory is rid of what it saved."""
        return self.taking is not None

    def includes(self, stream_id: int) -> bool:
        """Tell whether a stream is part of the one that is under way."""
        return self.taking is not None and stream_id in self.taking

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

    def is_due(self, cache: StreamCache, now_ms: int, *, is_awaited: bool = False) -> bool:
        """Tell whether it is time for one."""
        if self.under_way or not cache.has_changed:
            return False
        is_large = len(cache.dirty) - len(cache.held_back) >= self._due_streams and not self._has_failed
        if self.is_full(cache) or is_large:
            return True
        return elapsed(self._begun_ms, now_ms, self._due_age_ms(cache, is_awaited=is_awaited))

    def _due_age_ms(self, cache: StreamCache, *, is_awaited: bool) -> int:
        if is_awaited:
            return _AWAITED_AGE_MS
        if cache.frees_room:
            return _FREEING_AGE_MS
        is_soon = self._has_failed or cache.held_back or cache.released_files or cache.released_parts
        return _SOON_AGE_MS if is_soon else _DUE_AGE_MS

    def is_full(self, cache: StreamCache) -> bool:
        """Tell whether one should begin at once, for the amount that there is to write."""
        is_large = cache.changed_bytes >= self._due_bytes(len(cache.dirty))
        return is_large and not self.under_way and not self._has_failed

    def is_behind(self, cache: StreamCache) -> bool:
        """Tell whether enough for another one has arrived while one is written, or will be without a wait."""
        is_logged = self.taking is not None and self.taking.is_logged
        return is_logged and cache.changed_bytes >= self._due_bytes(len(cache.dirty))

    def begin(self, cache: StreamCache, lsn: int, now_ms: int) -> Taking:
        """Begin to take snapshots of the state after a record; `write` or `abort` follows."""
        self._begun_ms = now_ms
        self.taking = Taking(cache, lsn)
        self._measures.is_saving = True
        return self.taking

    def abort(self) -> None:
        """Give up, unless it is being written: what the snapshots show did not happen, or cannot be saved."""
        if self.taking is not None and not self.writing:
            self.taking.end()
            self.taking = None
            self._measures.is_saving = False
            self._runtime.release_guard()

    def write(
        self, checkpoint: Checkpoint, cache: StreamCache, done: Callable[[BaseException | None], None]
    ) -> None:
        """Write in the background, now that the log is durable up to the snapshots."""
        self.writing = True
        written: list[Written] = []

        def is_urgent() -> bool:
            return 2 * cache.changed_bytes >= self._due_bytes(len(cache.dirty))  # or writers will wait

        def job() -> None:
            began_s = time.monotonic()
            rest = self._runtime.rest(is_urgent)
            written.append(checkpoint.write(self._files.disk, self._catalog, rest))
            self._measures.checkpoint_s.observe(time.monotonic() - began_s)

        def end_job(error: BaseException | None) -> None:
            self._runtime.release_guard()
            self._has_failed = error is not None
            if error is None:
                assert self.taking is not None  # it is being written
                work = self._drop_saved(checkpoint, written[0], cache, self.taking)
            elif may_retry(error):
                _log.error("a checkpoint failed and will be tried again: %s", error)
                self._measures.checkpoint_failures += 1
                work = self._keep_unsaved(checkpoint, cache)
            else:
                work = self._close_trimmed(checkpoint)
            self._runtime.begin_work(work, partial(finish, error))

        def finish(error: BaseException | None) -> None:
            self.taking = None
            self.writing = self._measures.is_saving = False
            if error is None:
                self._clean_after(checkpoint, written[0], cache)
            elif may_retry(error):
                cache.changed_bytes += checkpoint.changed_bytes
            done(error)

        self._runtime.begin_work(_narrow(checkpoint), lambda: self._runtime.begin_job(job, end_job))

    def _drop_saved(
        self, checkpoint: Checkpoint, written: Written, cache: StreamCache, taking: Taking
    ) -> Iterator[None]:
        """Drop from memory what the files and the catalog now hold, one stream in each step."""
        del cache.released_files[: len(checkpoint.released_files)]
        snapshots, by_id, held_back = checkpoint.snapshots, cache.by_id, cache.held_back
        places, unsaved = written.places, written.unsaved
        named = 0
        while snapshots:  # each is freed here: all at once would hold up the event loop
            snapshot = snapshots.pop()
            entry, id = snapshot.entry, snapshot.stream.id
            if snapshot.trimmed:
                self._files.close_some(snapshot.trimmed)
            taking.forget(id)
            if by_id.get(id) is not entry:
                pass  # it was removed since
            elif id in unsaved:
                if id not in held_back and (named := named + 1) <= _MAX_NAMED:
                    _log.error("%s cannot be saved: %s", snapshot.stream.name, unsaved[id])
                _hold_back(snapshot, written, cache)
            else:
                if released := snapshot.drop_saved(self._files, places.pop(id, snapshot.place)):
                    self._files.close_some(released)
                    cache.release_files(entry, released)
                entry.refusal = None
                cache.note_saved(entry)
                if held_back and held_back.pop(id, None) is not None:
                    _log.warning("%s is saved", snapshot.stream.name)
            yield
        if named > _MAX_NAMED:
            _log.error("%d more streams cannot be saved", named - _MAX_NAMED)
        for error in written.not_removed.values():
            _log.error("a file of a deleted stream cannot be removed: %s", error)
        while checkpoint.removed:
            id, _ = checkpoint.removed.popitem()
            if id not in written.not_removed:
                cache.removed.pop(id, None)
                cache.unfinished.discard(id)
            yield

    def _keep_unsaved(self, checkpoint: Checkpoint, cache: StreamCache) -> Iterator[None]:
        """Mark all streams of a checkpoint that failed as dirty, one in each step."""
        cache.changed_rows = checkpoint.rows | cache.changed_rows
        while checkpoint.snapshots:
            snapshot = checkpoint.snapshots.pop()
            self._files.close_some(snapshot.trimmed)
            _mark_dirty(snapshot, cache)
            yield

    def _close_trimmed(self, checkpoint: Checkpoint) -> Iterator[None]:
        """Close the files that were removed, which frees their room."""
        while checkpoint.snapshots:
            self._files.close_some(checkpoint.snapshots.pop().trimmed)
            yield

    def _clean_after(self, checkpoint: Checkpoint, written: Written, cache: StreamCache) -> None:
        """Remove the files of former parts; the next start finds what cannot be."""
        released = [part for part in checkpoint.released_parts if part[0] not in written.unsaved]
        if not released:
            return
        cache.released_parts.difference_update(released)
        self._files.close_some([part_name(part) for part in released])

        def done(error: BaseException | None) -> None:
            if error is not None:
                _log.error("files that are not needed could not be removed: %s", error)

        self._runtime.begin_job(lambda: checkpoint.clean(self._files.disk, released), done)


def _narrow(checkpoint: Checkpoint) -> Iterator[None]:
    """Read nothing any more that is about to be removed, one stream in each step."""
    for snapshot in checkpoint.snapshots:
        if snapshot.extent is not WHOLE:  # of most streams nothing is gone, and memory is slow
            content_of(snapshot.entry).narrow(snapshot.extent)
        yield


def _hold_back(snapshot: Snapshot, written: Written, cache: StreamCache) -> None:
    """Keep what could not be saved in memory, and try again with the next checkpoint."""
    id = snapshot.stream.id
    cache.held_back[id] = cache.held_back.get(id, 0) + written.held_bytes[id]
    _mark_dirty(snapshot, cache)


def _mark_dirty(snapshot: Snapshot, cache: StreamCache) -> None:
    id = snapshot.stream.id
    cache.unfinished.add(id)
    if cache.by_id.get(id) is snapshot.entry:
        cache.note_changed(snapshot.entry)
        for row in snapshot.producers:
            cache.note_producers(id, row.producer_id)
