"""The table: answers every request of the contract, on streams that its engine finds and makes durable.

A change goes one way, whatever the engine:

        look up     `streams.find`            a stream in memory, or loaded into it
        decide      a function of `protocol`  pure; a refusal is a value
        announce    `streams.before_change`   the engine may need the stream as it is now
        apply       to `entry.stream`         the accepted state: the next decision is made on it
        record      `journal`                 the engine makes the change durable, then visible
        answer      when it is                at once in memory, a `Pending` with a log

A decision that changes nothing (a duplicate, a refusal) was still made on the accepted state, so it goes
through `journal.confirm`, which delays it until that state is durable.

The engine is handed in (`engine.py` says what it must do); it is the only part that differs between a
store in memory and one on a disk.
"""

import copy
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from millstream.protocol import configuration, forks, lifecycle, parts, reads, retention, streams, trims
from millstream.protocol.boundaries import ScanUnfinishedError
from millstream.protocol.configuration import ConfigureRequest
from millstream.protocol.origins import Origin, Search
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.requests import (
    AppendRequest,
    CreateRequest,
    DeletionRequest,
    LiveMode,
    ReadRequest,
)
from millstream.protocol.streams import NotFound, SoftDeleted, Unstored
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
    Missing,
    Page,
    Read,
    Staged,
    Store,
    Trimmed,
)
from millstream.store.deletions import Deletion
from millstream.store.engine import Engine
from millstream.store.entries import Ending, StreamEntry, ancestors, release_sources
from millstream.store.listing import list_page
from millstream.store.measures import Measures, Sizes
from millstream.store.pending import Eventually, Pending, when
from millstream.store.quotas import Quotas
from millstream.store.schedule import Schedule
from millstream.store.slices import Slices, UnfinishedError

_TURN_S: Final = 0.002  # for ending streams whose time is over, before others are served
_TOGETHER: Final = 64  # streams that end in one record
_RUNS: Final = 1000  # times in one chunk

T = TypeVar("T")

_log = logging.getLogger("millstream")


