"""The engine in memory: for tests, caches, and streams that may be lost. Every change is final at once."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from millstream.protocol import configuration, lifecycle, parts, retention, streams
from millstream.protocol.configuration import Configuration
from millstream.protocol.streams import Stream
from millstream.store.base import Listener, ignore
from millstream.store.entries import Ending, StreamEntry
from millstream.store.names import SortedNames
from millstream.store.pieces import TrimmedPieces
from millstream.store.table import Table

D = TypeVar("D")


def memory_store() -> Table:
    """Make a store whose streams live as long as the process."""
    return Table(MemoryEngine())


class MemoryStreams:
    """All streams, in memory."""

    def __init__(self) -> None:
        self.by_name: dict[str, StreamEntry] = {}
        # A random beginning, so that an entity tag of another run never matches.
        self.last_id = secrets.randbits(47)
        self._names = SortedNames()

    def find(self, name: str) -> StreamEntry | None:
        """Find a stream."""
        return self.by_name.get(name)

    def find_all(self, names: list[str]) -> list[StreamEntry]:
        """Find the streams that there are of some names."""
        return [entry for name in names if (entry := self.by_name.get(name)) is not None]

    def add(self, entry: StreamEntry) -> None:
        """Add a stream."""
        self.by_name[entry.stream.name] = entry
        self._names.add(entry.stream.name)

    def remove(self, entry: StreamEntry) -> None:
        """Remove a stream."""
        del self.by_name[entry.stream.name]
        self._names.remove(entry.stream.name)

    def walk(self, prefix: str, after: str) -> Iterator[str]:
        """Give names in order."""
        return self._names.walk(prefix, after)

    def existing(self, prefix: str) -> Iterator[str]:
        """Give the names below a prefix."""
        return self._names.walk(prefix, "")

    def count(self) -> int:
        """Count all streams."""
        return len(self.by_name)

    def next_id(self) -> int:
        """Give an id that no stream ever had."""
        self.last_id += 1
        return self.last_id

    def take_rows(self) -> dict[str, bytes]:
        """Nothing is left of an earlier run."""
        return {}

    def new_content(self, stream: Stream) -> TrimmedPieces:
        """Make the place for a new stream's bytes."""
        return TrimmedPieces(stream.base)

    def load_producers(self, entry: StreamEntry) -> None:
        """All that a stream knows is in memory."""
        entry.stream.producers = {}

    def before_change(self, entry: StreamEntry) -> None:
        """Nothing needs a stream as it was."""

    def locate(self, entry: StreamEntry, start: int, end: int) -> None:
        """Nothing is in a file."""


class MemoryJournal:
    """Publishes every change at once."""

    refusal = removal_refusal = None
    unsynced_changes = unsynced_bytes = synced_bytes = 0

    def __init__(self, streams: MemoryStreams) -> None:
        self._streams = streams
        self.listener: Listener = ignore

    def create(self, entry: StreamEntry, plan: lifecycle.Create) -> lifecycle.Create:
        """Add and publish a stream."""
        self._streams.add(entry)
        entry.publish()
        self.listener(entry.stream.name)
        return plan

    def append(self, entry: StreamEntry, plan: streams.Append, now_ms: int) -> streams.Append:
        """Publish an append."""
        stream = entry.stream
        entry.tail, entry.closed = stream.tail, stream.closed
        self.listener(stream.name)
        return plan

    def end(self, entry: StreamEntry, ending: Ending) -> lifecycle.Delete:
        """Remove what is gone."""
        for removed in ending.removed:
            self._streams.remove(removed)
        if ending.remaining_source is not None:
            _free(ending.remaining_source)
        self.listener(entry.stream.name)
        return ending.plan

    def end_all(self, entries: list[StreamEntry]) -> None:
        """Remove streams."""
        for entry in entries:
            self._streams.remove(entry)
            self.listener(entry.stream.name)

    def renew(self, entry: StreamEntry) -> None:
        """A renewal is in the entry; there is nothing to record."""

    def configure(
        self, entry: StreamEntry, plan: configuration.Configured, change: Configuration
    ) -> configuration.Configured:
        """Show another configuration."""
        entry.show_change(change)
        self.listener(entry.stream.name)
        return plan

    def trim(self, entry: StreamEntry, change: retention.Trim) -> retention.Trim:
        """Publish a later start, and free the bytes before it."""
        entry.publish()
        _free(entry)
        self.listener(entry.stream.name)
        return change

    def stage(self, entry: StreamEntry, plan: parts.Stage, now_ms: int) -> parts.Stage:
        """A part is in the entry, and readers do not see it."""
        return plan

    def commit(self, entry: StreamEntry, plan: parts.Commit, now_ms: int) -> parts.Commit:
        """Publish an append of parts."""
        entry.publish()
        self.listener(entry.stream.name)
        return plan

    def drop_parts(self, entry: StreamEntry, plan: parts.Drop) -> parts.Drop:
        """The parts have left the entry already."""
        return plan

    def release_parts(self, entry: StreamEntry, numbers: list[int]) -> None:
        """Parts have no files here."""

    def keep(self, rows: Mapping[str, bytes | None]) -> None:
        """The table has what is in the rows, for as long as anything lasts here."""

    def confirm(self, decision: D) -> D:
        """Everything is final."""
        return decision

    def confirm_missing(self, name: str, found: D) -> D:
        """Everything is final."""
        return found


class MemoryEngine:
    """Streams and journal, with nothing to open or to maintain."""

    failure = None
    measures = None
    unsaved_bytes = 0

    def __init__(self) -> None:
        self.streams = MemoryStreams()
        self.journal = MemoryJournal(self.streams)
        self.on_recovered: Callable[[], None] = lambda: None
        self.on_failure: Callable[[str], None] = ignore

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    def due(self, now_ms: int) -> Iterable[str]:
        """All streams are in memory, so the table's schedule has them all."""
        return ()

    def maintain(self, now_ms: int) -> None:
        """Nothing to do."""

    def log_bytes(self) -> int:
        """There is no log."""
        return 0

    def measure_sizes(self) -> None:
        """There are no files."""


def _free(entry: StreamEntry) -> None:
    """Free the bytes that neither the stream's readers nor its forks may ask for."""
    assert isinstance(entry.content, TrimmedPieces)  # this engine makes no other
    entry.content.trim(entry.stream.start, entry.stream.shared)
