"""The workspace of a round: working copies of streams, on which a table decides, and what changes in them.

The table is the one of every engine. It finds its streams here, as copies of what is committed, and the
journal notes what each decision changes. Nothing of it is seen by readers: when the round is committed, the
copies take the place of what they were made of (`publish`); when it is not, they are dropped.

Rounds that hold the locks of their rows may do everything. Others may only append and renew: a change of
several streams, or of what a stream's parts are, is not written under a version check alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from millstream.protocol import configuration, lifecycle, parts, retention, streams
from millstream.protocol.configuration import Configuration
from millstream.protocol.staging import Staged
from millstream.protocol.streams import StoreFailed, Stream, Unstored
from millstream.store.base import Listener, ignore
from millstream.store.engine import Engine
from millstream.store.entries import Ending, StreamEntry
from millstream.store.postgres.loaded.cache import Saved, StreamCache
from millstream.store.postgres.loaded.content import NotLoadedError, ProducersOf, RowContent, WorkContent
from millstream.store.postgres.loaded.loading import LoadedParts
from millstream.store.postgres.new_rows import NewRow
from millstream.store.postgres.subscribing.host import RoundHost
from millstream.store.table import Table

_LONGEST_RENEWAL_STEP_MS = 1_000

D = TypeVar("D")


class Change(msgspec.Struct, eq=False):
    """What a round changes of one stream."""

    entry: StreamEntry
    version: int
    """Which version was decided on; a new stream has none."""
    tells: bool = False
    """Whether its readers are woken when the round is committed."""
    is_new: bool = False
    is_gone: bool = False
    is_ended: bool = False
    """Whether it was deleted or is over, gone or kept for its forks."""
    producers: set[bytes] = msgspec.field(default_factory=set)
    staged: list[parts.Stage] = msgspec.field(default_factory=list)
    released: list[int] = msgspec.field(default_factory=list)
    """The numbers of parts that are no longer staged."""
    is_trimmed: bool = False
    drops_parts: bool = False
    rows: list[NewRow] = []
    """Its new content, once it is being written."""

    @property
    def content(self) -> WorkContent:
        """Its content, with what the round has appended."""
        content = self.entry.content
        assert isinstance(content, WorkContent)  # a working copy has no other
        return content


class WorkStreams:
    """Working copies of the streams of a round."""

    def __init__(self, cache: StreamCache) -> None:
        self._cache = cache
        self.by_name: dict[str, StreamEntry] = {}
        self.by_id: dict[int, StreamEntry] = {}
        self._removed: set[str] = set()
        self.last_id = 0
        self.new_ids: list[int] = []
        self.loaded_parts: dict[int, LoadedParts] = {}
        self.is_locked = False

    def clear(self) -> None:
        """Drop all copies."""
        self.by_name.clear()
        self.by_id.clear()
        self._removed.clear()

    def find(self, name: str) -> StreamEntry | None:
        """Find a stream, and make a copy of it."""
        saved = self._cache.get(name) if name not in self._removed else None
        return self._copy(saved) if saved is not None else None

    def _copy(self, saved: Saved) -> StreamEntry:
        original = saved.entry
        known = self.by_id.get(original.stream.id)
        if known is not None:
            return known
        stream = original.stream.copied()
        if stream.producers is not None:
            stream.producers = stream.producers.copy()
        loaded = self.loaded_parts.get(stream.id)
        if saved.parts_next:
            stream.staged = Staged(count=saved.parts_next)
        source = original.source
        if source is not None and self.is_locked:
            source = self._copy(self._cache.by_id[source.stream.id])
        entry = StreamEntry(stream, source, WorkContent(saved.content, stream.tail, saved.appends))
        entry.publish()
        if original.indexes is None:
            original.indexes = {}
        entry.indexes = original.indexes
        entry.logged_deadline_ms = original.logged_deadline_ms
        if loaded is not None and stream.staged is not None:
            stream.staged.parts = loaded.staged.parts.copy()
            stream.staged.size = loaded.staged.size
            entry.staged = dict(loaded.pieces)
        self.by_name[stream.name] = self.by_id[stream.id] = entry
        return entry

    def find_all(self, names: list[str]) -> list[StreamEntry]:
        """Find the streams that there are of some names."""
        found = (self.by_name.get(name) or self.find(name) for name in names)
        return [entry for entry in found if entry is not None]

    def add(self, entry: StreamEntry) -> None:
        """Add a new stream."""
        self.by_name[entry.stream.name] = self.by_id[entry.stream.id] = entry

    def remove(self, entry: StreamEntry) -> None:
        """Remove a stream; its name may be given to another one in the same round."""
        if self.by_name.get(entry.stream.name) is entry:
            del self.by_name[entry.stream.name]
        self._removed.add(entry.stream.name)

    def walk(self, prefix: str, after: str) -> Iterator[str]:
        """Give no names: pages of them come from the database."""
        return iter(())

    def existing(self, prefix: str) -> Iterator[str]:
        """Give no names: what counts towards quotas is counted in the database."""
        return iter(())

    def count(self) -> int:
        """Count nothing: the database does."""
        return 0

    def next_id(self) -> int:
        """Give an id that no stream ever had."""
        self.last_id = self.new_ids.pop(0)
        return self.last_id

    def take_rows(self) -> dict[str, bytes]:
        """Give no rows: those of subscriptions are loaded by a round."""
        return {}

    def new_content(self, stream: Stream) -> WorkContent:
        """Make the place for a new stream's bytes."""
        saved = RowContent(self._cache.memory, stream.id, stream.base)
        return WorkContent(saved, stream.base, 0)

    def load_producers(self, entry: StreamEntry) -> None:
        """Have the producers of a stream loaded; a new one has none."""
        if self._cache.by_id.get(entry.stream.id) is not None:
            raise NotLoadedError(ProducersOf(entry.stream.id))
        entry.stream.producers = {}

    def before_change(self, entry: StreamEntry) -> None:
        """Nothing needs a stream as it was: there is the original."""

    def locate(self, entry: StreamEntry, start: int, end: int) -> None:
        """Nothing is in a file."""


