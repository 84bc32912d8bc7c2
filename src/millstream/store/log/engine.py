"""The durable engine, from its opening to its end: what it does beside making changes (`changes`).

It is in one of three conditions, told by `_refusal`:

        taking changes (None) --disk full--> refusing with NoSpace --room again--> taking changes
              |                                     |
              +------ disk failed ------> refusing with StoreFailed, for good

Reads go on in all of them.
"""

import asyncio
import heapq
import logging
import time
from functools import partial

from millstream.protocol.streams import NoSpace, StoreFailed, Unstored
from millstream.store.log.catalog import NOBODY, Catalog
from millstream.store.log.changes import LoggedTable
from millstream.store.log.disk import Disk
from millstream.store.log.eviction import Evictions
from millstream.store.log.files.checkpoint import Checkpoint, may_pass
from millstream.store.log.files.checkpointing import Checkpoints
from millstream.store.log.files.content import StreamFiles
from millstream.store.log.intervals import NEVER, elapsed
from millstream.store.log.recovery import recover
from millstream.store.log.runtime import Runtime
from millstream.store.log.stream_cache import Residents
from millstream.store.log.wal.commit import Committed, Full, Outcome, outcome_of
from millstream.store.log.wal.segments import Log
from millstream.store.measures import Measures
from millstream.store.table import Kept

_RETRY_FULL_MS = 1_000
_DUE_STEP = 1_000  # streams ended in one go
_SPARE_DEADLINES = 5_000

_log = logging.getLogger("millstream")


