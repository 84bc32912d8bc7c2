"""The durable engine: its parts put together, and its life from opening to closing.

        StreamCache   which streams are in memory
        LogJournal    from a change to its record, from the durable record to its answer
        Checkpoints   from the log to the stream files and the catalog
        Runtime       what runs beside the event loop: the committer, background jobs

It is in one of three conditions, given by `journal.refusal`:

        accepting changes (None) --disk full--> refusing with NoSpace --room again--> accepting changes
              |                                     |
              +------ disk failed ------> refusing with StoreFailed, for good

Reads go on in all of them.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial

from millstream.protocol.streams import NoSpace, StoreFailed, Unstored
from millstream.store.base import StoreError, ignore
from millstream.store.log.catalog import BEGINNING, Catalog
from millstream.store.log.checkpoint import Checkpoint, Checkpoints, may_retry
from millstream.store.log.disk import Disk
from millstream.store.log.files.content import StreamFiles
from millstream.store.log.intervals import NEVER, elapsed
from millstream.store.log.journal import LogJournal
from millstream.store.log.recovery import recover
from millstream.store.log.runtime import Runtime
from millstream.store.log.stream_cache import StreamCache
from millstream.store.log.wal.commit import Durable, Full, Outcome, outcome_of
from millstream.store.log.wal.segments import Log
from millstream.store.measures import Measures, Sizes

_RETRY_FULL_MS = 1_000
_DUE_STEP = 1_000  # streams ended in one go

_log = logging.getLogger("millstream")


class LogEngine:
    """Streams that survive a power cut."""

    def __init__(
        self, disk: Disk, catalog: Catalog, log: Log, runtime: Runtime, checkpoint_bytes: int = 32 * 2**20
    ) -> None:
        self.disk = disk
        self.catalog = catalog
        self.log = log
        self.runtime = runtime
        self.files = StreamFiles(disk)
        self.streams = StreamCache(catalog, self.files, 0)
        self.journal = LogJournal(self.streams)
        self.checkpoints = Checkpoints(catalog, self.files, runtime, log.measures, checkpoint_bytes)
        self.on_recovered: Callable[[], None] = lambda: None
        self.on_failure: Callable[[str], None] = ignore
        self._delayed_lsn = 0  # durable, and reported when the checkpoint that is being written is
        self._full_since_ms = 0
        self._now_ms = 0
        self._due_after = BEGINNING

    # -- Opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Recover, and begin to commit."""
        try:
            with self.runtime.opening():
                began_s = time.monotonic()
                recovered = recover(self.catalog, self.log, self.files)
                self.log.open_end()
                self.measures.recovery_s = time.monotonic() - began_s
                self._adopt(recovered)
                self.journal.committer = self.runtime.start_committer(self.log, self._report)
        except StoreError:
            self._release()
            raise

    async def close(self) -> None:
        """Commit what is queued, take a last checkpoint, and release everything."""
        await self.runtime.jobs_done()
        if self.journal.committer is not None:
            self.journal.committer.stop()
            await asyncio.sleep(0)  # let its last report arrive
            await self.runtime.jobs_done()
        is_clean = self.journal.refusal is None and self.journal.durable_lsn == self.journal.lsn
        try:
            if is_clean and self.streams.has_changed and self.runtime.take_guard():
                last = self._take_snapshots()
                last.write(self.disk, self.catalog)
                last.clean(self.disk)
        except Exception as error:  # nothing is lost: the log has it
            _log.error("the last checkpoint failed, the next start will take longer: %s", error)
        finally:
            self._release()

    def _release(self) -> None:
        self.log.close()
        self.files.close()
        self.catalog.close()
        self.runtime.release()

    def _adopt(self, recovered: StreamCache) -> None:
        """Continue from a recovered state."""
        self.streams = recovered
        self.journal.restart(recovered, self.log.next_lsn - 1)
        self._due_after = BEGINNING
        self.on_recovered()

    @property
    def measures(self) -> Measures:
        """Measurements of the disk."""
        return self.log.measures

    @property
    def failure(self) -> str | None:
        """Why no change is accepted, if none is."""
        if self.journal.refusal is None:
            return None
        return "its disk is full" if isinstance(self.journal.refusal, NoSpace) else "its disk failed"

    def log_bytes(self) -> int:
        """Give the size of the log that a start would read."""
        return self.runtime.log_bytes()

    def measure_sizes(self) -> Sizes | None:
        """Measure how much room the data takes."""
        return self.runtime.measure_sizes()

    # -- Now and then ----------------------------------------------------------------------------

    def due(self, now_ms: int) -> Iterator[str]:
        """Give the streams that are due by the catalog; it changes only by checkpoints, so each once."""
        for due in self.catalog.due(now_ms, self._due_after, _DUE_STEP):
            self._due_after = due
            yield due.name

    def maintain(self, now_ms: int) -> None:
        """Take a checkpoint when one is due, look for room on a full disk, evict streams."""
        self._now_ms = now_ms
        refusal = self.journal.refusal
        if refusal is None:
            if self.checkpoints.is_due(self.streams, now_ms) and self.runtime.take_guard():
                self.checkpoint()
        elif isinstance(refusal, NoSpace) and elapsed(self._full_since_ms, now_ms, _RETRY_FULL_MS):
            self._retry_full()
        self.streams.evict_some(self.checkpoints.in_progress, self.journal.record_deadline, now_ms)

    # -- What the committer reports --------------------------------------------------------------

    def _report(self, outcome: Outcome) -> None:
        if isinstance(outcome, Durable):
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

    # -- When the disk is full, or fails ---------------------------------------------------------

    def _become_full(self) -> None:
        """Refuse changes; those that were accepted and are not durable did not happen."""
        _log.warning("the disk is full: changes are refused until there is room")
        self.journal.refusal = NoSpace()
        self._full_since_ms = NEVER
        if not self.checkpoints.writing:  # otherwise the checkpoint that is being written goes first
            self._roll_back()

    def _roll_back(self) -> None:
        """Return to what is durable. The committer has stopped: until it resumes, the log is ours."""
        recovered: list[StreamCache] = []

        def job() -> None:
            self.log.cut()
            recovered.append(recover(self.catalog, self.log, self.files))

        def done(error: BaseException | None) -> None:
            if error is not None:
                self._fail(f"what was not written could not be rolled back: {error}")
                return
            self._adopt(recovered[0])
            self._full_since_ms = self._now_ms
            self.journal.refuse_all(NoSpace())

        self.runtime.begin_job(job, done)

    def _retry_full(self) -> None:
        """Check whether there is room again, and accept changes if so."""

        def done(error: BaseException | None) -> None:
            if error is None:
                _log.warning("the disk has room again: changes are accepted")
                self.journal.refusal = None
                assert self.journal.committer is not None  # it ran into the full disk
                self.journal.committer.resume()
            elif isinstance(outcome := outcome_of(error), Full):
                self._full_since_ms = self._now_ms
            else:
                self._fail(outcome.reason)

        self._full_since_ms = NEVER
        self.runtime.begin_job(self.log.reserve, done)

    def _fail(self, reason: str) -> None:
        """Accept no more changes: what was not synced may or may not be on the disk."""
        _log.error("the disk failed, no more changes are accepted: %s", reason)
        self.journal.refusal = StoreFailed()
        self.journal.refuse_all(self.journal.refusal)
        self.on_failure(reason)

    # -- Checkpoints -----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Bring the files and the catalog up to date, in the background; the caller has the guard."""
        checkpoint = self._take_snapshots()
        self.checkpoints.begin(checkpoint, self._now_ms)
        self.journal.when_durable(None).then(lambda refusal: self._write_checkpoint(checkpoint, refusal))
        self.journal.mark_durable(self.journal.durable_lsn)  # perhaps there is nothing to wait for

    def _checkpoint_if_full(self) -> None:
        is_full = self.journal.refusal is None and self.checkpoints.is_full(self.streams)
        if is_full and self.runtime.take_guard():
            self.checkpoint()

    def _take_snapshots(self) -> Checkpoint:
        return Checkpoint.take(self.streams, self.journal.lsn)

    def _write_checkpoint(self, checkpoint: Checkpoint, refusal: Unstored | None) -> None:
        if refusal is not None:
            self.checkpoints.abort()
        else:
            written = partial(self._on_checkpoint, checkpoint)
            self.checkpoints.write(checkpoint, self.streams, written)

    def _on_checkpoint(self, checkpoint: Checkpoint, error: BaseException | None) -> None:
        self._report_delayed()
        if error is None:
            self._due_after = BEGINNING
            assert self.journal.committer is not None  # a checkpoint is taken while it runs
            self.journal.committer.call(lambda: self.log.release(checkpoint.lsn))
        elif not may_retry(error):
            self._fail(f"a checkpoint failed: {error}")
        if isinstance(self.journal.refusal, NoSpace):
            self._roll_back()
        elif error is None:
            self._checkpoint_if_full()
