"""The durable engine: a table of streams whose every change goes through the log."""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from millstream.protocol import streams
from millstream.protocol.requests import AppendRequest, CreateRequest
from millstream.protocol.streams import NoSpace, StoreFailed, Stream, Unstored
from millstream.store.base import Appended, Created, Deleted
from millstream.store.log.catalog import Catalog, Row, encode_stream
from millstream.store.log.checkpoint import APPLIED_LSN, NEXT_ID, Checkpoint
from millstream.store.log.commit import Committed, Committer, Full, Outcome
from millstream.store.log.content import StreamContent, StreamFiles
from millstream.store.log.disk import Disk
from millstream.store.log.format import (
    AppendMeta,
    CreateMeta,
    EndMeta,
    Meta,
    Record,
    RecordType,
    RenewMeta,
    encode_record,
)
from millstream.store.log.segments import DamagedError, Log
from millstream.store.pending import Eventually, Pending
from millstream.store.table import Ending, Kept, TableStore

_CHECKPOINT_STREAMS = 5_000
_CHECKPOINT_AGE_MS = 5_000
_RENEWAL_STEP_MS = 1_000  # a TTL that is renewed all the time is logged once in a while
_RETRY_FULL_MS = 1_000
_DUE_AT_ONCE = 100

D = TypeVar("D")

_log = logging.getLogger("millstream")


class Runtime(msgspec.Struct, frozen=True):
    """How the engine gets things done beside the event loop; a simulation has its own way."""

    start_committer: Callable[[Log, Callable[[Outcome], None]], Committer]
    """Start what commits records; it reports on the event loop."""

    in_background: Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]
    """Run a job, then report on the event loop how it ended."""


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    """A decision that is held back until a record is durable, and what becomes visible then."""

    lsn: int
    pending: Pending[Any]
    decision: Any
    kept: Kept | None = None
    tail: int = 0
    closed: bool = False
    changed: str | None = None


