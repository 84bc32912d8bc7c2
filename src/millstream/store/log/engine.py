"""The durable engine: its parts put together, and its life from opening to closing.

        StreamCache   which streams are in memory
        LogJournal    from a change to its record, from the durable record to its answer
        Checkpoints   from the log to the stream files and the catalog
        Eviction      keeps the streams in memory within their budget
        Reclaiming    empties packs of which little is needed
        Scrub         looks for damage in what is saved
        Runtime       what runs beside the event loop: the committer, background jobs

It is in one of three conditions, given by `journal.refusal`:

        accepting changes (None) <--checkpoints behind, no more--> refusing with Backlogged
              |
              +-- disk full --> refusing with NoSpace --room again--> accepting changes
              |
              +-- disk failed --> refusing with StoreFailed, for good

Reads go on in all of them. What removes something is accepted in all but the last: on a full disk it has
the room of the reserve, and is what makes room (`journal.removal_refusal`).
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

from millstream.protocol.streams import Backlogged, NoSpace, StoreFailed, Unstored
from millstream.store.base import StoreError, ignore
from millstream.store.log.cache.eviction import Eviction
from millstream.store.log.cache.stream_cache import StreamCache
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.rows import BEGINNING
from millstream.store.log.disk import Disk
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.intervals import NEVER, elapsed
from millstream.store.log.journal import LogJournal
from millstream.store.log.recovery import recover
from millstream.store.log.reserve import Reserve
from millstream.store.log.runtime import Runtime
from millstream.store.log.saving.checkpoint import Checkpoints, may_retry
from millstream.store.log.saving.held import refuse_large
from millstream.store.log.saving.reclaiming import Reclaiming, remove_unknown
from millstream.store.log.saving.snapshots import Checkpoint
from millstream.store.log.saving.taking import Taking
from millstream.store.log.scrub import Scrub
from millstream.store.log.wal.commit import Durable, Full, Outcome, outcome_of
from millstream.store.log.wal.segments import DamagedError, Log
from millstream.store.measures import Measures, Sizes

CHECKPOINT_BYTES = 128 * 2**20
"""A checkpoint begins when so much of the log waits for it, however many streams have changed."""
MAX_UNSAVED_BYTES = 3 * CHECKPOINT_BYTES
MEMORY_BYTES = 256 * 2**20

_FEW_STREAMS_BYTES = 32 * 2**20  # when few have changed, it begins earlier
_STREAM_BYTES = 2 * 2**10  # its cost is that of its streams, so it waits until each has so much, on average
_RETRY_FULL_MS = 1_000
_CONVERTED_STEP = 200  # streams of format 3 for one checkpoint
_DUE_STEP = 100  # streams that are looked up at once

_FAILURES: dict[type[Unstored], str] = {
    NoSpace: "its disk is full",
    StoreFailed: "its disk failed",
    Backlogged: "its checkpoints are behind",
}

_log = logging.getLogger("millstream")


class LogEngine:
    """Streams that survive a power cut."""

    def __init__(
        self,
        disk: Disk,
        catalog: Catalog,
        log: Log,
        runtime: Runtime,
        reserve: Reserve,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        max_unsaved_bytes: int = MAX_UNSAVED_BYTES,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self.disk = disk
        self.catalog = catalog
        self.log = log
        self.runtime = runtime
        self.reserve = reserve
        self.files = StreamFiles(disk)
        self.streams = StreamCache(catalog, self.files, 0)
        self.journal = LogJournal(self.streams)
        # Well before changes are refused; and what waits, at most twice as much, leaves room for streams.
        self._checkpoint_bytes = max(1, min(checkpoint_bytes, max_unsaved_bytes // 3, memory_bytes // 4))
        self.checkpoints = Checkpoints(
            catalog,
            self.files,
            runtime,
            log.measures,
            lambda streams: min(self._wanted_bytes(streams), reserve.checkpoint_bytes),
            memory_bytes,
        )
        self.reclaiming = Reclaiming(catalog, self.files, runtime)
        self._eviction = Eviction(runtime, self.checkpoints, memory_bytes)
        self.scrub = Scrub(disk, catalog, runtime, log.measures, lambda: self.streams)
        self.on_recovered: Callable[[], None] = lambda: None
        self.on_failure: Callable[[str], None] = ignore
        self._delayed_lsn = 0  # durable, and reported when the checkpoint that is being written is
        self._max_unsaved_bytes = max_unsaved_bytes
        self._max_held_bytes = max_unsaved_bytes // 6  # of one stream that cannot be saved
        self._held_bytes = 0  # of all of them
        self._is_rolling_back = False
        self._full_since_ms = 0
        self._now_ms = 0
        self._due_after = BEGINNING
        self._former_after: int | None = 0  # streams up to this one are not of format 3; None when none is

    # -- Opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Recover, and begin to commit."""
        try:
            with self.runtime.opening(), self.catalog.naming_damage():
                began_s = time.monotonic()
                recovered = recover(self.catalog, self.log, self.files)
                self.log.open_end()
                if not self.catalog.damage:
                    remove_unknown(self.disk, self.catalog)
                self.reserve.keep(recovered.changed_bytes)
                self.measures.recovery_s = time.monotonic() - began_s
                self._adopt(recovered)
                self.journal.committer = self.runtime.start_committer(self.log, self._report)
                if self.catalog.damage:
                    self._refuse_for_damage()
                else:
                    self._learn_names()
        except StoreError:
            self._release()
            raise

    def _learn_names(self) -> None:
        """Let the catalog learn the names that it has, in the background."""
        rest, runtime = self.runtime.rest(), self.runtime

        def done(error: BaseException | None) -> None:
            if error is not None:  # then every new name is looked up
                _log.warning("the names of streams could not be read: %s", error)

        runtime.begin_job(lambda: self.catalog.learn_names(rest, lambda: not runtime.is_awaited), done)

    async def close(self) -> None:
        """Commit what is queued, take a last checkpoint, and release everything."""
        await self.runtime.jobs_done()
        committer = self.journal.committer
        if committer is not None:
            committer.stop()
            while committer.is_running:  # noqa: ASYNC110  once, at the end: not worth an event
                await asyncio.sleep(0.005)
            await asyncio.sleep(0)  # let its last report arrive
            await self.runtime.jobs_done()
        is_clean = self._may_checkpoint and self.journal.durable_lsn == self.journal.lsn
        try:
            if is_clean and self.streams.has_changed and self.runtime.take_guard():
                last = self._complete(Taking(self.streams, self.journal.lsn))
                written = last.write(self.disk, self.catalog)
                parts = [part for part in last.released_parts if part[0] not in written.unsaved]
                last.clean(self.disk, parts, written.released_names())
                self.log.free(last.lsn)  # a folder that nobody uses takes no more than it holds
        except Exception as error:  # nothing is lost: the log has it
            _log.error("the last checkpoint failed, the next start will take longer: %s", error)
        finally:
            self._release()

    def _refuse_for_damage(self) -> None:
        """Accept no changes: what the catalog does not find may be there, and must not be made again."""
        for complaint in self.catalog.damage:
            _log.error("%s", complaint)
        _log.error("the catalog is damaged: streams that are found are read, and no changes are accepted")
        self.journal.refusal = self.journal.removal_refusal = StoreFailed()

    def _release(self) -> None:
        self.log.close()
        self.files.close()
        self.catalog.close()
        self.runtime.release()

    def _adopt(self, recovered: StreamCache) -> None:
        """Continue from a recovered state."""
        recovered.loads += self.streams.loads
        recovered.evictions += self.streams.evictions
        self.streams = recovered
        self.journal.restart(recovered, self.log.next_lsn - 1)
        self._due_after = BEGINNING
        self._former_after = 0
        self._review_held_back()
        self.reclaiming.look()
        self.on_recovered()

    @property
    def measures(self) -> Measures:
        """Measurements of the disk."""
        return self.log.measures

    @property
    def failure(self) -> str | None:
        """Why no change is accepted, if none is."""
        refusal = self.journal.refusal
        return None if refusal is None else _FAILURES[type(refusal)]

    @property
    def unsaved_bytes(self) -> int:
        """How many bytes wait in memory for a checkpoint."""
        return self.checkpoints.unsaved_bytes(self.streams) + self._held_bytes

    def _wanted_bytes(self, streams: int) -> int:
        """Give how much should wait for a checkpoint when so many streams have changed."""
        return min(self._checkpoint_bytes, max(_FEW_STREAMS_BYTES, _STREAM_BYTES * streams))

    def log_bytes(self) -> int:
        """Give the size of the log that a start would read."""
        return self.runtime.log_bytes()

    def measure_sizes(self) -> Sizes | None:
        """Measure how much room the data takes."""
        return self.runtime.measure_sizes()

    # -- Now and then ----------------------------------------------------------------------------

    def due(self, now_ms: int) -> Iterator[str]:
        """Give the streams that are due by the catalog; it changes only by checkpoints, so each once."""
        while found := self.catalog.due(now_ms, self._due_after, _DUE_STEP):
            for due in found:
                self._due_after = due
                yield due.name

    def maintain(self, now_ms: int) -> None:
        """Take a checkpoint when one is due, look for room on a full disk, evict streams."""
        self._now_ms = now_ms
        self._convert_some()
        is_full = isinstance(self.journal.refusal, NoSpace)
        is_due = self._may_checkpoint and self.checkpoints.is_due(self.streams, now_ms, is_awaited=is_full)
        if is_due and self.checkpoints.take_guard():
            self.checkpoint()
        if is_full and elapsed(self._full_since_ms, now_ms, _RETRY_FULL_MS):
            self._retry_full()
        self._reclaim_some(now_ms)
        self._scrub_some(now_ms)
        self._keep_within_memory()
        self._measure_memory()

    def _keep_within_memory(self) -> None:
        # A checkpoint that was given up leaves streams that look saved, and are in memory only.
        if not self._is_rolling_back and not isinstance(self.journal.refusal, StoreFailed):
            waiting_bytes = self.unsaved_bytes + self.checkpoints.working_bytes(self.streams)
            self._eviction.begin(self.streams, waiting_bytes, self.journal.record_deadline, self._now_ms)

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing reads or changes all files; a damaged catalog, or disk, stays as it is."""
        # A checkpoint that was given up may have removed files that the catalog refers to.
        if self._is_rolling_back or isinstance(self.journal.refusal, StoreFailed) or self.catalog.damage:
            return False
        return not (self.checkpoints.under_way or self.reclaiming.is_running or self.scrub.is_running)

    def _reclaim_some(self, now_ms: int) -> None:
        """Empty some of a pack of which little is needed."""
        may_write = self._is_quiet and self.journal.removal_refusal is None
        if may_write and self.reclaiming.is_due(now_ms) and self.runtime.take_guard():
            self.reclaiming.step(now_ms, self.streams, self._on_reclaimed)

    def _on_reclaimed(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(f"a pack could not be emptied: {error}")
        elif self._is_rolling_back:
            self._roll_back()
        else:
            self._checkpoint_if_full()

    def _scrub_some(self, now_ms: int) -> None:
        """Look for damage in some of what is saved, unless files are changing."""
        if self._is_quiet and self.scrub.is_due(now_ms) and self.runtime.take_guard():
            self.scrub.step(now_ms, self._on_scrubbed)

    def _on_scrubbed(self, damage: list[str]) -> None:
        if damage:
            self.catalog.damage = damage
            self._refuse_for_damage()
        self._checkpoint_if_full()

    def _measure_memory(self) -> None:
        measures, streams = self.measures, self.streams
        measures.cached_streams = len(streams.by_id)
        measures.cached_bytes = streams.memory.bytes
        measures.stream_loads = streams.loads
        measures.stream_evictions = streams.evictions

    async def convert(self) -> AsyncIterator[int]:
        """Write all streams anew that are as format 3 had them; gives how many were, again and again."""
        count = 0
        while more := self._convert_some():
            count += more
            while not self.checkpoints.take_guard():  # noqa: ASYNC110  a backup ends some time
                await asyncio.sleep(0.1)
            self.checkpoint()
            await self.runtime.jobs_done()
            yield count

    def _convert_some(self) -> int:
        """Let the next checkpoint write some streams anew that are as format 3 had them; gives how many."""
        if self._former_after is None or self.checkpoints.under_way or self.journal.refusal is not None:
            return 0
        ids = self.catalog.former_ids(self._former_after, _CONVERTED_STEP)
        for id in ids:
            try:
                entry = self.streams.get(id)
            except DamagedError as error:  # it stays as it is, and every request for it says so
                _log.error("%s", error)
                continue
            if entry is not None:
                self.streams.note_changed(entry)
        self._former_after = ids[-1] if ids else None
        return len(ids)

    # -- What the committer reports --------------------------------------------------------------

    def _report(self, outcome: Outcome) -> None:
        if isinstance(outcome, Durable):
            self._check_backlog()
            self._grow_reserve()
            if self.checkpoints.is_behind(self.streams):
                self._delayed_lsn = outcome.lsn  # writers wait for the checkpoint, or memory would fill
                return
            self.journal.mark_durable(outcome.lsn)
            self._checkpoint_if_full()
            return
        self._report_delayed()
        if isinstance(outcome, Full):
            self._become_full()
        else:
            self._fail(outcome.reason)

    def _report_delayed(self) -> None:
        if self._delayed_lsn > self.journal.durable_lsn:
            self.journal.mark_durable(self._delayed_lsn)

    # -- When checkpoints are behind ---------------------------------------------------------------

    def _check_backlog(self) -> None:
        """Refuse changes while more waits for a checkpoint than may: memory would fill."""
        is_behind = (
            self.checkpoints.unsaved_bytes(self.streams) >= self._max_unsaved_bytes
            or self._held_bytes >= 2 * self._max_unsaved_bytes  # more than one stream can have
        )
        refusal = self.journal.refusal
        if is_behind and refusal is None:
            _log.warning("checkpoints are behind: changes are refused until one succeeds")
            self.journal.refusal = Backlogged()
        elif isinstance(refusal, Backlogged) and not is_behind:
            _log.warning("a checkpoint has succeeded: changes are accepted")
            self.journal.refusal = None

    def _review_held_back(self) -> None:
        """Count what could not be saved, and refuse more of what has too much of it."""
        held_back = self.streams.held_back
        self.measures.unsaved_streams = len(held_back)
        self._held_bytes = sum(held_back.values())
        refuse_large(self.streams, self._max_held_bytes)

    # -- When the disk is full, or fails ---------------------------------------------------------

    def _become_full(self) -> None:
        """Refuse changes; those that were accepted and are not durable did not happen."""
        if not isinstance(self.journal.refusal, NoSpace):
            _log.warning("the disk is full: only deletions are accepted until there is room")
        self.journal.refusal = self.journal.removal_refusal = NoSpace()
        self._full_since_ms = NEVER
        self._is_rolling_back = True
        if not self.checkpoints.writing and not self.reclaiming.is_running:  # otherwise that goes first
            self._roll_back()

    def _roll_back(self) -> None:
        """Return to what is durable. The committer has stopped: until it resumes, the log is ours."""
        self.checkpoints.abort()
        self._eviction.stop()
        recovered: list[StreamCache] = []
        had_reserve = False

        def job() -> None:
            nonlocal had_reserve
            self.log.cut()
            recovered.append(recover(self.catalog, self.log, self.files))
            had_reserve = self.reserve.release()

        def done(error: BaseException | None) -> None:
            if error is not None:
                self._fail(f"what was not written could not be rolled back: {error}")
                return
            self._is_rolling_back = False
            self._adopt(recovered[0])
            self._full_since_ms = self._now_ms
            self.journal.refuse_all(NoSpace())
            if had_reserve:  # otherwise a deletion finds no room either; the next try may
                self._accept_removals()

        self.runtime.begin_job(job, done)

    def _accept_removals(self) -> None:
        """Let the committer continue, for changes that make room."""
        if self.journal.removal_refusal is not None:
            self.journal.removal_refusal = None
            assert self.journal.committer is not None  # it ran into the full disk
            self.journal.committer.resume()

    def _retry_full(self) -> None:
        """Accept changes if there is room again; those that remove something in any case."""
        has_room = False

        def job() -> None:
            nonlocal has_room
            if self.reserve.has_room():
                self.reserve.refill()
                has_room = True

        def done(error: BaseException | None) -> None:
            if error is not None and not isinstance(outcome := outcome_of(error), Full):
                self._fail(outcome.reason)
                return
            if self._is_rolling_back or not isinstance(self.journal.refusal, NoSpace):
                return  # the disk was full once more, or failed
            self._accept_removals()
            self._full_since_ms = self._now_ms
            if has_room:
                _log.warning("the disk has room again: changes are accepted")
                self.journal.refusal = None

        self._full_since_ms = NEVER
        self.runtime.begin_job(job, done)

    def _grow_reserve(self) -> None:
        """Let the reserve grow with what waits for a checkpoint, in the background."""
        unsaved_bytes = self.checkpoints.unsaved_bytes(self.streams)
        wanted_bytes = self._wanted_bytes(len(self.streams.dirty))
        is_full = isinstance(self.journal.refusal, NoSpace)
        if is_full or not self.reserve.must_grow(unsaved_bytes, wanted_bytes):
            return

        def done(error: BaseException | None) -> None:
            if error is not None:
                self._fail(f"the reserve could not grow: {error}")

        self.runtime.begin_job(self.reserve.grow, done)

    def _fail(self, reason: str) -> None:
        """Accept no more changes: what was not synced may or may not be on the disk."""
        _log.error("the disk failed, no more changes are accepted: %s", reason)
        self.checkpoints.abort()
        self._eviction.stop()
        self.journal.refusal = self.journal.removal_refusal = StoreFailed()
        self.journal.refuse_all(StoreFailed())
        self.on_failure(reason)

    # -- Checkpoints -----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Bring the files and the catalog up to date, in the background; the caller has the guard."""
        taking = self.checkpoints.begin(self.streams, self.journal.lsn, self._now_ms)
        self.journal.when_durable(None).then(lambda refusal: self._on_logged(taking, refusal))
        self.journal.mark_durable(self.journal.durable_lsn)  # perhaps there is nothing to wait for
        self.runtime.begin_work(taking.steps(), lambda: self._write_checkpoint(taking))

    def _checkpoint_if_full(self) -> None:
        is_full = self._may_checkpoint and self.checkpoints.is_full(self.streams)
        if is_full and self.checkpoints.take_guard():
            self.checkpoint()

    @property
    def _may_checkpoint(self) -> bool:
        """Whether what is accepted becomes durable; on a full disk, and whether that frees anything."""
        is_busy = self.scrub.is_running or self.reclaiming.is_running
        if self.journal.removal_refusal is not None or is_busy:
            return False
        return self.streams.frees_room or not isinstance(self.journal.refusal, NoSpace)

    def _on_logged(self, taking: Taking, refusal: Unstored | None) -> None:
        if refusal is None:
            taking.is_logged = True
            self._write_checkpoint(taking)
        elif self.checkpoints.taking is taking:
            self.checkpoints.abort()

    def _write_checkpoint(self, taking: Taking) -> None:
        """Write a checkpoint if all of it is there, and durable in the log; it may have been given up."""
        is_current = self.checkpoints.taking is taking and not self.checkpoints.writing
        if is_current and taking.is_complete and taking.is_logged:
            checkpoint = self._complete(taking)
            written = partial(self._on_checkpoint, checkpoint)
            self.checkpoints.write(checkpoint, self.streams, written)

    def _complete(self, taking: Taking) -> Checkpoint:
        return taking.complete()

    def _on_checkpoint(self, checkpoint: Checkpoint, error: BaseException | None) -> None:
        self._report_delayed()
        if error is None:
            self._due_after = BEGINNING
            self._review_held_back()
            self.reclaiming.look()
            self.reserve.reconsider()
            assert self.journal.committer is not None  # a checkpoint is taken while it runs
            is_full = isinstance(self.journal.refusal, NoSpace)
            release = self.log.free if is_full else self.log.release
            self.journal.committer.call(lambda: release(checkpoint.lsn))
            if is_full and self._full_since_ms != NEVER:
                self._full_since_ms = 0  # there may be room now
        elif not may_retry(error):
            self._fail(f"a checkpoint failed: {error}")
        if self._is_rolling_back and isinstance(self.journal.refusal, NoSpace):
            self._roll_back()
        elif error is None:
            self._check_backlog()
            self._reclaim_some(self._now_ms)  # or one checkpoint after the other would leave no time for it
            self._checkpoint_if_full()
            self._eviction.retry()
            self._keep_within_memory()