class WorkJournal:
    """Notes what the decisions of a round change."""

    refusal: Unstored | None = None
    unsynced_changes = unsynced_bytes = synced_bytes = 0
    listener: Listener = staticmethod(ignore)

    def __init__(self, work: WorkStreams, cache: StreamCache) -> None:
        self._work = work
        self._cache = cache
        self.changes: dict[int, Change] = {}
        self.kept: dict[str, bytes | None] = {}
        """Rows of subscriptions."""

    @property
    def removal_refusal(self) -> Unstored | None:
        """Refuse the end of a stream that is met expired by a round without locks: a locked one ends it."""
        return None if self._work.is_locked else StoreFailed()

    def clear(self) -> None:
        """Begin a round."""
        self.changes.clear()
        self.kept.clear()

    def _changed(self, entry: StreamEntry, *, tells: bool = False) -> Change:
        id = entry.stream.id
        change = self.changes.get(id)
        if change is None:
            saved = self._cache.by_id.get(id)
            change = self.changes[id] = Change(entry, saved.version if saved is not None else 0)
        change.tells |= tells
        return change

    def create(self, entry: StreamEntry, plan: lifecycle.Create) -> lifecycle.Create:
        """Note a creation."""
        self._work.add(entry)
        self._changed(entry, tells=True).is_new = True
        if entry.source is not None:
            self._changed(entry.source)
        entry.publish()
        return plan

    def append(self, entry: StreamEntry, plan: streams.Append, now_ms: int) -> streams.Append:
        """Note an append."""
        change = self._changed(entry, tells=True)
        if plan.stamp is not None:
            change.producers.add(plan.stamp.id)
            change.producers.update(plan.forgets)
        change.drops_parts |= plan.closes
        return plan

    def end(self, entry: StreamEntry, ending: Ending) -> lifecycle.Delete:
        """Note a deletion."""
        change = self._changed(entry, tells=True)
        change.drops_parts = change.is_ended = True
        for gone in ending.removed:
            self._changed(gone).is_gone = True
            self._work.remove(gone)
        if ending.remaining_source is not None:
            self._changed(ending.remaining_source).is_trimmed = True
        return ending.plan

    def end_all(self, entries: list[StreamEntry]) -> None:
        """Note deletions."""
        for entry in entries:
            change = self._changed(entry, tells=True)
            change.is_gone = change.is_ended = True
            self._work.remove(entry)

    def renew(self, entry: StreamEntry) -> None:
        """Note a renewed TTL, once in a while."""
        if is_renewal_due(entry):
            self._changed(entry)

    def configure(
        self, entry: StreamEntry, plan: configuration.Configured, change: Configuration
    ) -> configuration.Configured:
        """Note another configuration."""
        self._changed(entry, tells=True)
        entry.show_change(change)
        return plan

    def trim(self, entry: StreamEntry, change: retention.Trim) -> retention.Trim:
        """Note a later start."""
        self._changed(entry, tells=True).is_trimmed = True
        return change

    def stage(self, entry: StreamEntry, plan: parts.Stage, now_ms: int) -> parts.Stage:
        """Note a part."""
        self._changed(entry).staged.append(plan)
        return plan

    def commit(self, entry: StreamEntry, plan: parts.Commit, now_ms: int) -> parts.Commit:
        """Note an append of parts."""
        self.append(entry, plan.append, now_ms)
        return plan

    def drop_parts(self, entry: StreamEntry, plan: parts.Drop) -> parts.Drop:
        """Note that parts were dropped."""
        self._changed(entry)
        return plan

    def release_parts(self, entry: StreamEntry, numbers: list[int]) -> None:
        """Note that parts are no longer staged."""
        self._changed(entry).released.extend(numbers)

    def keep(self, rows: Mapping[str, bytes | None]) -> None:
        """Note rows of subscriptions."""
        self.kept.update(rows)

    def confirm(self, decision: D) -> D:
        """Give a decision; the round keeps it until what it was made on is committed."""
        return decision

    def confirm_missing(self, name: str, found: D) -> D:
        """Give the answer that a stream is gone, likewise."""
        return found


