"""The stream cache: which streams are in memory, how they get there and how they leave.

A stream is in one of these states, and moves between them only by what is written beside the arrows:

              create                      checkpoint
        ----------------->  dirty  <------------------->  clean
                              ^         any change          |  ^
                              | end                   evict |  | load
                              v                             v  |
                           removed ----------------->  in the catalog only
                                      checkpoint            (or nowhere, when it was removed)

A stream stays until memory is needed for others (`eviction`). Each use of it sets a mark. When streams have
to leave, they are looked at in the order in which they came: what has the mark loses it and goes to the end
of the order, what is clean and has none is evicted.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby

from millstream.protocol.content import shared_type
from millstream.protocol.streams import Stream
from millstream.store.base import FilePart
from millstream.store.entries import StreamEntry
from millstream.store.log.cache.memory_use import MemoryUse
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.rows import Row
from millstream.store.log.files.content import StreamContent
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.staged import PartId, StoredPart, find_parts
from millstream.store.log.wal.segments import DamagedError
from millstream.store.names import SortedNames


def ignore_change(entry: StreamEntry) -> None:
    """Do nothing before a change: no snapshot of the stream is missing."""


class StreamCache:
    """The streams in memory, and the way to the others."""

    def __init__(self, catalog: Catalog, files: StreamFiles, last_id: int) -> None:
        self._catalog = catalog
        self._files = files
        self.last_id = last_id
        self.by_name: dict[str, StreamEntry] = {}
        self.by_id: dict[int, StreamEntry] = {}
        self.dirty: dict[int, StreamEntry] = {}
        self.period = 1
        """Counts checkpoints that have begun; an entry that has `changed_in` it is in `dirty`."""
        self.changed_bytes = 0
        """How many bytes were logged since the last checkpoint."""
        self.frees_room = False
        """Whether the next checkpoint removes files."""
        self.removed: dict[int, list[str]] = {}
        """Streams that are gone, though the catalog may still have them, and their files."""
        self.unfinished: set[int] = set()
        """Streams for which a checkpoint that did not finish may have written files (`saving.unfinished`)."""
        self.unsaved_names = SortedNames()
        self.released_files: list[str] = []
        """Files of format 3 that the catalog needs no more; the next checkpoint removes them."""
        self.released_parts: set[PartId] = set()
        """Parts that are no longer staged, though the catalog may still list them: they may have files."""
        self.changed_producers: dict[int, set[bytes]] = {}
        """By stream, the producers whose rows in the catalog are out of date."""
        self.held_back: dict[int, int] = {}
        """Streams that could not be saved, and the bytes of their records in the catalog (`held`)."""
        self.rows: dict[str, bytes] = {}
        """Rows of the table as they were recovered, until it takes them."""
        self.changed_rows: dict[str, bytes | None] = {}
        """Those that the catalog does not have yet; without a value they are gone."""
        self.before_change: Callable[[StreamEntry], None] = ignore_change
        """Called before a stream changes; a checkpoint may not have its snapshot yet (`saving.taking`)."""
        self.memory = MemoryUse()
        self._with_producers: deque[int] = deque()  # may hold streams that have left
        self._is_with_producers: set[int] = set()
        self.loads = 0
        self.evictions = 0

    # -- Finding ---------------------------------------------------------------------------------

    def find(self, name: str) -> StreamEntry | None:
        """Find a stream by its name, in memory or in the catalog."""
        entry = self.by_name.get(name)
        if entry is None and (row := self._catalog.by_name(name)) is not None:
            entry = self._load_counted(row)
        return entry

    def find_all(self, names: list[str]) -> list[StreamEntry]:
        """Find the streams that there are of some names; one look into the catalog for all of them."""
        by_name = self.by_name
        if missing := [name for name in names if name not in by_name]:
            for row in self._catalog.by_names(missing):
                if row.name not in by_name:  # it was not loaded as the source of another one
                    self._load_counted(row)
        return [entry for name in names if (entry := by_name.get(name)) is not None]

    def get(self, stream_id: int) -> StreamEntry | None:
        """Find a stream by its id, in memory or in the catalog."""
        entry = self.by_id.get(stream_id)
        if entry is None and (row := self._catalog.by_id(stream_id)) is not None:
            entry = self._load_counted(row)
        return entry

    def walk(self, prefix: str, after: str) -> Iterator[str]:
        """Give names in order, of streams in memory and in the catalog."""
        new = self.unsaved_names.walk(prefix, after)
        for name, _ in groupby(heapq.merge(self._catalog.names(prefix, after), new)):
            yield name

    def existing(self, prefix: str) -> Iterator[str]:
        """Give the names below a prefix, without those of removed streams that the catalog still has."""
        removed = {row.name for id in self.removed if (row := self._catalog.by_id(id)) is not None}
        for name in self.walk(prefix, ""):
            if name not in removed or name in self.by_name:
                yield name

    def count(self) -> int:
        """Count the streams that exist; takes a scan of the catalog's names."""
        removed = sum(self._catalog.by_id(id) is not None for id in self.removed)
        return self._catalog.count() + len(self.unsaved_names) - removed

    def locate(self, entry: StreamEntry, start: int, end: int) -> FilePart | None:
        """Give the place of bytes that are in a file, or None."""
        return content_of(entry).locate(start, end)

    # -- Adding and removing ---------------------------------------------------------------------

    def next_id(self) -> int:
        """Give an id that no stream ever had."""
        self.last_id += 1
        return self.last_id

    def take_rows(self) -> dict[str, bytes]:
        """Give the rows that were recovered, which the table holds from then on."""
        rows, self.rows = self.rows, {}
        return rows

    def new_content(self, stream: Stream) -> StreamContent:
        """Make the place for a new stream's bytes."""
        return StreamContent.of(self._files, stream, stream.base, 0)

    def add(self, entry: StreamEntry) -> None:
        """Add a new stream."""
        stream = entry.stream
        self.by_id[stream.id] = self.by_name[stream.name] = entry
        self.note_changed(entry)
        self.unsaved_names.add(stream.name)
        self.memory.add(entry)

    def remove(self, entry: StreamEntry) -> None:
        """Remove a stream that is gone; its files go with the next checkpoint."""
        stream = entry.stream
        if self.by_id.pop(stream.id, None) is not None:
            self.memory.remove(entry)
        self.dirty.pop(stream.id, None)
        self.changed_producers.pop(stream.id, None)
        self.held_back.pop(stream.id, None)
        if self.by_name.get(stream.name) is entry:
            del self.by_name[stream.name]
        if stream.name not in self.by_name:
            self.unsaved_names.discard(stream.name)
        content = content_of(entry)
        content.plan_rewriting(Extent.of(stream), stream.retention)  # as a crash may have left it
        self.removed[stream.id] = content.names()
        self.frees_room = True
        self.release_parts(stream.id, entry.drop_all_parts())

    def close_files(self, entry: StreamEntry) -> None:
        """Close the files of a removed stream; only on the event loop, which reads them."""
        self._files.close_some(self.removed[entry.stream.id])

    def release_files(self, entry: StreamEntry, names: list[str]) -> None:
        """Let the next checkpoint remove files that the catalog needs no more, and forget them."""
        self.released_files += names
        self.note_changed(entry)

    def note_changed(self, entry: StreamEntry) -> None:
        """Note that the catalog does not have a stream as it is now; the next checkpoint saves it."""
        self.dirty[entry.stream.id] = entry
        entry.changed_in = self.period

    def begin_period(self) -> dict[int, StreamEntry]:
        """Begin to collect what changes from now on; gives what has changed before."""
        dirty, self.dirty = self.dirty, {}
        self.period += 1
        return dirty

    def release_parts(self, stream_id: int, numbers: list[int]) -> None:
        """Note that the files of parts can go once the catalog lists them no more."""
        self.released_parts.update((stream_id, number) for number in numbers)

    def note_producers(self, stream_id: int, used: bytes, forgotten: tuple[bytes, ...] = ()) -> None:
        """Note that the catalog's rows of some producers are out of date."""
        changed = self.changed_producers.get(stream_id)
        if changed is None:
            changed = self.changed_producers[stream_id] = set()
        changed.add(used)
        if forgotten:
            changed.update(forgotten)

    def note_saved(self, entry: StreamEntry) -> None:
        """Note that the catalog has a stream, as it was not long ago."""
        stream = entry.stream
        self.unsaved_names.discard(stream.name)
        if self.unfinished:
            self.unfinished.discard(stream.id)
        self.memory.recount(entry)

    @property
    def has_changed(self) -> bool:
        """Whether a checkpoint would have anything to write."""
        return bool(
            self.dirty or self.removed or self.released_parts or self.released_files or self.changed_rows
        )

    # -- Loading ---------------------------------------------------------------------------------

    def load_staged(self) -> None:
        """Load the streams whose parts have files, and find the files that nothing needs."""
        for stream_id, found in groupby(find_parts(self._files.disk), lambda part: part[0]):
            entry = self.get(stream_id)
            needed = self._listed_parts(stream_id).union(entry.staged) if entry is not None else set()
            self.released_parts.update(part for part in found if part[1] not in needed)

    def load_producers(self, entry: StreamEntry) -> None:
        """Load the producers that a stream knows, which a look-up leaves in the catalog."""
        entry.stream.producers = self._catalog.producers(entry.stream.id)
        self._note_loaded_producers(entry)

    def _note_loaded_producers(self, entry: StreamEntry) -> None:
        self.memory.recount(entry)
        if entry.stream.id not in self._is_with_producers:
            self._is_with_producers.add(entry.stream.id)
            self._with_producers.append(entry.stream.id)

    def _load_counted(self, row: Row) -> StreamEntry | None:
        """Load a stream, and count it and the ancestors that were loaded with it."""
        count = len(self.by_id)
        entry = loaded = self._load(row)
        for _ in range(len(self.by_id) - count):
            assert loaded is not None  # those above were counted
            self.loads += 1
            self.memory.add(loaded)
            if loaded.stream.producers is not None:
                self._note_loaded_producers(loaded)
            loaded = loaded.source
        return entry

    def _listed_parts(self, stream_id: int) -> set[int]:
        row = self._catalog.by_id(stream_id)
        staged = row.stream().staged if row is not None else None
        return {part.number for part in staged.parts.values()} if staged is not None else set()

    def _load(self, row: Row) -> StreamEntry | None:
        """Load a stream and the ancestors that hold what it inherited."""
        if row.stream_id in self.removed:
            return None
        rows = [(row, row.stream())]
        entry: StreamEntry | None = None
        while (fork := rows[-1][1].fork) is not None and (entry := self.by_id.get(fork.source_id)) is None:
            above = self._catalog.by_id(fork.source_id)
            if above is None:
                raise DamagedError(f"catalog.db: {fork.source_name}, the source of {row.name}, is missing.")
            rows.append((above, above.stream()))
        for row, stream in reversed(rows):
            stream.content_type = shared_type(stream.content_type)
            flushed = stream.tail if row.flushed == stream.tail else row.flushed  # one object, mostly
            content = StreamContent.of(self._files, stream, flushed, row.appends, row.where())
            entry = StreamEntry(stream, entry, content)
            entry.publish()
            if stream.producers is not None:  # of a former version, which had no rows for them
                self.changed_producers[stream.id] = set(stream.producers)
            if stream.staged is not None:
                for part in stream.staged.parts.values():
                    stored = StoredPart(self._files, (stream.id, part.number), part.size)
                    entry.staged[part.number] = stored
            self.by_id[stream.id] = self.by_name[stream.name] = entry
            if released := content.released_names():
                self.release_files(entry, released)  # a crash may have left them
        return entry

    # -- Evicting --------------------------------------------------------------------------------

    def evict_oldest(
        self, is_in_checkpoint: Callable[[int], bool], record_deadline: Callable[[StreamEntry], None]
    ) -> None:
        """Look at the oldest stream, and evict it if it was not used since it was looked at before."""
        id = self.memory.order.popleft()
        entry = self.by_id.get(id)
        if entry is None:
            return  # it was removed
        if entry.used:
            entry.used = False
        elif self._may_leave(entry) and not is_in_checkpoint(id):
            if entry.logged_deadline_ms == (entry.stream.deadline_ms or 0):
                self._evict(entry)
                return
            record_deadline(entry)  # a renewal that was too small for a record must reach the catalog first
        self.memory.order.append(id)

    def _evict(self, entry: StreamEntry) -> None:
        del self.by_id[entry.stream.id]
        del self.by_name[entry.stream.name]
        self.changed_producers.pop(entry.stream.id, None)
        self.memory.remove(entry)
        self.evictions += 1

    def _may_leave(self, entry: StreamEntry) -> bool:
        """Tell whether the catalog has all of a stream, and nothing in memory needs it."""
        id = entry.stream.id
        return not self.memory.has_forks(id) and not entry.staged and id not in self.dirty

    def drop_producers(self, most: int, is_in_checkpoint: Callable[[int], bool], before_ms: int) -> None:
        """Look at some streams that have producers in memory, and drop those of streams that are idle."""
        for _ in range(min(most, len(self._with_producers))):
            id = self._with_producers.popleft()
            entry = self.by_id.get(id)
            if entry is None or entry.stream.producers is None:
                self._is_with_producers.discard(id)
            elif entry.stream.written_ms < before_ms and self._has_producers_saved(id, is_in_checkpoint):
                entry.stream.producers = None
                self._is_with_producers.discard(id)
                self.memory.recount(entry)
            else:
                self._with_producers.append(id)

    def _has_producers_saved(self, id: int, is_in_checkpoint: Callable[[int], bool]) -> bool:
        return id not in self.dirty and id not in self.changed_producers and not is_in_checkpoint(id)


def content_of(entry: StreamEntry) -> StreamContent:
    """Give a stream's content as the class that this engine uses."""
    assert isinstance(entry.content, StreamContent)  # this engine makes no other
    return entry.content
