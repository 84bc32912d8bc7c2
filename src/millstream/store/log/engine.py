"""The durable engine: a table of streams whose every change goes through the log.

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
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from millstream.protocol import parts, streams, trimming
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.streams import NoSpace, NotFound, SoftDeleted, StoreFailed, Stream, Unstored
from millstream.store.base import Appended, Created, Deleted, Dropped, Head, Read, Staged
from millstream.store.base import Committed as PartsCommitted
from millstream.store.log.catalog import NOBODY, Catalog
from millstream.store.log.checkpoint import Checkpoint, may_pass
from millstream.store.log.checkpointing import Checkpoints
from millstream.store.log.commit import Committed, Committer, Full, Outcome, outcome_of
from millstream.store.log.content import StreamContent, StreamFiles
from millstream.store.log.disk import Disk
from millstream.store.log.eviction import Evictions
from millstream.store.log.format import (
    AppendMeta,
    CommitMeta,
    CreateMeta,
    DropMeta,
    EndMeta,
    Meta,
    RecordType,
    RenewMeta,
    StageMeta,
    TrimMeta,
    encode_record,
)
from millstream.store.log.intervals import NEVER, elapsed
from millstream.store.log.recovery import recover
from millstream.store.log.residents import Residents
from millstream.store.log.runtime import Runtime
from millstream.store.log.segments import Log
from millstream.store.measures import Measures
from millstream.store.parts import StagingTable
from millstream.store.pending import Eventually, Pending
from millstream.store.table import Ending, Kept

_RENEWAL_STEP_MS = 1_000  # a TTL that is renewed all the time is logged once in a while
_RETRY_FULL_MS = 1_000
_DUE_STEP = 1_000  # streams ended in one go
_SPARE_DEADLINES = 5_000

D = TypeVar("D")

_log = logging.getLogger("millstream")


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    """A decision that is held back until a record is durable, and what becomes visible then."""

    lsn: int
    pending: Pending[Any]
    decision: Any
    kept: Kept | None = None
    tail: int = 0
    closed: bool = False
    start: int = 0
    changed: str | None = None


class LogStore(StagingTable):
    """Streams that survive."""

    def __init__(
        self, disk: Disk, catalog: Catalog, log: Log, runtime: Runtime, checkpoint_bytes: int = 32 * 2**20
    ) -> None:
        super().__init__()
        self._disk = disk
        self._catalog = catalog
        self._log = log
        self._runtime = runtime
        self._files = StreamFiles(disk)
        self._checkpoints = Checkpoints(catalog, self._files, runtime, log.measures, checkpoint_bytes)
        self._evictions = Evictions(self._log_renewal)
        self._residents = Residents(catalog, self._files, 0)
        self._committer: Committer | None = None
        self._waiting: deque[_Waiting] = deque()
        self._unsynced: deque[int] = deque()  # sizes of the records that the committer has
        self._ending: dict[str, int] = {}  # names whose end is not durable yet, and its record
        self._refusal: Unstored | None = None
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
        """Make a recovered state the current one."""
        self._residents = residents
        self._by_name = residents.by_name
        self._ending.clear()
        self._deadlines.clear()
        self._overfull.clear()
        for kept in residents.dirty.values():
            self._watch(kept)
        self._staging = {id: kept for id, kept in residents.by_id.items() if kept.staged}
        self._due_after = NOBODY
        self._evictions.forget()
        self._unsynced.clear()
        self.unsynced_changes = self.unsynced_bytes = 0
        self._lsn = self._durable_lsn = self._log.next_lsn - 1
        self.quotas.recount(self._kept_names)

    @property
    def measures(self) -> Measures:
        """What the engine has measured of itself."""
        return self._log.measures

    @property
    def undurable(self) -> int:
        """How many changes were accepted and are not durable yet."""
        return self._lsn - self._durable_lsn

    @property
    def failure(self) -> str | None:
        """Why the engine takes no more changes, if it does not."""
        if self._refusal is None:
            return None
        return "its disk is full" if isinstance(self._refusal, NoSpace) else "its disk failed"

    # -- The contract, where the disk may say no -------------------------------------------------

    def create(self, name: str, request: CreateRequest, now_ms: int) -> Eventually[Created]:
        """Create a stream or a fork, or say what is in the way."""
        if self._refusal is not None:
            return self._refusal
        return self._when_all_durable(super().create(name, request, now_ms))

    def append(self, name: str, request: AppendRequest, now_ms: int) -> Eventually[Appended]:
        """Append, close, or both."""
        if self._refusal is not None:
            return self._refusal
        return self._when_all_durable(super().append(name, request, now_ms))

    def delete(self, name: str, now_ms: int) -> Eventually[Deleted]:
        """Delete a stream; its bytes stay while forks need them."""
        if self._refusal is not None:
            return self._refusal
        return self._when_all_durable(super().delete(name, now_ms))

    def stage(
        self, name: str, request: StageRequest, max_staged_bytes: int, now_ms: int
    ) -> Eventually[Staged]:
        """Keep a part, invisibly."""
        if self._refusal is not None:
            return self._refusal
        return self._when_all_durable(super().stage(name, request, max_staged_bytes, now_ms))

    def commit(self, name: str, request: CommitRequest, now_ms: int) -> Eventually[PartsCommitted]:
        """Append parts, in one atomic change."""
        if self._refusal is not None:
            return self._refusal
        return self._when_all_durable(super().commit(name, request, now_ms))

    def drop_part(self, name: str, id: str, now_ms: int) -> Eventually[Dropped]:
        """Drop a part; one that is not there is as good as dropped."""
        if self._refusal is not None:
            return self._refusal
        return self._when_all_durable(super().drop_part(name, id, now_ms))

    def read(  # type: ignore[override]  # the table answers at once, this engine not always
        self, name: str, request: ReadRequest, max_bytes: int, now_ms: int, *, peek: bool = False
    ) -> Eventually[Read]:
        """Read a chunk and renew the stream's TTL; a peek does neither, it only measures the chunk."""
        return self._when_ended(name, super().read(name, request, max_bytes, now_ms, peek=peek))

    def head(self, name: str, now_ms: int) -> Eventually[Head]:  # type: ignore[override]  # as above
        """Describe a stream without renewing its TTL."""
        return self._when_ended(name, super().head(name, now_ms))

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

    # -- What the table asks of an engine --------------------------------------------------------

    def _next_id(self) -> int:
        self._residents.next_id += 1
        return self._residents.next_id

    def _new_content(self, stream: Stream) -> StreamContent:
        return StreamContent(self._files, stream, stream.base, 0)

    def _lookup(self, name: str) -> Kept | None:
        kept = self._residents.find(name)
        if kept is not None:
            kept.used = True
        return kept

    def _walk_names(self, prefix: str, after: str) -> Iterator[str]:
        unsaved = self._residents.unsaved_names
        new = sorted(name for name in unsaved if name > after and name.startswith(prefix))
        for name, _ in groupby(heapq.merge(self._catalog.names(prefix, after), new)):
            yield name

    def _kept_names(self, prefix: str) -> Iterator[str]:
        """Give the names below a prefix without those of streams that the catalog still has."""
        residents = self._residents
        lost = {row.name for id in residents.lost if (row := self._catalog.by_id(id)) is not None}
        for name in self._walk_names(prefix, ""):
            if name not in lost or name in residents.by_name:
                yield name

    def _end(self, kept: Kept) -> Eventually[Deleted]:
        # An expired stream that is met while changes are refused ends later; readers see no difference.
        return super()._end(kept) if self._refusal is None else self._refusal

    def _commit_create(self, kept: Kept, plan: streams.Create) -> Eventually[Created]:
        source = kept.source
        self._residents.add(kept)
        if source is not None:
            self._residents.dirty[source.stream.id] = source
        forks = source.stream.fork_count if source is not None else 0
        self._submit(RecordType.CREATE, kept, CreateMeta(plan.stream, forks), plan.data)
        return self._visible_when_durable(kept, plan)

    def _commit_append(self, kept: Kept, plan: streams.Append, now_ms: int) -> Eventually[Appended]:
        kept.logged_deadline_ms = kept.stream.deadline_ms or 0
        meta = AppendMeta(plan.tail - len(plan.data), now_ms, plan.closes, plan.stamp, plan.seq)
        self._submit(RecordType.APPEND, kept, meta, plan.data)
        return self._visible_when_durable(kept, plan)

    def _commit_end(self, kept: Kept, ending: Ending) -> Eventually[Deleted]:
        gone = [lost.stream.id for lost in ending.gone]
        source = ending.staying_source
        meta = EndMeta(gone, source.stream.id if source else 0, source.stream.fork_count if source else 0)
        self._submit(RecordType.END, kept, meta)
        if source is not None:
            self._residents.dirty[source.stream.id] = source
        for lost in ending.gone:
            self._residents.lose(lost)
            self._files.let_go(self._residents.lost[lost.stream.id])
        pending: Pending[Deleted] = Pending()
        self._ending[kept.stream.name] = self._lsn
        self._waiting.append(_Waiting(self._lsn, pending, ending.plan, changed=kept.stream.name))
        return pending

    def _commit_stage(self, kept: Kept, plan: parts.Stage, now_ms: int) -> Eventually[Staged]:
        kept.logged_deadline_ms = kept.stream.deadline_ms or 0
        self._submit(RecordType.STAGE, kept, StageMeta(plan.id, now_ms), plan.data)
        return self._held(plan)

    def _commit_parts(self, kept: Kept, plan: parts.Commit, now_ms: int) -> Eventually[PartsCommitted]:
        kept.logged_deadline_ms = kept.stream.deadline_ms or 0
        append = plan.append
        meta = AppendMeta(append.tail - plan.size, now_ms, append.closes, append.stamp, append.seq)
        self._submit(RecordType.COMMIT, kept, CommitMeta(meta, plan.ids))
        return self._visible_when_durable(kept, plan)

    def _commit_drop(self, kept: Kept, plan: parts.Drop) -> Eventually[Dropped]:
        self._submit(RecordType.DROP, kept, DropMeta(plan.ids))
        return self._held(plan)

    def _release_parts(self, kept: Kept, numbers: list[int]) -> None:
        self._residents.release(kept.stream.id, numbers)

    def _commit_renewal(self, kept: Kept, now_ms: int) -> None:
        deadline_ms = kept.stream.deadline_ms
        if deadline_ms is not None and deadline_ms - kept.logged_deadline_ms >= _RENEWAL_STEP_MS:
            self._log_renewal(kept)

    def _log_renewal(self, kept: Kept) -> None:
        deadline_ms = kept.stream.deadline_ms
        if self._refusal is None and deadline_ms is not None:
            kept.logged_deadline_ms = deadline_ms
            self._submit(RecordType.RENEW, kept, RenewMeta(deadline_ms))

    def _commit_trim(self, kept: Kept, change: trimming.Trim) -> None:
        self._submit(RecordType.TRIM, kept, TrimMeta(change.start, change.first_append))
        self._visible_when_durable(kept, change)

    # -- Committing ------------------------------------------------------------------------------

    def _submit(self, type: RecordType, kept: Kept, meta: Meta, payload: bytes = b"") -> None:
        assert self._committer is not None  # opened
        record = encode_record(type, kept.stream.id, meta, payload)
        self._lsn += 1
        kept.lsn = self._lsn
        residents = self._residents
        residents.dirty[kept.stream.id] = kept
        residents.changed_bytes += len(record)
        self._unsynced.append(len(record))
        self.unsynced_changes += 1
        self.unsynced_bytes += len(record)
        self._committer.submit(record)

    def _visible_when_durable(self, kept: Kept, decision: D) -> Pending[D]:
        stream = kept.stream
        pending: Pending[D] = Pending()
        self._waiting.append(
            _Waiting(
                self._lsn, pending, decision, kept, stream.tail, stream.closed, stream.start, stream.name
            )
        )
        return pending

    def _when_all_durable(self, decision: D) -> D | Pending[Any]:
        """Hold a refusal back until all that it may rest on is durable."""
        if isinstance(decision, Pending) or self._durable_lsn == self._lsn:
            return decision
        return self._held(decision)

    def _when_ended(self, name: str, found: D) -> D | Pending[Any]:
        """Hold back that a stream is gone until it is, durably."""
        if name in self._ending and isinstance(found, NotFound | SoftDeleted):
            return self._held(found)
        return found

    def _held(self, decision: object) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        self._waiting.append(_Waiting(self._lsn, pending, decision))
        return pending

    def _report(self, outcome: Outcome) -> None:
        if isinstance(outcome, Committed):
            self._durable(outcome.lsn)
        elif isinstance(outcome, Full):
            self._run_full()
        else:
            self._fail(outcome.reason)

    def _durable(self, lsn: int) -> None:
        count = lsn - self._durable_lsn
        size = sum([self._unsynced.popleft() for _ in range(count)])
        self.unsynced_changes -= count
        self.unsynced_bytes -= size
        self.synced_bytes += size
        self._durable_lsn = lsn
        while self._waiting and self._waiting[0].lsn <= lsn:
            entry = self._waiting.popleft()
            kept = entry.kept
            if kept is not None:
                kept.tail, kept.closed, kept.start = entry.tail, entry.closed, entry.start
            elif entry.changed is not None and self._ending.get(entry.changed) == entry.lsn:
                del self._ending[entry.changed]
            try:
                if entry.changed is not None:
                    self.listener(entry.changed)
                entry.pending.settle(entry.decision)
            except Exception:  # one who cannot take the answer must not cost the others theirs
                _log.exception("an answer could not be given")

    def _settle_all(self, refusal: Unstored) -> None:
        waiting, self._waiting = self._waiting, deque()
        for entry in waiting:
            entry.pending.settle(refusal)

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

    def _take_pictures(self) -> Checkpoint:
        return Checkpoint.take(self._residents, self._lsn)

    def _write_checkpoint(self, checkpoint: Checkpoint, refusal: Unstored | None) -> None:
        if refusal is not None:
            self._checkpoints.drop()
        else:
            written = partial(self._on_checkpoint, checkpoint)
            self._checkpoints.write(checkpoint, self._residents, written)

    def _on_checkpoint(self, checkpoint: Checkpoint, error: BaseException | None) -> None:
        if error is None:
            self._due_after = NOBODY
            assert self._committer is not None  # a checkpoint is taken while it runs
            self._committer.call(lambda: self._log.release(checkpoint.lsn))
        elif not may_pass(error):
            self._fail(f"a checkpoint failed: {error}")
        if isinstance(self._refusal, NoSpace):
            self._take_back()