class LogStore(TableStore):
    """Streams that survive."""

    def __init__(
        self, disk: Disk, catalog: Catalog, log: Log, runtime: Runtime, checkpoint_bytes: int = 32 * 2**20
    ) -> None:
        super().__init__()
        self._disk = disk
        self._catalog = catalog
        self._log = log
        self._runtime = runtime
        self._checkpoint_bytes = checkpoint_bytes
        self._files = StreamFiles(disk)
        self._committer: Committer | None = None
        self._refusal: Unstored | None = None
        self._retry_ms = 0
        self._now_ms = 0
        self._checkpointing = False
        self._checkpointed_ms = 0
        self._clear()

    def _clear(self) -> None:
        self._by_name.clear()
        self._deadlines.clear()
        self._by_id: dict[int, Kept] = {}
        self._dirty: dict[int, Kept] = {}
        self._gone: list[int] = []
        self._gone_unsaved: set[int] = set()
        self._unsaved_names: set[str] = set()
        self._waiting: deque[_Waiting] = deque()
        self._bytes_since_checkpoint = 0

    # -- Opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Recover what was kept, and begin to commit."""
        self.recover()
        self._committer = self._runtime.start_committer(self._log, self._report)

    def recover(self) -> None:
        """Rebuild the state from the catalog and the log."""
        self._clear()
        applied_lsn = self._catalog.fact(APPLIED_LSN)
        self._stream_id = self._catalog.fact(NEXT_ID)
        first: int | None = None
        for record in self._log.recover():
            first = record.lsn if first is None else first
            if record.lsn > applied_lsn:
                self._replay(record)
        if self._log.next_lsn <= applied_lsn or (first is not None and first > applied_lsn + 1):
            raise DamagedError(f"wal: the log does not reach record {applied_lsn + 1}, which must come next.")
        self._log.open_end()
        self._lsn = self._durable_lsn = self._log.next_lsn - 1
        for kept in self._by_id.values():
            kept.tail, kept.closed = kept.stream.tail, kept.stream.closed

    async def close(self) -> None:
        """Commit what is queued, take a last checkpoint, and let go of everything."""
        while self._checkpointing:
            await asyncio.sleep(0.01)  # noqa: ASYNC110  once, at the end: not worth an event
        if self._committer is not None:
            self._committer.stop()
            await asyncio.sleep(0)  # let its last report arrive
        if self._refusal is None and self._dirty and self._durable_lsn == self._lsn:
            self._picture().write(self._disk, self._catalog)
        self._log.close()
        self._files.close()
        self._catalog.close()

    # -- The contract, where the disk may say no -------------------------------------------------

    def create(self, name: str, request: CreateRequest, now_ms: int) -> Eventually[Created]:
        """Create a stream or a fork, or say what is in the way."""
        return self._refused(now_ms) or super().create(name, request, now_ms)

    def append(self, name: str, request: AppendRequest, now_ms: int) -> Eventually[Appended]:
        """Append, close, or both."""
        return self._refused(now_ms) or super().append(name, request, now_ms)

    def delete(self, name: str, now_ms: int) -> Eventually[Deleted]:
        """Delete a stream; its bytes stay while forks need them."""
        return self._refused(now_ms) or super().delete(name, now_ms)

    def expire(self, now_ms: int) -> None:
        """End the streams whose time is over, and take a checkpoint when it is time."""
        self._now_ms = now_ms
        if self._refused(now_ms) is not None:
            return
        for name in self._catalog.due(now_ms, _DUE_AT_ONCE):
            self._find(name, now_ms)
        super().expire(now_ms)
        if self._checkpoint_is_due(now_ms):
            self.checkpoint()

    def _refused(self, now_ms: int) -> Unstored | None:
        if isinstance(self._refusal, NoSpace) and now_ms >= self._retry_ms:
            self._refusal = None
        return self._refusal

    # -- What the table asks of an engine --------------------------------------------------------

    def _next_id(self) -> int:
        self._stream_id += 1
        return self._stream_id

    def _new_content(self, stream: Stream) -> StreamContent:
        return StreamContent(self._files, stream.id, stream.base, stream.base, 0)

    def _lookup(self, name: str) -> Kept | None:
        kept = self._by_name.get(name)
        if kept is not None:
            kept.used = True
            return kept
        row = self._catalog.by_name(name)
        return self._load(row) if row is not None else None

    def _walk_names(self, prefix: str, after: str) -> Iterator[str]:
        unsaved = sorted(name for name in self._unsaved_names if name > after and name.startswith(prefix))
        for name, _ in groupby(heapq.merge(self._catalog.names(prefix, after), unsaved)):
            yield name

    def _commit_create(self, kept: Kept, plan: streams.Create) -> Eventually[Created]:
        stream, source = plan.stream, kept.source
        self._by_id[stream.id] = kept
        self._unsaved_names.add(stream.name)
        forks = source.stream.fork_count if source is not None else 0
        if source is not None:
            self._dirty[source.stream.id] = source
        self._submit(RecordType.CREATE, kept, CreateMeta(stream, forks), plan.data)
        return self._visible_when_durable(kept, plan)

    def _commit_append(self, kept: Kept, plan: streams.Append, now_ms: int) -> Eventually[Appended]:
        meta = AppendMeta(plan.tail - len(plan.data), now_ms, plan.closes, plan.stamp, plan.seq)
        self._submit(RecordType.APPEND, kept, meta, plan.data)
        return self._visible_when_durable(kept, plan)

    def _commit_end(self, kept: Kept, ending: Ending) -> Eventually[Deleted]:
        gone = [lost.stream.id for lost in ending.gone]
        source = ending.staying_source
        meta = EndMeta(gone, source.stream.id if source else 0, source.stream.fork_count if source else 0)
        self._submit(RecordType.END, kept, meta)
        if source is not None:
            self._dirty[source.stream.id] = source
        for id in gone:
            self._lose(id)
        pending: Pending[Deleted] = Pending()
        self._waiting.append(_Waiting(self._lsn, pending, ending.plan, changed=kept.stream.name))
        return pending

    def _commit_renewal(self, kept: Kept, now_ms: int) -> None:
        deadline_ms = kept.stream.deadline_ms
        if deadline_ms is not None and deadline_ms - kept.logged_deadline_ms >= _RENEWAL_STEP_MS:
            kept.logged_deadline_ms = deadline_ms
            self._submit(RecordType.RENEW, kept, RenewMeta(deadline_ms))

    def _once_durable(self, kept: Kept, decision: D) -> Eventually[D]:
        if kept.lsn <= self._durable_lsn:
            return decision
        pending: Pending[D] = Pending()
        self._waiting.append(_Waiting(self._lsn, pending, decision))
        return pending

    # -- Committing ------------------------------------------------------------------------------

    def _submit(self, type: RecordType, kept: Kept, meta: Meta, payload: bytes = b"") -> None:
        assert self._committer is not None  # opened
        record = encode_record(type, kept.stream.id, meta, payload)
        self._lsn += 1
        kept.lsn = self._lsn
        self._dirty[kept.stream.id] = kept
        self._bytes_since_checkpoint += len(record)
        self._committer.submit(record)

    def _visible_when_durable(self, kept: Kept, decision: D) -> Pending[D]:
        stream = kept.stream
        pending: Pending[D] = Pending()
        entry = _Waiting(self._lsn, pending, decision, kept, stream.tail, stream.closed, stream.name)
        self._waiting.append(entry)
        return pending

    def _report(self, outcome: Outcome) -> None:
        if isinstance(outcome, Committed):
            self._durable(outcome.lsn)
        elif isinstance(outcome, Full):
            self._take_back()
        else:
            _log.error("the disk failed, no more changes are taken: %s", outcome.reason)
            self._refusal = StoreFailed()
            self._settle_all(self._refusal)
            self.on_failure(outcome.reason)

    def _durable(self, lsn: int) -> None:
        self._durable_lsn = lsn
        while self._waiting and self._waiting[0].lsn <= lsn:
            entry = self._waiting.popleft()
            if entry.kept is not None:
                entry.kept.tail, entry.kept.closed = entry.tail, entry.closed
            if entry.changed is not None:
                self.listener(entry.changed)
            entry.pending.settle(entry.decision)

    def _take_back(self) -> None:
        """Go back to what is durable: the disk is full, and what was decided since did not happen."""
        _log.warning("the disk is full: changes are refused until there is room")
        assert self._committer is not None  # it has just reported
        waiting, self._waiting = self._waiting, deque()
        self._log.close()
        self.recover()
        self._refusal = NoSpace()
        self._retry_ms = self._now_ms + _RETRY_FULL_MS
        self._committer.resume()
        for entry in waiting:
            entry.pending.settle(self._refusal)

    def _settle_all(self, refusal: Unstored) -> None:
        waiting, self._waiting = self._waiting, deque()
        for entry in waiting:
            entry.pending.settle(refusal)

    # -- Checkpoints -----------------------------------------------------------------------------

    def _checkpoint_is_due(self, now_ms: int) -> bool:
        if self._checkpointing or not (self._dirty or self._gone):
            return False
        return (
            self._bytes_since_checkpoint >= self._checkpoint_bytes
            or len(self._dirty) >= _CHECKPOINT_STREAMS
            or now_ms - self._checkpointed_ms >= _CHECKPOINT_AGE_MS
        )

    def checkpoint(self) -> None:
        """Bring the files and the catalog up to date, beside what else goes on."""
        picture = self._picture()
        self._checkpointing = True
        self._checkpointed_ms = self._now_ms
        durable: Pending[Any] = Pending()
        durable.then(lambda outcome: self._write_checkpoint(picture, outcome))
        self._waiting.append(_Waiting(self._lsn, durable, None))
        self._durable(self._durable_lsn)

    def _picture(self) -> Checkpoint:
        dirty, self._dirty = self._dirty, {}
        gone, self._gone = self._gone, []
        self._bytes_since_checkpoint = 0
        kept = list(dirty.values())
        unflushed = [part for one in kept if (part := _content(one).unflushed()) is not None]
        return Checkpoint(self._lsn, self._stream_id, [_row(one) for one in kept], unflushed, kept, gone)

    def _write_checkpoint(self, picture: Checkpoint, refusal: Unstored | None) -> None:
        if refusal is not None:
            self._checkpointing = False
            return
        self._runtime.in_background(
            lambda: picture.write(self._disk, self._catalog),
            lambda error: self._finish_checkpoint(picture, error),
        )

    def _finish_checkpoint(self, picture: Checkpoint, error: BaseException | None) -> None:
        self._checkpointing = False
        if error is not None:
            _log.error("a checkpoint failed and will be tried again: %s", error)
            for kept in picture.kept:
                if self._by_id.get(kept.stream.id) is kept:
                    self._dirty[kept.stream.id] = kept
            self._gone += picture.gone
            return
        for kept, row in zip(picture.kept, picture.rows, strict=True):
            if self._by_id.get(row.stream_id) is kept:
                _content(kept).forget(row.flushed, row.appends)
                self._unsaved_names.discard(row.name)
        self._gone_unsaved.difference_update(picture.gone)
        assert self._committer is not None  # a checkpoint is taken while it runs
        self._committer.call(lambda: self._log.release(picture.lsn))
        self._evict()

    def _evict(self) -> None:
        """Let go of streams that nobody has used since the last time; the catalog has them."""
        for kept in list(self._by_id.values()):
            stream = kept.stream
            if kept.used:
                kept.used = False
            elif stream.id not in self._dirty and kept.lsn <= self._durable_lsn and stream.fork_count == 0:
                del self._by_id[stream.id]
                del self._by_name[stream.name]

    # -- Loading and replaying -------------------------------------------------------------------

    def _load(self, row: Row) -> Kept | None:
        if row.stream_id in self._gone_unsaved:
            return None
        stream = row.stream()
        source = self._kept(stream.fork.source_id) if stream.fork is not None else None
        content = StreamContent(self._files, stream.id, stream.base, row.flushed, row.appends)
        kept = Kept(stream, source, content)
        kept.tail, kept.closed = stream.tail, stream.closed
        kept.logged_deadline_ms = stream.deadline_ms or 0
        self._by_id[stream.id] = self._by_name[stream.name] = kept
        self._watch_deadline(kept)
        return kept

    def _kept(self, stream_id: int) -> Kept | None:
        kept = self._by_id.get(stream_id)
        if kept is None and (row := self._catalog.by_id(stream_id)) is not None:
            kept = self._load(row)
        return kept

    def _lose(self, stream_id: int) -> None:
        self._by_id.pop(stream_id, None)
        self._dirty.pop(stream_id, None)
        self._gone.append(stream_id)
        self._gone_unsaved.add(stream_id)
        self._files.let_go(stream_id)

    def _replay(self, record: Record) -> None:
        meta = record.meta
        if isinstance(meta, CreateMeta):
            self._replay_create(meta, record.payload)
        elif isinstance(meta, EndMeta):
            self._replay_end(record.stream_id, meta)
        elif (kept := self._kept(record.stream_id)) is not None:
            self._dirty[record.stream_id] = kept
            if isinstance(meta, RenewMeta):
                kept.stream.deadline_ms = meta.deadline_ms
            else:
                self._replay_append(kept, meta, record.payload)

    def _replay_create(self, meta: CreateMeta, payload: bytes) -> None:
        stream = meta.stream
        self._stream_id = max(self._stream_id, stream.id)
        source = self._kept(stream.fork.source_id) if stream.fork is not None else None
        if source is not None:
            source.stream.fork_count = meta.source_forks
            self._dirty[source.stream.id] = source
        row = self._catalog.by_id(stream.id)
        flushed, appends = (row.flushed, row.appends) if row is not None else (stream.base, 0)
        kept = Kept(stream, source, StreamContent(self._files, stream.id, stream.base, flushed, appends))
        _add(kept, stream.tail - len(payload), payload)
        self._by_id[stream.id] = self._by_name[stream.name] = self._dirty[stream.id] = kept
        self._unsaved_names.add(stream.name)
        self._watch_deadline(kept)

    def _replay_append(self, kept: Kept, meta: AppendMeta, payload: bytes) -> None:
        change = streams.Append(payload, meta.base + len(payload), meta.closes, meta.stamp, meta.seq)
        _add(kept, meta.base, payload)
        streams.apply_append(kept.stream, change, meta.now_ms)

    def _replay_end(self, stream_id: int, meta: EndMeta) -> None:
        if not meta.gone and (kept := self._kept(stream_id)) is not None:
            kept.stream.soft_deleted = True
            self._dirty[stream_id] = kept
        if meta.source_id and (source := self._kept(meta.source_id)) is not None:
            source.stream.fork_count = meta.source_forks
            self._dirty[meta.source_id] = source
        for id in meta.gone:
            lost = self._kept(id)
            if lost is not None and self._by_name.get(lost.stream.name) is lost:
                del self._by_name[lost.stream.name]
            self._lose(id)


def _content(kept: Kept) -> StreamContent:
    assert isinstance(kept.content, StreamContent)  # this engine makes no other
    return kept.content


def _row(kept: Kept) -> Row:
    stream, content = kept.stream, _content(kept)
    return Row(
        stream.id, stream.name, stream.deadline_ms, content.end, content.appends, encode_stream(stream)
    )


def _add(kept: Kept, position: int, payload: bytes) -> None:
    """Add replayed bytes, unless the stream's files have them already."""
    content = _content(kept)
    if payload and position >= content.end:
        if position > content.end:
            raise DamagedError(
                f"stream {kept.stream.name}: bytes {content.end} to {position} are not in the log."
            )
        content.append(payload)