def is_renewal_due(entry: StreamEntry) -> bool:
    """Tell whether a renewed TTL is worth a transaction: it is once in a while, more often if it is short."""
    step_ms = min(_LONGEST_RENEWAL_STEP_MS, (entry.stream.lifetime.ttl_s or 0) * 1000 // 16)
    deadline_ms = entry.stream.deadline_ms or 0
    return deadline_ms != entry.logged_deadline_ms and abs(deadline_ms - entry.logged_deadline_ms) >= step_ms


class WorkEngine:
    """What the deciding table is handed."""

    failure = None
    measures = None
    unsaved_bytes = 0

    def __init__(self, cache: StreamCache) -> None:
        self.streams = WorkStreams(cache)
        self.journal = WorkJournal(self.streams, cache)
        self.on_recovered: Callable[[], None] = lambda: None
        self.on_failure: Callable[[str], None] = ignore

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    def due(self, now_ms: int) -> Iterable[str]:
        """The database knows what is due."""
        return ()

    def maintain(self, now_ms: int) -> None:
        """Nothing to do."""

    def log_bytes(self) -> int:
        """There is no log."""
        return 0

    def measure_sizes(self) -> None:
        """There are no files."""


class Deciding(Table):
    """The table of a workspace; it decides when a round asks it to."""

    def _host(self, engine: Engine) -> RoundHost:
        self.host = RoundHost(engine, self._finding, self._slices, self.append)
        return self.host

    def renew(self, name: str, stream_id: int, now_ms: int) -> None:
        """Renew the TTL of a stream that was read."""
        entry = self._finding.find(name, now_ms)
        if isinstance(entry, StreamEntry) and entry.stream.id == stream_id:
            self._finding.renew(entry, now_ms)

    def create_now(self, *arguments: Any) -> Any:
        """Create, and raise what says that more must be scanned first, instead of going on by itself."""
        return self._create(*arguments)

    def delete_named(self, names: list[str], now_ms: int) -> int:
        """Delete streams, and count those that were not over already."""
        found = [entry for entry in self._streams.find_all(names) if not entry.stream.soft_deleted]
        counted = sum(not entry.stream.expired(now_ms) for entry in found)
        self._endings.end_all(found)
        return counted

    def look_after(self, names: list[str], now_ms: int) -> None:
        """End the streams whose time is over, trim the others, and drop parts that have waited too long."""
        for entry in self._streams.find_all(names):
            if entry.stream.soft_deleted:
                continue
            if entry.stream.expired(now_ms):
                self._endings.end(entry)
            else:
                self._trim(entry, now_ms)
                self._expire_parts(entry, now_ms)

    def forget_schedule(self) -> None:
        """Forget what is due when: the database knows."""
        self._schedule = type(self._schedule)()
