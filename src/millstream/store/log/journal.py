"""The journal: from an accepted change to its record, and from the durable record to its answer.

        change --record--> queued --one frame, one sync--> durable: visible to readers --> answered
                              |
                              +--> the next decision is made on it, and waits as long

An answer to a change waits for the change's own record. An answer that changed nothing waits for every
record that its decision may have been made on.
"""

import logging
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from millstream.protocol import configuration, lifecycle, parts, retention, streams
from millstream.protocol.configuration import Configuration
from millstream.protocol.streams import NotFound, SoftDeleted, Unstored
from millstream.store.base import Listener, ignore
from millstream.store.entries import Ending, StreamEntry
from millstream.store.log.cache.stream_cache import StreamCache
from millstream.store.log.wal.commit import Committer
from millstream.store.log.wal.format import (
    NO_STREAM,
    AppendMeta,
    CommitMeta,
    ConfigureMeta,
    CreateMeta,
    DropMeta,
    EndMeta,
    Meta,
    RenewMeta,
    RowsMeta,
    StageMeta,
    TrimMeta,
    encode_record,
)
from millstream.store.pending import Pending

_RENEWAL_STEP_MS = 1_000  # a TTL that is renewed all the time is recorded once in a while

D = TypeVar("D")

_log = logging.getLogger("millstream")


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    """An answer that waits for a record, and what becomes visible with it."""

    lsn: int
    pending: Pending[Any]
    decision: Any
    entry: StreamEntry | None = None
    tail: int = 0
    closed: bool = False
    start: int = 0
    changed: str | None = None