class Table(Store):
    """A store: decisions on streams, with an engine behind it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._journal = engine.journal
        self.quotas = Quotas()
        self._slices = Slices()
        self._adopt_streams()
        engine.on_recovered = self._adopt_streams

    def _adopt_streams(self) -> None:
        """Continue with the streams that the engine has now."""
        self._streams = self.engine.streams
        self._by_name = self._streams.by_name
        self._schedule = Schedule()
        for entry in self._by_name.values():
            self._schedule.watch(entry)
            if entry.staged:
                self._schedule.watch_parts(entry)
        self.quotas.recount(self._streams.existing)
        self._stream_count = self._streams.count()
        self._newest_id = self._streams.last_id

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
        stream = copy.copy(plan.stream)  # the plan is the answer; the stream will change
        entry = StreamEntry(stream, source, self._streams.new_content(stream))
        if plan.data:
            entry.content.append(plan.data, stream.last_time_ms)
        if source is not None:
            self._streams.before_change(source)
            source.stream.fork_count += 1
            forks.share(source.stream, stream.base)
        self.quotas.add(name)
        self._stream_count += 1
        self._schedule.watch(entry)
        created = self._journal.create(entry, plan)
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
        entry = self._find_for_change(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        quotas = self.quotas
        if request.stamp is not None and entry.stream.producers is None:
            self._streams.load_producers(entry)
        plan = streams.plan_append(entry.stream, request, quotas.max_stream_bytes, quotas.producers, now_ms)
        if not isinstance(plan, streams.Append):
            if streams.renews_ttl(plan):
                self._renew(entry, now_ms)
            return self._journal.confirm(plan)
        self._streams.before_change(entry)
        if plan.data:
            entry.content.append(plan.data, entry.stream.arrival_ms(now_ms))
        streams.apply_append(entry.stream, plan, now_ms)
        if plan.closes:
            self._drop_all_parts(entry)
        if entry.stream.retention:
            self._schedule.watch(entry)
        return self._journal.append(entry, plan, now_ms)

    def delete(self, name: str, now_ms: int) -> Eventually[Deleted]:
        """Delete a stream; its bytes stay while forks need them."""
        entry = self._find_for_removal(name, now_ms)
        return self._end(entry) if isinstance(entry, StreamEntry) else entry

    def delete_some(
        self, request: DeletionRequest, may_delete: Callable[[str], bool], now_ms: int
    ) -> Eventually[ManyDeleted]:
        """Delete the streams of a page, in the order of their names."""
        deletion = Deletion(
            self._streams.walk(request.prefix, request.after),
            lambda name: request.selects(name) and may_delete(name),
            partial(self._delete_named, now_ms=now_ms),
            request.limit,
        )
        attempt = partial(self._continue, deletion)
        try:
            return attempt()
        except UnfinishedError:
            return self._slices.decide(attempt)

    def _continue(self, deletion: Deletion) -> Eventually[ManyDeleted]:
        if self._journal.removal_refusal is not None:
            return self._journal.removal_refusal
        page = deletion.advance()
        if page is None:
            raise UnfinishedError
        return self._journal.confirm(page)

    def _delete_named(self, names: list[str], now_ms: int) -> int:
        found = [entry for entry in self._streams.find_all(names) if not entry.stream.soft_deleted]
        self._end_all(found)
        return sum(not entry.stream.expired(now_ms) for entry in found)

    def stage(
        self, name: str, request: StageRequest, max_staged_bytes: int, now_ms: int
    ) -> Eventually[Staged]:
        """Store a part, invisibly."""
        entry = self._find_for_change(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        self._expire_parts(entry, now_ms)
        staged = entry.staged
        plan = parts.plan_stage(entry.stream, request, max_staged_bytes, lambda number: staged[number][:])
        if not isinstance(plan, parts.Stage):
            if isinstance(plan, parts.AlreadyStaged):
                self._renew(entry, now_ms)
            return self._journal.confirm(plan)
        self._streams.before_change(entry)
        entry.stage(plan, now_ms)
        self._schedule.watch_parts(entry)
        return self._journal.stage(entry, plan, now_ms)

    def commit(self, name: str, request: CommitRequest, now_ms: int) -> Eventually[Committed]:
        """Append parts, in one atomic change."""
        entry = self._find_for_change(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        self._expire_parts(entry, now_ms)
        quotas = self.quotas
        if request.stamp is not None and entry.stream.producers is None:
            self._streams.load_producers(entry)
        plan = parts.plan_commit(entry.stream, request, quotas.max_stream_bytes, quotas.producers, now_ms)
        if not isinstance(plan, parts.Commit):
            if streams.renews_ttl(plan):
                self._renew(entry, now_ms)
            return self._journal.confirm(plan)
        self._streams.before_change(entry)
        self._journal.release_parts(entry, entry.commit(plan, now_ms))
        if entry.stream.retention:
            self._schedule.watch(entry)
        return self._journal.commit(entry, plan, now_ms)

    def drop_part(self, name: str, id: str, now_ms: int) -> Eventually[Dropped]:
        """Drop a part; one that is not there counts as dropped."""
        entry = self._find_for_removal(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        staged = entry.stream.staged
        if staged is None or id not in staged.parts:
            return self._journal.confirm(parts.Drop([]))
        return self._drop_parts(entry, [id])

    def configure(self, name: str, request: ConfigureRequest, now_ms: int) -> Eventually[Configured]:
        """Change a stream's configuration."""
        entry = self._find_for_change(name, now_ms)
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
        entry = self._find_for_removal(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return entry
        plan = trims.plan_trim(entry.stream, request, entry)
        if request.preview or not isinstance(plan, trims.Trimmed):
            return self._journal.confirm(plan)
        if plan.change is None:
            self._renew(entry, now_ms)
            return self._journal.confirm(plan)
        done: Eventually[retention.Trim | Unstored] = self._apply_trim(entry, plan.change)
        self._renew(entry, now_ms)
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
        if request.origin is not None:
            return self._read_from(request.origin, name, request, max_bytes, now_ms, peek, held_bytes)
        try:
            return self._read(name, request, max_bytes, now_ms, peek, held_bytes)
        except ScanUnfinishedError:
            attempt = partial(self._read, name, request, max_bytes, now_ms, peek, held_bytes)
            return self._slices.decide(attempt)

    def _read(
        self,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        peek: bool,
        held_bytes: int | None,
    ) -> Eventually[Read]:
        entry = self._find_visible(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return self._journal.confirm_missing(name, entry)
        stream = entry.stream
        span = reads.plan_read(request, stream.kind, entry.start, entry.tail, max_bytes, entry)
        if not isinstance(span, reads.Span):
            return span
        if not peek:
            self._renew(entry, now_ms)
        runs: tuple[reads.Run, ...] = ()
        if request.times and span.start < span.end:
            if request.live is not LiveMode.SSE:
                span = reads.Span(span.start, next(entry.runs(span.start, span.end)).end)
            elif not peek:
                runs = tuple(islice(entry.runs(span.start, span.end), _RUNS))
                span = reads.Span(span.start, runs[-1].end)
        is_held = not peek and (held_bytes is None or span.end - span.start <= held_bytes)
        first_ms, last_ms = entry.times_of(span.start, span.end)
        return reads.Chunk(
            stream.id,
            stream.content_type,
            stream.kind,
            stream.lifetime,
            span.start,
            span.end,
            entry.fetch(span.start, span.end) if is_held else b"",
            span.end == entry.tail,
            entry.closed,
            first_ms,
            last_ms,
            runs,
            stream.created_ms,
        )

    def _read_from(
        self,
        origin: Origin,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        peek: bool,
        held_bytes: int | None,
    ) -> Eventually[Read]:
        """Read from where a time or a number of messages begins, which may take several turns to find."""
        searches: dict[int, Search] = {}  # by stream: a name may be given to another one in between

        def attempt() -> Eventually[Read]:
            entry = self._find_visible(name, now_ms)
            if not isinstance(entry, StreamEntry):
                return self._journal.confirm_missing(name, entry)
            id = entry.stream.id
            if id not in searches:
                searches[id] = Search(origin, entry.tail, now_ms)
            search = searches[id]
            offset = search.find(entry.stream.kind, entry.start, entry)
            until = search.tail if request.until is None else min(request.until, search.tail)
            resolved = msgspec.structs.replace(request, origin=None, offset=offset, until=until)
            return self._read(name, resolved, max_bytes, now_ms, peek, held_bytes)

        try:
            return attempt()
        except ScanUnfinishedError:
            return self._slices.decide(attempt)

    def fetch(self, name: str, stream_id: int, start: int, end: int) -> bytes | None:
        """Give bytes that a read has promised; None when the stream has lost them since."""
        entry = self._find_promised(name, stream_id, start)
        return entry.fetch(start, end) if entry is not None else None

    def locate(self, name: str, stream_id: int, start: int, end: int) -> FilePart | None:
        """Give the place of the first of these bytes; None when they are not in a file."""
        entry = self._find_promised(name, stream_id, start)
        if entry is None:
            return None
        owner, ceiling = entry.owner(start)
        return self._streams.locate(owner, start, min(end, ceiling))

    def head(self, name: str, now_ms: int) -> Eventually[Head]:
        """Describe a stream without renewing its TTL."""
        entry = self._find_visible(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return self._journal.confirm_missing(name, entry)
        return entry.as_visible()

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
        return self._stream_count

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
        )

    def _expire_some(self, due: Iterator[list[StreamEntry]], now_ms: int, ends_s: float) -> bool:
        """End what has expired and trim the rest, batch by batch; True when the time was over first."""
        for batch in due:
            found = [entry for entry in batch if not entry.stream.soft_deleted]
            others = [entry for entry in found if not entry.stream.expired(now_ms)]
            self._end_all([entry for entry in found if entry.stream.expired(now_ms)])
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

    # -- Looking up ------------------------------------------------------------------------------

    def _find(self, name: str, now_ms: int) -> StreamEntry | Missing:
        """Find a stream, and end it if its time is over."""
        entry = self._by_name.get(name) or self._streams.find(name)  # most are in memory: a call less
        if entry is None:
            return NotFound(name)
        entry.used = True
        stream = entry.stream
        if stream.deadline_ms is not None and stream.expired(now_ms) and not stream.soft_deleted:
            self._end(entry)
            return SoftDeleted(name) if stream.soft_deleted else NotFound(name)
        return SoftDeleted(name) if stream.soft_deleted else entry

    def _find_for_change(self, name: str, now_ms: int) -> StreamEntry | Missing | Unstored | Pending[Any]:
        """Find a stream to change, unless changes are refused."""
        if self._journal.refusal is not None:
            return self._journal.refusal
        found = self._find(name, now_ms)
        if not isinstance(found, StreamEntry):
            return self._journal.confirm(found)
        return found if found.refusal is None else found.refusal

    def _find_for_removal(self, name: str, now_ms: int) -> StreamEntry | Missing | Unstored | Pending[Any]:
        """Find a stream to remove something of it, which is accepted for longer than other changes."""
        if self._journal.removal_refusal is not None:
            return self._journal.removal_refusal
        found = self._find(name, now_ms)
        return found if isinstance(found, StreamEntry) else self._journal.confirm(found)

    def _find_visible(self, name: str, now_ms: int) -> StreamEntry | Missing:
        """Find a stream to read: one whose creation is durable."""
        found = self._find(name, now_ms)
        if isinstance(found, StreamEntry) and not found.is_visible:
            return NotFound(name)
        return found

    def _find_promised(self, name: str, stream_id: int, start: int) -> StreamEntry | None:
        """Find the stream that has promised bytes, if it still has them."""
        entry = self._streams.find(name)
        if entry is None or entry.stream.id != stream_id or entry.stream.soft_deleted or start < entry.start:
            return None
        entry.used = True
        return entry

    # -- Steps of a change -----------------------------------------------------------------------

    def _plan_create(
        self, name: str, request: CreateRequest, now_ms: int
    ) -> lifecycle.CreatePlan | forks.ForkRefusal:
        if not isinstance(self._find(name, now_ms), NotFound):
            existing = self._by_name[name].stream
            decision = lifecycle.plan_existing(existing, request)
            return (
                lifecycle.Exists(copy.copy(existing)) if isinstance(decision, lifecycle.Exists) else decision
            )
        if request.forked_from is None:
            id = self._streams.next_id()
            plan = lifecycle.plan_create(id, name, request, now_ms, self.usual_retention)
            return self.quotas.refuse(plan) or plan
        fork = self._plan_fork(name, request, request.forked_from, now_ms)
        return (self.quotas.refuse(fork) or fork) if isinstance(fork, lifecycle.Create) else fork

    def _plan_fork(
        self, name: str, request: CreateRequest, source_name: str, now_ms: int
    ) -> lifecycle.Create | streams.TypeMismatch | forks.ForkRefusal:
        if isinstance(self._find(source_name, now_ms), NotFound):
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

    def _renew(self, entry: StreamEntry, now_ms: int) -> None:
        if entry.stream.lifetime.is_sliding:
            self._streams.before_change(entry)
            entry.stream.renew(now_ms)
            self._journal.renew(entry)

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

    def _end(self, entry: StreamEntry) -> Eventually[Deleted]:
        # An expired stream that is met while changes are refused ends later; readers see no difference.
        if self._journal.removal_refusal is not None:
            return self._journal.removal_refusal
        plan = lifecycle.plan_delete(entry.stream)
        if not isinstance(plan, lifecycle.Delete):
            return self._journal.confirm(plan)
        self._streams.before_change(entry)
        self._drop_all_parts(entry)
        if plan.soft:
            entry.stream.soft_deleted = True
            return self._journal.end(entry, Ending(plan, [], None))
        for ancestor in ancestors(entry):
            self._streams.before_change(ancestor)
        removed, source = release_sources(entry)
        for gone in removed:
            self.quotas.remove(gone.stream.name)
        self._stream_count -= len(removed)
        return self._journal.end(entry, Ending(plan, removed, source))

    def _end_all(self, entries: list[StreamEntry]) -> None:
        """End streams, those that can in one record."""
        alone: list[StreamEntry] = []
        for entry in entries:
            if lifecycle.ends_alone(entry.stream):
                self._streams.before_change(entry)
                self._drop_all_parts(entry)
                self.quotas.remove(entry.stream.name)
                alone.append(entry)
            else:
                self._end(entry)
        if alone:
            self._stream_count -= len(alone)
            self._journal.end_all(alone)

    def _expire_parts(self, entry: StreamEntry, now_ms: int) -> None:
        if entry.staged and entry.stream.staged is not None:
            ids = entry.stream.staged.expired(now_ms)
            if ids:
                self._drop_parts(entry, ids)

    def _drop_parts(self, entry: StreamEntry, ids: list[str]) -> Eventually[Dropped]:
        self._streams.before_change(entry)
        self._journal.release_parts(entry, entry.drop_parts(ids))
        return self._journal.drop_parts(entry, parts.Drop(ids))

    def _drop_all_parts(self, entry: StreamEntry) -> None:
        """Drop the parts of a stream that can no longer be appended to."""
        if entry.staged:
            self._journal.release_parts(entry, entry.drop_all_parts())

    # -- Passed on to the engine -----------------------------------------------------------------

    @property
    def listener(self) -> Listener:
        """Called with the name of a stream after every change that a waiting reader must see."""
        return self._journal.listener

    @listener.setter
    def listener(self, listener: Listener) -> None:
        self._journal.listener = listener

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
