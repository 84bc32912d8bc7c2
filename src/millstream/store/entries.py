"""A stream with its bytes: what a table finds under a name, and decides on.

Every stream has two states:

        accepted   `entry.stream`                               the next decision is made on it
        durable    `entry.tail`, `entry.closed`, `entry.start`  readers and answers see this one

In memory they move together. With a log the durable state follows once the record is on the disk.

Staged parts (rule X3) are split in two: what decisions need is in `stream.staged`, the bytes are in
`entry.staged` under the part's number. The methods below change both together; a request and the
replay of a log call the same ones.
"""

from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from millstream.protocol import configuration, forks, lifecycle, lineage, parts, streams
from millstream.protocol.boundaries import Index
from millstream.protocol.configuration import Configuration
from millstream.protocol.reads import Run
from millstream.protocol.streams import NotSaved, Stream
from millstream.store.pieces import Piece

_NOT_DURABLE = -1
_INDEXES_KEPT = 64  # of large JSON appends: more readers than this, each in another one, scan again and again
NOT_WATCHED = 2**62
"""`watched_ms` of a stream that the schedule has no time for."""


class Content(Protocol):
    """The bytes of one stream, from its base on."""

    def append(self, piece: Piece, time_ms: int) -> None:
        """Add the bytes of one append, and when it arrived."""
        ...

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        ...

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        ...

    def count(self, position: int) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        ...

    def start_of(self, append: int) -> int:
        """Give where an append begins, by its number; the end of all for the number after the last."""
        ...

    def time_of(self, append: int) -> int:
        """Give when an append arrived, by its number."""
        ...

    def arrived_before(self, time_ms: int) -> int:
        """Count the appends that arrived before a time, trimmed ones included."""
        ...


class _NothingStaged(dict[int, Piece]):
    """What most streams have staged: one empty dictionary for all of them, to which nothing can be added."""

    def __setitem__(self, number: int, piece: Piece) -> None:
        raise TypeError("a part belongs to a dictionary of its stream")


_NOTHING_STAGED: Final = _NothingStaged()