class LogJournal:
    """Records every change in the log."""

    def __init__(self, cache: StreamCache) -> None:
        self.listener: Listener = ignore
        self.refusal: Unstored | None = None
        self.removal_refusal: Unstored | None = None
        self.committer: Committer | None = None
        self.synced_bytes = 0
        self._waiting: deque[_Waiting] = deque()
        self.restart(cache, 0)

    def restart(self, cache: StreamCache, lsn: int) -> None:
        """Continue from a recovered state, all of which is durable."""
        self._cache = cache
        self.lsn = self.durable_lsn = lsn
        self.unsynced_changes = self.unsynced_bytes = 0
        self._unsynced: deque[int] = deque()  # the sizes of the records that the committer has
        self._ending: dict[str, int] = {}  # names whose end is not durable yet, and the record of it

    # -- Changes ---------------------------------------------------------------------------------

    def create(self, entry: StreamEntry, plan: lifecycle.Create) -> Pending[Any]:
        """Record a creation, and add the stream."""
        source = entry.source
        self._cache.add(entry)
        if source is not None:
            self._cache.note_changed(source)
        forks = source.stream.fork_count if source is not None else 0
        self._queue(entry, CreateMeta(plan.stream, forks), plan.data)
        return self._publish_when_durable(entry, plan)

    def append(self, entry: StreamEntry, plan: streams.Append, now_ms: int) -> Pending[Any]:
        """Record an append."""
        entry.logged_deadline_ms = entry.stream.deadline_ms or 0
        meta = AppendMeta(
            plan.tail - len(plan.data),
            now_ms,
            plan.closes,
            plan.stamp,
            plan.seq,
            plan.forgets,
            plan.fingerprint,
        )
        if plan.stamp is not None:
            self._cache.note_producers(entry.stream.id, plan.stamp.id, plan.forgets)
        self._queue(entry, meta, plan.data)
        return self._publish_when_durable(entry, plan)

    def end(self, entry: StreamEntry, ending: Ending) -> Pending[Any]:
        """Record a deletion, and remove what is gone."""
        name, source = entry.stream.name, ending.remaining_source
        removed = [gone.stream.id for gone in ending.removed]
        meta = EndMeta(removed, source.stream.id if source else 0, source.stream.fork_count if source else 0)
        self._queue(entry, meta)
        if source is not None:
            self._cache.note_changed(source)
        for gone in ending.removed:
            self._cache.remove(gone)
            self._cache.close_files(gone)
        self._ending[name] = self.lsn
        pending: Pending[Any] = Pending()
        self._waiting.append(_Waiting(self.lsn, pending, ending.plan, changed=name))
        return pending

    def end_all(self, entries: list[StreamEntry]) -> None:
        """Record deletions in one record: of streams whose bytes nothing else needs."""
        cache, names = self._cache, [entry.stream.name for entry in entries]
        self._queue(entries[0], EndMeta([entry.stream.id for entry in entries], 0, 0))
        for gone in entries:
            cache.remove(gone)
            cache.close_files(gone)
        self._ending.update(dict.fromkeys(names, self.lsn))
        self.when_durable(None).then(partial(self._report_ended, names, self.lsn))

    def _report_ended(self, names: list[str], lsn: int, refusal: Unstored | None) -> None:
        if refusal is not None:
            return  # they have not ended: the state before them was recovered
        for name in names:
            if self._ending.get(name) == lsn:
                del self._ending[name]
            self.listener(name)

    def renew(self, entry: StreamEntry) -> None:
        """Record that a TTL was renewed, if the last record of it is old enough."""
        deadline_ms = entry.stream.deadline_ms
        if deadline_ms is not None and deadline_ms - entry.logged_deadline_ms >= _RENEWAL_STEP_MS:
            self.record_deadline(entry)

    def record_deadline(self, entry: StreamEntry) -> None:
        """Record when a stream's TTL ends now."""
        deadline_ms = entry.stream.deadline_ms
        if self.refusal is None and deadline_ms is not None:
            entry.logged_deadline_ms = deadline_ms
            self._queue(entry, RenewMeta(deadline_ms))

    def configure(
        self, entry: StreamEntry, plan: configuration.Configured, change: Configuration
    ) -> Pending[Any]:
        """Record another configuration."""
        entry.logged_deadline_ms = change.deadline_ms or 0
        self._queue(entry, ConfigureMeta(change))
        self.when_durable(None).then(partial(self._show_change, entry, change))
        return self._publish_when_durable(entry, plan)

    def _show_change(self, entry: StreamEntry, change: Configuration, refusal: Unstored | None) -> None:
        if refusal is None:  # otherwise the state before was recovered
            entry.show_change(change)

    def trim(self, entry: StreamEntry, change: retention.Trim) -> Pending[Any]:
        """Record that a stream starts later; a checkpoint removes its files."""
        self._queue(entry, TrimMeta(change.start, change.first_append, change.first_ms))
        self._cache.frees_room = True
        return self._publish_when_durable(entry, change)

    def stage(self, entry: StreamEntry, plan: parts.Stage, now_ms: int) -> Pending[Any]:
        """Record a part."""
        entry.logged_deadline_ms = entry.stream.deadline_ms or 0
        self._queue(entry, StageMeta(plan.id, now_ms), plan.data)
        return self.when_durable(plan)

    def commit(self, entry: StreamEntry, plan: parts.Commit, now_ms: int) -> Pending[Any]:
        """Record an append of parts."""
        entry.logged_deadline_ms = entry.stream.deadline_ms or 0
        append = plan.append
        meta = AppendMeta(
            append.tail - plan.size,
            now_ms,
            append.closes,
            append.stamp,
            append.seq,
            append.forgets,
            append.fingerprint,
        )
        if append.stamp is not None:
            self._cache.note_producers(entry.stream.id, append.stamp.id, append.forgets)
        self._queue(entry, CommitMeta(meta, plan.ids))
        return self._publish_when_durable(entry, plan)

    def drop_parts(self, entry: StreamEntry, plan: parts.Drop) -> Pending[Any]:
        """Record that parts were dropped."""
        self._queue(entry, DropMeta(plan.ids))
        return self.when_durable(plan)

    def release_parts(self, entry: StreamEntry, numbers: list[int]) -> None:
        """Let the next checkpoint remove the files of parts."""
        self._cache.release_parts(entry.stream.id, numbers)

    def keep(self, rows: Mapping[str, bytes | None]) -> None:
        """Record rows of the table."""
        self._cache.changed_rows.update(rows)
        self._submit(NO_STREAM, RowsMeta(dict(rows)))

    # -- Answers ---------------------------------------------------------------------------------

    def confirm(self, decision: D) -> D | Pending[Any]:
        """Delay a decision that changed nothing until all that it was made on is durable."""
        return decision if self.durable_lsn == self.lsn else self.when_durable(decision)

    def confirm_missing(self, name: str, found: D) -> D | Pending[Any]:
        """Delay the answer that a stream is gone until its end is durable."""
        is_ending = name in self._ending and isinstance(found, NotFound | SoftDeleted)
        return self.when_durable(found) if is_ending else found

    def when_durable(self, decision: D) -> Pending[Any]:
        """Give a decision once every record that was queued until now is durable."""
        pending: Pending[Any] = Pending()
        self._waiting.append(_Waiting(self.lsn, pending, decision))
        return pending

    def _publish_when_durable(self, entry: StreamEntry, decision: D) -> Pending[Any]:
        stream = entry.stream
        pending: Pending[Any] = Pending()
        self._waiting.append(
            _Waiting(
                self.lsn, pending, decision, entry, stream.tail, stream.closed, stream.start, stream.name
            )
        )
        return pending

    # -- Records ---------------------------------------------------------------------------------

    def _queue(self, entry: StreamEntry, meta: Meta, payload: bytes = b"") -> None:
        cache = self._cache
        if entry.changed_in != cache.period:
            cache.note_changed(entry)
        self._submit(entry.stream.id, meta, payload)

    def _submit(self, id: int, meta: Meta, payload: bytes = b"") -> None:
        assert self.committer is not None  # it is there once the engine is open
        record = encode_record(id, meta, payload)
        size = len(record)
        self._cache.changed_bytes += size
        self.lsn += 1
        self._unsynced.append(size)
        self.unsynced_changes += 1
        self.unsynced_bytes += size
        self.committer.submit(record)

    def mark_durable(self, lsn: int) -> None:
        """Make visible and answer everything up to a record."""
        count = lsn - self.durable_lsn
        size = sum([self._unsynced.popleft() for _ in range(count)])
        self.unsynced_changes -= count
        self.unsynced_bytes -= size
        self.synced_bytes += size
        self.durable_lsn = lsn
        while self._waiting and self._waiting[0].lsn <= lsn:
            waiting = self._waiting.popleft()
            entry = waiting.entry
            if entry is not None:
                entry.tail, entry.closed, entry.start = waiting.tail, waiting.closed, waiting.start
            elif waiting.changed is not None and self._ending.get(waiting.changed) == waiting.lsn:
                del self._ending[waiting.changed]
            try:
                if waiting.changed is not None:
                    self.listener(waiting.changed)
                waiting.pending.settle(waiting.decision)
            except Exception:  # a connection that fails to take its answer must not affect the others
                _log.exception("an answer could not be delivered")

    def refuse_all(self, refusal: Unstored) -> None:
        """Answer everything that waits with a refusal."""
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            one.pending.settle(refusal)
