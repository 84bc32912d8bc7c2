"""The table: answers every request of the contract, on streams that its engine finds and makes durable.

A change goes one way, whatever the engine:

        look up     `Finding`                 a stream in memory, or loaded into it
        decide      a function of `protocol`  pure; a refusal is a value
        announce    `streams.before_change`   the engine may need the stream as it is now
        apply       to `entry.stream`         the accepted state: the next decision is made on it
        record      `journal`                 the engine makes the change durable, then visible
        answer      when it is                at once in memory, a `Pending` with a log

A decision that changes nothing (a duplicate, a refusal) was still made on the accepted state, so it goes
through `journal.confirm`, which delays it until that state is durable.

How streams are found, read and ended is in modules of their own (`finding`, `reading`, `endings`); here are
the other changes, and what is done now and then.

The engine is handed in (`engine.py` says what it must do); it is the only part that differs between a
store in memory and one on a disk.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from millstream.protocol import configuration, forks, lifecycle, parts, retention, streams, trims
from millstream.protocol.boundaries import ScanUnfinishedError
from millstream.protocol.configuration import ConfigureRequest
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.requests import AppendRequest, CreateRequest, DeletionRequest, ReadRequest
from millstream.protocol.streams import NotFound, Unstored
from millstream.protocol.trims import TrimRequest
from millstream.store.base import (
    NO_ATTRIBUTES,
    Appended,
    Backlog,
    Committed,
    Configured,
    Created,
    Deleted,
    Dropped,
    FilePart,
    Head,
    Listener,
    ManyDeleted,
    Page,
    Read,
    Staged,
    Store,
    Trimmed,
)
from millstream.store.endings import Endings
from millstream.store.engine import Engine
from millstream.store.entries import StreamEntry
from millstream.store.finding import Finding
from millstream.store.listening import Listeners, Listening
from millstream.store.measures import Measures, Sizes
from millstream.store.pending import Eventually, when
from millstream.store.quotas import Quotas
from millstream.store.reading import Reading, list_page
from millstream.store.schedule import Schedule
from millstream.store.slices import Slices
from millstream.store.subscribing import SubscriptionHost
from millstream.store.subscriptions.subscriptions import Subscriptions

_TURN_S: Final = 0.002  # for ending streams whose time is over, before others are served
_TOGETHER: Final = 64  # streams that end in one record

T = TypeVar("T")

_log = logging.getLogger("millstream")


class Table(Store):
    """A store: decisions on streams, with an engine behind it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._journal = engine.journal
        self._slices = Slices()
        self._endings = Endings(engine, self._slices)
        self._finding = Finding(engine, self._endings)
        self._reading = Reading(self._finding, engine.journal, self._slices)
        self._listeners = Listeners(self._install_listener, self.head)
        self.subscriptions = Subscriptions(self._host(engine))
        self._waking = self.subscriptions.waking
        self._endings.on_ended = self._waking.after_ending
        self._adopt_streams()
        engine.on_recovered = self._adopt_streams

    def _host(self, engine: Engine) -> SubscriptionHost:
        return SubscriptionHost(engine, self._finding, self._slices, self.append)

    def _adopt_streams(self) -> None:
        """Continue with the streams that the engine has now."""
        self._finding.adopt_streams()
        self._endings.recount()
        self._streams = self.engine.streams
        self._by_name = self._streams.by_name
        self._schedule = Schedule()
        for entry in self._by_name.values():
            self._schedule.watch(entry)
            if entry.staged:
                self._schedule.watch_parts(entry)
        self._newest_id = self._streams.last_id
        self.subscriptions.adopt(self._streams.take_rows())

    def _install_listener(self, listener: Listener) -> None:
        self._journal.listener = listener

    # -- Changes ---------------------------------------------------------------------------------

    def create(self, name: str, request: CreateRequest, now_ms: int) -> Eventually[Created]:
        """Create a stream or a fork, or say what is in the way."""
        try:
            return self._create(name, request, now_ms)
        except ScanUnfinishedError:
            return self._slices.decide(partial(self._create, name, request, now_ms))

    def _create(self, name: str, request: CreateRequest, now_ms: int) -> Eventually[Created]:
        if self._journal.refusal is not None:
            return self._journal.refusal
        plan = self._plan_create(name, request, now_ms)
        if not isinstance(plan, lifecycle.Create):
            return self._journal.confirm(plan)
        fork = plan.stream.fork
        source = self._by_name[fork.source_name] if fork is not None else None
        stream = plan.stream.copied()  # the plan is the answer; the stream will change
        entry = StreamEntry(stream, source, self._streams.new_content(stream))
        if plan.data:
            entry.content.append(plan.data, stream.last_time_ms)
        if source is not None:
            self._streams.before_change(source)
            source.stream.fork_count += 1
            forks.share(source.stream, stream.base)
        self._endings.add(name)
        self._schedule.watch(entry)
        base = stream.tail - len(plan.data)
        wakes = self.subscriptions.entries and self._waking.before_create(
            name, base, has_data=bool(plan.data), now_ms=now_ms
        )
        created = self._journal.create(entry, plan)
        if wakes:
            self._waking.after_append(now_ms)
        # Apart from the answer: nobody may wait for that any more.
        visible: Eventually[lifecycle.Create | Unstored] = self._journal.confirm(plan)
        when(visible, self._report_created)
        return created

    def _report_created(self, decision: lifecycle.Create | Unstored) -> None:
        if isinstance(decision, lifecycle.Create):
            self._newest_id = decision.stream.id
            self.on_created(decision.stream.name, decision.stream.id)

    def append(self, name: str, request: AppendRequest, now_ms: int) -> Eventually[Appended]:
        """Append, close, or both."""
        entry = self._finding.for_change(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        quotas = self.quotas
        if request.stamp is not None and entry.stream.producers is None:
            self._streams.load_producers(entry)
        plan = streams.plan_append(entry.stream, request, quotas.max_stream_bytes, quotas.producers, now_ms)
        if not isinstance(plan, streams.Append):
            return self._unchanged(entry, plan, now_ms)
        wakes = (
            self.subscriptions.entries
            and plan.data
            and self._waking.before_append(name, entry.stream.tail, now_ms)
        )
        self._streams.before_change(entry)
        streams.apply_append(entry.stream, plan, now_ms)
        if plan.data:
            entry.content.append(plan.data, entry.stream.written_ms)
        if plan.closes:
            self._endings.drop_all_parts(entry)
        if entry.stream.retention:
            self._schedule.watch(entry)
        done = self._journal.append(entry, plan, now_ms)
        if wakes:
            self._waking.after_append(now_ms)
        return done

    def delete(self, name: str, now_ms: int) -> Eventually[Deleted]:
        """Delete a stream; its bytes stay while forks need them."""
        entry = self._finding.for_removal(name, now_ms)
        return self._endings.end(entry) if isinstance(entry, StreamEntry) else entry

    def delete_some(
        self, request: DeletionRequest, may_delete: Callable[[str], bool], now_ms: int
    ) -> Eventually[ManyDeleted]:
        """Delete the streams of a page, in the order of their names."""
        return self._endings.delete_some(request, may_delete, now_ms)

    def stage(
        self, name: str, request: StageRequest, max_staged_bytes: int, now_ms: int
    ) -> Eventually[Staged]:
        """Store a part, invisibly."""
        entry = self._finding.for_change(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        self._expire_parts(entry, now_ms)
        staged = entry.staged
        plan = parts.plan_stage(entry.stream, request, max_staged_bytes, lambda number: staged[number][:])
        if not isinstance(plan, parts.Stage):
            if isinstance(plan, parts.AlreadyStaged):
                self._finding.renew(entry, now_ms)
            return self._journal.confirm(plan)
        self._streams.before_change(entry)
        entry.stage(plan, now_ms)
        self._schedule.watch_parts(entry)
        return self._journal.stage(entry, plan, now_ms)

    def commit(self, name: str, request: CommitRequest, now_ms: int) -> Eventually[Committed]:
        """Append parts, in one atomic change."""
        entry = self._finding.for_change(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        self._expire_parts(entry, now_ms)
        quotas = self.quotas
        if request.stamp is not None and entry.stream.producers is None:
            self._streams.load_producers(entry)
        plan = parts.plan_commit(entry.stream, request, quotas.max_stream_bytes, quotas.producers, now_ms)
        if not isinstance(plan, parts.Commit):
            return self._unchanged(entry, plan, now_ms)
        wakes = (
            self.subscriptions.entries
            and plan.size
            and self._waking.before_append(name, entry.stream.tail, now_ms)
        )
        self._streams.before_change(entry)
        self._journal.release_parts(entry, entry.commit(plan, now_ms))
        if entry.stream.retention:
            self._schedule.watch(entry)
        done = self._journal.commit(entry, plan, now_ms)
        if wakes:
            self._waking.after_append(now_ms)
        return done

    def drop_part(self, name: str, id: str, now_ms: int) -> Eventually[Dropped]:
        """Drop a part; one that is not there counts as dropped."""
        entry = self._finding.for_removal(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        staged = entry.stream.staged
        if staged is None or id not in staged.parts:
            return self._journal.confirm(parts.Drop([]))
        return self._drop_parts(entry, [id])

    def configure(self, name: str, request: ConfigureRequest, now_ms: int) -> Eventually[Configured]:
        """Change a stream's configuration."""
        entry = self._finding.for_change(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        plan = configuration.plan_configure(entry.stream, request, now_ms)
        if plan.change is None:
            return self._journal.confirm(plan)
        self._streams.before_change(entry)
        entry.hide_change()
        configuration.apply_configuration(entry.stream, plan.change)
        done = self._journal.configure(entry, plan, plan.change)
        self._trim(entry, now_ms)  # at once: the stream may leave memory before the schedule's next turn
        self._schedule.watch(entry)
        return done

    def trim(self, name: str, request: TrimRequest, now_ms: int) -> Eventually[Trimmed]:
        """Drop the beginning of a stream."""
        entry = self._finding.for_removal(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        plan = trims.plan_trim(entry.stream, request, entry)
        if request.preview or not isinstance(plan, trims.Trimmed):
            return self._journal.confirm(plan)
        if plan.change is None:
            self._finding.renew(entry, now_ms)
            return self._journal.confirm(plan)
        done: Eventually[retention.Trim | Unstored] = self._apply_trim(entry, plan.change)
        self._finding.renew(entry, now_ms)
        return when(done, lambda done: plan if isinstance(done, retention.Trim) else done)

    # -- Reads -----------------------------------------------------------------------------------

    def read(
        self,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        *,
        peek: bool = False,
        held_bytes: int | None = None,
    ) -> Eventually[Read]:
        """Read a chunk and renew the stream's TTL, as the contract says."""
        return self._reading.read(name, request, max_bytes, now_ms, peek=peek, held_bytes=held_bytes)

    def fetch(self, name: str, stream_id: int, start: int, end: int) -> bytes | None:
        """Give bytes that a read has promised; None when the stream has lost them since."""
        return self._reading.fetch(name, stream_id, start, end)

    def locate(self, name: str, stream_id: int, start: int, end: int) -> FilePart | None:
        """Give the place of the first of these bytes; None when they are not in a file."""
        return self._reading.locate(name, stream_id, start, end)

    def head(self, name: str, now_ms: int) -> Eventually[Head]:
        """Describe a stream without renewing its TTL."""
        return self._reading.head(name, now_ms)

    def listing(
        self,
        prefix: str,
        glob: str | None,
        after: str,
        limit: int,
        now_ms: int,
        attributes: Mapping[str, str] = NO_ATTRIBUTES,
    ) -> Page:
        """List streams in the order of their names, beginning after a name."""
        return list_page(self._streams, prefix, glob, after, limit, now_ms, attributes)

    @property
    def newest_id(self) -> int:
        """The id of the newest stream that readers may see, or may have seen."""
        return self._newest_id

    def count_streams(self) -> int:
        """Count all streams, also those that are deleted and kept for their forks."""
        return self._endings.count

    # -- Now and then ----------------------------------------------------------------------------

    def expire(self, now_ms: int) -> bool:
        """End the streams whose time is over, trim others, and let the engine do what is due."""
        has_more = self.expire_more(now_ms)
        if self._journal.removal_refusal is None:
            for entry in self._schedule.due_parts(now_ms):
                self._expire_parts(entry, now_ms)
        self.engine.maintain(now_ms)
        self._schedule.prune(self._by_name)
        return has_more

    def expire_more(self, now_ms: int) -> bool:
        """End and trim more streams for some milliseconds; tells whether there are still more."""
        if self._journal.removal_refusal is not None:
            return False
        ends_s = time.monotonic() + _TURN_S
        by_name = self._by_name
        return (
            self._expire_some(map(self._load_due, _batches(self.engine.due(now_ms))), now_ms, ends_s)
            or self._expire_some(_batches(self._schedule.due(by_name, now_ms)), now_ms, ends_s)
            or self._expire_some(_batches(self._schedule.overfull(by_name)), now_ms, ends_s)
            or self._waking.tick(now_ms)
        )

    def _expire_some(self, due: Iterator[list[StreamEntry]], now_ms: int, ends_s: float) -> bool:
        """End what has expired and trim the rest, batch by batch; True when the time was over first."""
        for batch in due:
            found = [entry for entry in batch if not entry.stream.soft_deleted]
            others = [entry for entry in found if not entry.stream.expired(now_ms)]
            self._endings.end_all([entry for entry in found if entry.stream.expired(now_ms)])
            for entry in others:
                self._trim(entry, now_ms)
                self._schedule.watch(entry)
            if time.monotonic() > ends_s:
                return True
        return False

    def _load_due(self, names: list[str]) -> list[StreamEntry]:
        """Load streams that the engine knows to be due."""
        try:
            return self._streams.find_all(names)
        except Exception:  # one of them is damaged: the others still end
            if len(names) > 1:
                return [entry for name in names for entry in self._load_due([name])]
            _log.exception("%s is due, and cannot be loaded", names[0])
            return []

    # -- Steps of a change -----------------------------------------------------------------------

    def _plan_create(
        self, name: str, request: CreateRequest, now_ms: int
    ) -> lifecycle.CreatePlan | forks.ForkRefusal:
        if not isinstance(self._finding.find(name, now_ms), NotFound):
            existing = self._by_name[name].stream
            decision = lifecycle.plan_existing(existing, request)
            return lifecycle.Exists(existing.copied()) if isinstance(decision, lifecycle.Exists) else decision
        if request.forked_from is None:
            id = self._streams.next_id()
            plan = lifecycle.plan_create(id, name, request, now_ms, self.usual_retention)
            return self.quotas.refuse(plan) or plan
        fork = self._plan_fork(name, request, request.forked_from, now_ms)
        return (self.quotas.refuse(fork) or fork) if isinstance(fork, lifecycle.Create) else fork

    def _plan_fork(
        self, name: str, request: CreateRequest, source_name: str, now_ms: int
    ) -> lifecycle.Create | streams.TypeMismatch | forks.ForkRefusal:
        if isinstance(self._finding.find(source_name, now_ms), NotFound):
            return forks.SourceNotFound(source_name)
        entry = self._by_name[source_name]
        source = entry.stream
        anchor = forks.fork_anchor(source, request, earliest=source.start, appends=entry)
        if not isinstance(anchor, int):
            return anchor
        base = forks.fork_base(source, anchor, request.fork_sub_offset, entry)
        if not isinstance(base, int):
            return base
        inherited_ms = entry.time_at(base - 1) if base > source.start else 0
        id = self._streams.next_id()
        return forks.plan_fork(id, name, source, anchor, base, request, now_ms, inherited_ms)

    def _trim(self, entry: StreamEntry, now_ms: int) -> None:
        change = retention.plan_trim(entry.stream, now_ms, entry)
        if change is not None:
            self._apply_trim(entry, change)

    def _apply_trim(
        self, entry: StreamEntry, change: retention.Trim
    ) -> Eventually[retention.Trim | Unstored]:
        self._streams.before_change(entry)
        retention.apply_trim(entry.stream, change)
        return self._journal.trim(entry, change)

    def _unchanged(self, entry: StreamEntry, plan: T, now_ms: int) -> Eventually[T]:
        """Answer an append or a commit that changes nothing."""
        if streams.renews_ttl(plan):
            self._finding.renew(entry, now_ms)
        return self._journal.confirm(plan)

    def _expire_parts(self, entry: StreamEntry, now_ms: int) -> None:
        if entry.staged and entry.stream.staged is not None:
            ids = entry.stream.staged.expired(now_ms)
            if ids:
                self._drop_parts(entry, ids)

    def _drop_parts(self, entry: StreamEntry, ids: list[str]) -> Eventually[Dropped]:
        self._streams.before_change(entry)
        self._journal.release_parts(entry, entry.drop_parts(ids))
        return self._journal.drop_parts(entry, parts.Drop(ids))

    # -- Passed on to its parts --------------------------------------------------------------------

    @property
    def quotas(self) -> Quotas:
        """How much a stream may have, and how many there may be."""
        return self._endings.quotas

    @quotas.setter
    def quotas(self, quotas: Quotas) -> None:
        self._endings.quotas = quotas

    # -- Passed on to the engine -----------------------------------------------------------------

    @property
    def listener(self) -> Listener:
        """Called with the name of a stream after every change that a waiting reader must see."""
        return self._listeners.first

    @listener.setter
    def listener(self, listener: Listener) -> None:
        self._listeners.first = listener

    def listen(self, glob: str, clock_ms: Callable[[], int]) -> Listening:
        """Give events of the streams that a glob matches, from now on."""
        return self._listeners.listen(glob, clock_ms)

    @property
    def on_failure(self) -> Callable[[str], None]:
        """Called when the engine can promise nothing any more; its server should stop."""
        return self.engine.on_failure

    @on_failure.setter
    def on_failure(self, call: Callable[[str], None]) -> None:
        self.engine.on_failure = call

    @property
    def backlog(self) -> Backlog:
        """The changes that are accepted and not yet durable."""
        return self._journal

    @property
    def unsaved_bytes(self) -> int:
        """How many bytes wait in memory for a checkpoint."""
        return self.engine.unsaved_bytes

    @property
    def failure(self) -> str | None:
        """Why the engine accepts no changes, if it does not."""
        return self.engine.failure

    @property
    def measures(self) -> Measures | None:
        """Measurements of the disk; None where there is none."""
        return self.engine.measures

    async def open(self) -> None:
        """Open the engine."""
        await self.engine.open()

    async def close(self) -> None:
        """Close the engine."""
        await self.engine.close()

    def log_bytes(self) -> int:
        """Give the size of the log that a start would read."""
        return self.engine.log_bytes()

    def measure_sizes(self) -> Sizes | None:
        """Measure how much room the data takes."""
        return self.engine.measure_sizes()


def _batches(due: Iterable[T]) -> Iterator[list[T]]:
    """Take some at a time, and none in advance: what was taken counts as done."""
    taken = iter(due)
    while batch := list(islice(taken, _TOGETHER)):
        yield batch