class StreamEntry(msgspec.Struct, eq=False, gc=False):
    """A stream, its content and, for a fork, the entry that holds what it inherited.

    Nothing that it holds refers to it, so the collector of garbage need not look at a million of them.
    """

    # Those that an append needs come first: among many streams, each line of the cache counts.
    stream: Stream
    source: "StreamEntry | None"
    content: Content
    used: bool = False
    """Whether it was looked up since it was last considered for eviction."""
    refusal: NotSaved | None = None
    """Why no change of this stream is accepted, if none is."""
    changed_in: int = 0
    """Between which checkpoints it has changed last, as an engine counts them."""
    tail: int = _NOT_DURABLE
    closed: bool = False
    start: int = 0
    logged_deadline_ms: int = 0
    staged: dict[int, Piece] = _NOTHING_STAGED
    watched_ms: int = NOT_WATCHED
    indexes: dict[int, Index] | None = None
    shown: Configuration | None = None
    """The durable configuration, while that of the accepted state is not durable yet."""
    hidden_changes: int = 0
    """How many changes of the configuration are not durable yet."""
    varying_bytes: int = 0
    """What an engine with a memory budget has counted for what most streams have none of."""

    def __post_init__(self) -> None:
        stream = self.stream
        self.start = stream.start
        self.logged_deadline_ms = stream.deadline_ms or 0
        if stream.staged is not None:
            self.staged = {}

    # -- Its durable state -----------------------------------------------------------------------

    @property
    def is_visible(self) -> bool:
        """Whether readers may know of the stream: its creation is durable."""
        return self.tail != _NOT_DURABLE

    def publish(self) -> None:
        """Make the accepted state the durable one."""
        self.tail, self.closed, self.start = self.stream.tail, self.stream.closed, self.stream.start

    def as_visible(self) -> Stream:
        """Give the stream in its durable state."""
        stream, shown = self.stream, self.shown
        is_same = stream.tail == self.tail and stream.closed == self.closed and stream.start == self.start
        if is_same and shown is None:
            return stream
        is_empty = self.tail == self.start
        visible = msgspec.structs.replace(
            stream,
            tail=self.tail,
            closed=self.closed,
            start=self.start,
            first_ms=0 if is_empty else self.time_at(self.start),
            written_ms=0 if is_empty else self.time_at(self.tail - 1),
        )
        if shown is not None:
            configuration.apply_configuration(visible, shown)
        return visible

    def hide_change(self) -> None:
        """Remember the configuration that readers see, before it changes."""
        if not self.hidden_changes:
            self.shown = configuration.configuration_of(self.stream)
        self.hidden_changes += 1

    def show_change(self, change: Configuration) -> None:
        """Let readers see a configuration that is durable; a later one may be accepted already."""
        self.hidden_changes -= 1
        self.shown = change if self.hidden_changes else None

    # -- Its bytes -------------------------------------------------------------------------------

    def owner(self, position: int) -> "tuple[StreamEntry, int]":
        """Find the entry that holds a byte, this or an ancestor, and up to where this stream sees it."""
        owner, ceiling = self, self.stream.tail
        while position < owner.stream.base and owner.source is not None:
            ceiling = min(ceiling, owner.stream.base)
            owner = owner.source
        return owner, ceiling

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the append that holds a byte, inherited or not."""
        owner, ceiling = self.owner(position)
        start, end = owner.content.bounds(position)
        return start, min(end, ceiling)

    def index(self, start: int) -> Index:
        """Give the message boundaries of a large JSON append, as far as they are known."""
        owner, _ = self.owner(start)
        if owner.indexes is None:
            owner.indexes = {}
        index = owner.indexes.pop(start, None) or Index(start)
        if len(owner.indexes) >= _INDEXES_KEPT:
            del owner.indexes[next(iter(owner.indexes))]
        owner.indexes[start] = index  # the last one is the most recently used
        return index

    def count(self, position: int) -> int:
        """Count the stream's own appends that end at or before a position."""
        return self.content.count(position) if position > self.stream.base else 0

    def fetch(self, start: int, end: int) -> bytes:
        """Read bytes, inherited ones from the ancestors that hold them."""
        if start >= self.stream.base:
            return self.content.fetch(start, end)
        owned = self._owned(start, end)
        return b"".join(content.fetch(part.start, part.end) for content, part in owned)

    def _owned(self, start: int, end: int) -> list[tuple[Content, lineage.Segment]]:
        """Split a range by who holds it, in order."""
        chain = [self]
        while chain[-1].source is not None:
            chain.append(chain[-1].source)
        bases = [entry.stream.base for entry in chain]
        return [(chain[part.ancestor].content, part) for part in lineage.segments(bases, start, end)]

    # -- The times of its appends (rule X7) --------------------------------------------------------

    def time_at(self, position: int) -> int:
        """Give when the append arrived that holds a byte, inherited or not."""
        is_own = position >= self.stream.base
        content = self.content if is_own else self.owner(position)[0].content
        return content.time_of(content.count(position))

    def times_of(self, start: int, end: int) -> tuple[int, int]:
        """Give when the first append of a range arrived, and the last before its end; 0 if there is none."""
        stream = self.stream
        first_ms = last_ms = 0
        if start < end:
            first_ms = stream.first_time_ms if start == stream.start else self.time_at(start)
        if end > self.start:
            last_ms = stream.last_time_ms if end == stream.tail else self.time_at(end - 1)
        return first_ms, last_ms

    def runs(self, start: int, end: int) -> Iterator[Run]:
        """Split a range where the time changes."""
        for content, part in self._owned(start, end):
            append = content.count(part.start)
            time_ms = content.time_of(append)
            while (position := content.start_of(append + 1)) < part.end:
                append += 1
                next_ms = content.time_of(append)
                if next_ms != time_ms:
                    yield Run(position, time_ms)
                    time_ms = next_ms
            yield Run(part.end, time_ms)

    def first_since(self, time_ms: int) -> int:
        """Give where the first visible append of a time or later begins; the tail if there is none."""
        for content, part in self._owned(self.start, self.tail):
            position = content.start_of(content.arrived_before(time_ms))
            if position < part.end:
                return max(position, part.start)
        return self.tail

    def start_of_last(self, count: int) -> int:
        """Give where the last so many visible appends begin; a fork's cut of an append counts as one."""
        position = self.tail
        for content, part in reversed(self._owned(self.start, self.tail)):
            if not count:
                break
            last = content.count(part.end - 1)
            first = max(content.count(part.start), last - count + 1)
            count -= last - first + 1
            position = max(part.start, content.start_of(first))
        return position

    # -- Its parts -------------------------------------------------------------------------------

    def stage(self, change: parts.Stage, now_ms: int) -> None:
        """Add a part."""
        if self.staged is _NOTHING_STAGED:
            self.staged = {}
        self.staged[parts.apply_stage(self.stream, change, now_ms)] = change.data

    def commit(self, change: parts.Commit, now_ms: int) -> list[int]:
        """Append parts, and give the numbers of all that are no longer staged.

        Each part remains an append with boundaries of its own: a commit may be larger than memory, and a
        reader must not have to fetch all of it to find one.
        """
        numbers = parts.take_parts(self.stream, change.ids)
        arrived_ms = self.stream.arrival_ms(now_ms)
        for number in numbers:
            self.content.append(self.staged.pop(number), arrived_ms)
        streams.apply_append(self.stream, change.append, now_ms)
        return numbers + self.drop_all_parts() if change.append.closes else numbers

    def drop_parts(self, ids: list[str]) -> list[int]:
        """Drop parts, and give their numbers."""
        numbers = parts.take_parts(self.stream, ids)
        for number in numbers:
            del self.staged[number]
        return numbers

    def drop_all_parts(self) -> list[int]:
        """Drop every part, and give their numbers."""
        numbers = list(self.staged)
        self.staged = _NOTHING_STAGED
        if self.stream.staged is not None:
            self.stream.staged.clear()
        return numbers


class Ending(msgspec.Struct, frozen=True):
    """What one deletion changes: the entries that are removed, and the source that stays with a fork less."""

    plan: lifecycle.Delete
    removed: list[StreamEntry]
    remaining_source: StreamEntry | None


def ancestors(entry: StreamEntry) -> Iterator[StreamEntry]:
    """Give the source of a fork, the source of that, and so on."""
    source = entry.source
    while source is not None:
        yield source
        source = source.source


def release_sources(entry: StreamEntry) -> tuple[list[StreamEntry], StreamEntry | None]:
    """Give what a deletion removes, the entry and each ancestor kept only for it, and the one that stays."""
    removed = [entry]
    while (source := removed[-1].source) is not None:
        source.stream.fork_count -= 1
        forks.unshare(source.stream)
        if not forks.releases_source(source.stream):
            return removed, source
        removed.append(source)
    return removed, None