class LogStore(LoggedTable):
    """Streams that survive."""

    def __init__(
        self, disk: Disk, catalog: Catalog, log: Log, runtime: Runtime, checkpoint_bytes: int = 32 * 2**20
    ) -> None:
        super().__init__(catalog, StreamFiles(disk))
        self._disk = disk
        self._log = log
        self._runtime = runtime
        self._checkpoints = Checkpoints(catalog, self._files, runtime, log.measures, checkpoint_bytes)
        self._evictions = Evictions(self._log_renewal)
        self._late_lsn = 0  # durable, and told when the checkpoint that is being written is
        self._full_since_ms = 0
        self._now_ms = 0
        self._due_after = NOBODY

    # -- Opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Recover what was kept, and begin to commit."""
        began_s = time.monotonic()
        residents = recover(self._catalog, self._log, self._files)
        self._log.open_end()
        self.measures.recovery_s = time.monotonic() - began_s
        self._adopt(residents)
        self._committer = self._runtime.start_committer(self._log, self._report)

    async def close(self) -> None:
        """Commit what is queued, take a last checkpoint, and let go of everything."""
        await self._runtime.jobs_done()
        if self._committer is not None:
            self._committer.stop()
            await asyncio.sleep(0)  # let its last report arrive
            await self._runtime.jobs_done()
        is_clean = self._refusal is None and self._durable_lsn == self._lsn
        if is_clean and self._residents.has_changed and self._runtime.take_guard():
            try:
                last = self._take_pictures()
                last.write(self._disk, self._catalog)
                last.clean(self._disk)
            except Exception as error:  # nothing is lost: the log has it
                _log.error("the last checkpoint failed, the next start will take longer: %s", error)
        self._log.close()
        self._files.close()
        self._catalog.close()

    def _adopt(self, residents: Residents) -> None:
        """Go on from what was recovered."""
        self._begin_with(residents, self._log.next_lsn - 1)
        self._due_after = NOBODY
        self._evictions.forget()

    @property
    def measures(self) -> Measures:
        """What the engine has measured of itself."""
        return self._log.measures

    @property
    def failure(self) -> str | None:
        """Why the engine takes no more changes, if it does not."""
        if self._refusal is None:
            return None
        return "its disk is full" if isinstance(self._refusal, NoSpace) else "its disk failed"

    # -- Now and then ----------------------------------------------------------------------------

    def expire(self, now_ms: int) -> None:
        """End the streams whose time is over, and do what else is due now and then."""
        self._now_ms = now_ms
        if self._refusal is None:
            self._expire_saved(now_ms)
            super().expire(now_ms)
            if self._checkpoints.is_due(self._residents, now_ms) and self._runtime.take_guard():
                self.checkpoint()
        elif isinstance(self._refusal, NoSpace) and elapsed(self._full_since_ms, now_ms, _RETRY_FULL_MS):
            self._try_again()
        self._evictions.go_on(self._residents, self._checkpoints.in_picture, now_ms)
        self._forget_deadlines()

    def _expire_saved(self, now_ms: int) -> None:
        """End what is due by the catalog; it changes only by checkpoints, so each is looked at once."""
        for due in self._catalog.due(now_ms, self._due_after, _DUE_STEP):
            self._due_after = due
            kept = self._find(due.name, now_ms)
            if isinstance(kept, Kept):  # it was renewed since
                self._watch(kept)

    def _forget_deadlines(self) -> None:
        """Drop those of streams that left memory, once most are: the catalog knows what is due."""
        by_id = self._residents.by_id
        if len(self._deadlines) > 2 * len(by_id) + _SPARE_DEADLINES:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in by_id]
            heapq.heapify(self._deadlines)

    # -- What the committer reports --------------------------------------------------------------

    def _report(self, outcome: Outcome) -> None:
        if isinstance(outcome, Committed):
            if self._checkpoints.is_behind(self._residents):
                self._late_lsn = outcome.lsn  # who writes so much waits, or memory would fill
                return
            self._durable(outcome.lsn)
            self._checkpoint_if_full()
            return
        self._tell_late()
        if isinstance(outcome, Full):
            self._run_full()
        else:
            self._fail(outcome.reason)

    def _tell_late(self) -> None:
        if self._late_lsn > self._durable_lsn:
            self._durable(self._late_lsn)

    # -- When the disk is full, or fails ---------------------------------------------------------

    def _run_full(self) -> None:
        """Refuse changes; those that were decided and are not durable did not happen."""
        _log.warning("the disk is full: changes are refused until there is room")
        self._refusal = NoSpace()
        self._full_since_ms = NEVER
        if not self._checkpoints.writing:  # otherwise the checkpoint that is being written goes first
            self._take_back()

    def _take_back(self) -> None:
        """Go back to what is durable. The committer has stopped: the log is ours until it is resumed."""
        recovered: list[Residents] = []

        def job() -> None:
            self._log.cut()
            recovered.append(recover(self._catalog, self._log, self._files))

        def done(error: BaseException | None) -> None:
            if error is not None:
                self._fail(f"what was not written could not be taken back: {error}")
                return
            self._adopt(recovered[0])
            self._full_since_ms = self._now_ms
            self._settle_all(NoSpace())

        self._runtime.begin_job(job, done)

    def _try_again(self) -> None:
        """See whether there is room again, and go on if so."""

        def done(error: BaseException | None) -> None:
            if error is None:
                _log.warning("the disk has room again: changes are taken")
                self._refusal = None
                assert self._committer is not None  # it ran into the full disk
                self._committer.resume()
            elif isinstance(outcome := outcome_of(error), Full):
                self._full_since_ms = self._now_ms
            else:
                self._fail(outcome.reason)

        self._full_since_ms = NEVER
        self._runtime.begin_job(self._log.reserve, done)

    def _fail(self, reason: str) -> None:
        """Take no more changes: what was not synced may or may not be on the disk."""
        _log.error("the disk failed, no more changes are taken: %s", reason)
        self._refusal = StoreFailed()
        self._settle_all(self._refusal)
        self.on_failure(reason)

    # -- Checkpoints -----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Bring the files and the catalog up to date, beside what else goes on."""
        checkpoint = self._take_pictures()
        self._checkpoints.begin(checkpoint, self._now_ms)
        self._held(None).then(lambda refusal: self._write_checkpoint(checkpoint, refusal))
        self._durable(self._durable_lsn)  # perhaps there is nothing to wait for

    def _checkpoint_if_full(self) -> None:
        is_full = self._refusal is None and self._checkpoints.is_full(self._residents)
        if is_full and self._runtime.take_guard():
            self.checkpoint()

    def _take_pictures(self) -> Checkpoint:
        return Checkpoint.take(self._residents, self._lsn)

    def _write_checkpoint(self, checkpoint: Checkpoint, refusal: Unstored | None) -> None:
        if refusal is not None:
            self._checkpoints.drop()
        else:
            written = partial(self._on_checkpoint, checkpoint)
            self._checkpoints.write(checkpoint, self._residents, written)

    def _on_checkpoint(self, checkpoint: Checkpoint, error: BaseException | None) -> None:
        self._tell_late()
        if error is None:
            self._due_after = NOBODY
            assert self._committer is not None  # a checkpoint is taken while it runs
            self._committer.call(lambda: self._log.release(checkpoint.lsn))
        elif not may_pass(error):
            self._fail(f"a checkpoint failed: {error}")
        if isinstance(self._refusal, NoSpace):
            self._take_back()
        elif error is None:
            self._checkpoint_if_full()
