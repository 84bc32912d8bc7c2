"""Changes: from a decision to a record, and from a durable record to its answer.

        decision --record--> queued --one frame, one sync--> durable: readers see it --> answered
                                |
                                +--> looked at by the next decision, which is then held back as long

A decision that changes something waits for its own record; one that only looks waits for all that it may
have looked at. Changes are refused while `_refusal` says why; reads go on.
"""

import heapq
import logging
from collections import deque
from collections.abc import Iterator
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from millstream.protocol import parts, retention, streams
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.streams import NotFound, SoftDeleted, Stream, Unstored
from millstream.store.base import Appended, Created, Deleted, Dropped, FilePart, Head, Read, Staged
from millstream.store.base import Committed as PartsCommitted
from millstream.store.log.catalog import Catalog
from millstream.store.log.files.content import StreamContent, StreamFiles
from millstream.store.log.stream_cache import Residents, content_of
from millstream.store.log.wal.commit import Committer
from millstream.store.log.wal.format import (
    AppendMeta,
    CommitMeta,
    CreateMeta,
    DropMeta,
    EndMeta,
    Meta,
    RenewMeta,
    StageMeta,
    TrimMeta,
    encode_record,
)
from millstream.store.parts import StagingTable
from millstream.store.pending import Eventually, Pending
from millstream.store.table import Ending, Kept

_RENEWAL_STEP_MS = 1_000  # a TTL that is renewed all the time is logged once in a while

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


class LoggedTable(StagingTable):
    """A table of streams whose every change goes through the log."""

    def __init__(self, catalog: Catalog, files: StreamFiles) -> None:
        super().__init__()
        self._catalog = catalog
        self._files = files
        self._residents = Residents(catalog, files, 0)
        self._committer: Committer | None = None
        self._lsn = self._durable_lsn = 0
        self._waiting: deque[_Waiting] = deque()
        self._unsynced: deque[int] = deque()  # sizes of the records that the committer has
        self._ending: dict[str, int] = {}  # names whose end is not durable yet, and its record
        self._refusal: Unstored | None = None

    def _begin_with(self, residents: Residents, lsn: int) -> None:
        """Make a recovered state the current one; all of it is durable."""
        self._residents = residents
        self._by_name = residents.by_name
        self._ending.clear()
        self._deadlines.clear()
        self._overfull.clear()
        for kept in residents.dirty.values():
            self._watch(kept)
        self._staging = {id: kept for id, kept in residents.by_id.items() if kept.staged}
        self._unsynced.clear()
        self.unsynced_changes = self.unsynced_bytes = 0
        self._lsn = self._durable_lsn = lsn
        self.quotas.recount(self._kept_names)

    @property
    def undurable(self) -> int:
        """How many changes were accepted and are not durable yet."""
        return self._lsn - self._durable_lsn

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
        self,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        *,
        peek: bool = False,
        held_bytes: int | None = None,
    ) -> Eventually[Read]:
        """Read a chunk and renew the stream's TTL; a peek does neither, it only measures the chunk.

        A chunk longer than `held_bytes` comes without its data, for who then fetches it in pieces.
        """
        found = super().read(name, request, max_bytes, now_ms, peek=peek, held_bytes=held_bytes)
        return self._when_ended(name, found)

    def locate(self, name: str, stream_id: int, start: int, end: int) -> FilePart | None:
        """Tell where the first of these bytes lie; None when not in a file, then `fetch` gives them."""
        kept = self._holder(name, stream_id, start)
        if kept is None:
            return None
        owner, ceiling = kept.owner(start)
        return content_of(owner).locate(start, min(end, ceiling))

    def head(self, name: str, now_ms: int) -> Eventually[Head]:  # type: ignore[override]  # as above
        """Describe a stream without renewing its TTL."""
        return self._when_ended(name, super().head(name, now_ms))

    # -- What the table asks of an engine --------------------------------------------------------

    def _next_id(self) -> int:
        self._residents.next_id += 1
        return self._residents.next_id

    def _new_content(self, stream: Stream) -> StreamContent:
        return StreamContent(self._files, stream, stream.base, 0)

    def _lookup(self, name: str) -> Kept | None:
        kept = self._by_name.get(name) or self._residents.find(name)  # most are at hand: a call less
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
        self._submit(kept, CreateMeta(plan.stream, forks), plan.data)
        return self._visible_when_durable(kept, plan)

    def _commit_append(self, kept: Kept, plan: streams.Append, now_ms: int) -> Eventually[Appended]:
        kept.logged_deadline_ms = kept.stream.deadline_ms or 0
        meta = AppendMeta(plan.tail - len(plan.data), now_ms, plan.closes, plan.stamp, plan.seq)
        self._submit(kept, meta, plan.data)
        return self._visible_when_durable(kept, plan)

    def _commit_end(self, kept: Kept, ending: Ending) -> Eventually[Deleted]:
        gone = [lost.stream.id for lost in ending.gone]
        source = ending.staying_source
        meta = EndMeta(gone, source.stream.id if source else 0, source.stream.fork_count if source else 0)
        self._submit(kept, meta)
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
        self._submit(kept, StageMeta(plan.id, now_ms), plan.data)
        return self._held(plan)

    def _commit_parts(self, kept: Kept, plan: parts.Commit, now_ms: int) -> Eventually[PartsCommitted]:
        kept.logged_deadline_ms = kept.stream.deadline_ms or 0
        append = plan.append
        meta = AppendMeta(append.tail - plan.size, now_ms, append.closes, append.stamp, append.seq)
        self._submit(kept, CommitMeta(meta, plan.ids))
        return self._visible_when_durable(kept, plan)

    def _commit_drop(self, kept: Kept, plan: parts.Drop) -> Eventually[Dropped]:
        self._submit(kept, DropMeta(plan.ids))
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
            self._submit(kept, RenewMeta(deadline_ms))

    def _commit_trim(self, kept: Kept, change: retention.Trim) -> None:
        self._submit(kept, TrimMeta(change.start, change.first_append))
        self._visible_when_durable(kept, change)

    # -- Committing ------------------------------------------------------------------------------

    def _submit(self, kept: Kept, meta: Meta, payload: bytes = b"") -> None:
        assert self._committer is not None  # opened
        id = kept.stream.id
        record = encode_record(id, meta, payload)
        size = len(record)
        self._lsn += 1
        kept.lsn = self._lsn
        residents = self._residents
        residents.dirty[id] = kept
        residents.changed_bytes += size
        self._unsynced.append(size)
        self.unsynced_changes += 1
        self.unsynced_bytes += size
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
