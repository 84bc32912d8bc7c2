"""The stream cache: streams as they were when this server last looked them up, or changed them.

Every entry here is committed. It is replaced as a whole when a newer version is loaded, or when a round of
this server has changed the stream, so that a reader never sees half of a change. Nothing is answered from
it without a look at the database that began after the request (`reads`, `rounds`), except to a live reader,
which is sent what follows as soon as it is known.

Whoever waits for a stream is woken when a newer version of it is found, in whichever way that happens.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from millstream.protocol.streams import Stream
from millstream.store.base import Listener, ignore
from millstream.store.entries import StreamEntry
from millstream.store.postgres.loaded.content import Memory, RowContent

_MAX_STREAMS: Final = 50_000
_SPARED: Final = 64  # the most recently used ones, which a round may be working with


class Saved(msgspec.Struct, eq=False):
    """A stream as it is in the database."""

    entry: StreamEntry
    version: int
    appends: int
    parts_next: int
    is_stale: bool = False
    """Whether another server is known to have changed it since."""
    contended_until_s: float = 0.0
    """Until when the row's lock is taken for changes, because others change the stream, too."""

    @property
    def content(self) -> RowContent:
        """What is in memory of its content."""
        content = self.entry.content
        assert isinstance(content, RowContent)  # a working copy has another, and is not saved
        return content


class StreamRow(msgspec.Struct, frozen=True):
    """A row of the table of streams."""

    id: int
    name: str
    version: int
    appends: int
    parts_next: int
    state: bytes


class StreamCache:
    """The streams in memory."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory = Memory(memory_bytes)
        self.by_id: OrderedDict[int, Saved] = OrderedDict()
        self.by_name: dict[str, Saved] = {}
        self.listener: Listener = ignore
        self.loads = self.evictions = 0

    def get(self, name: str) -> Saved | None:
        """Find a stream in memory."""
        return self.by_name.get(name)

    def knows(self, row: StreamRow) -> bool:
        """Tell whether a row says nothing new."""
        known = self.by_id.get(row.id)
        return known is not None and known.version >= row.version

    def adopt(self, row: StreamRow, stream: Stream, source: StreamEntry | None) -> Saved:
        """Take over a stream as it is in the database now."""
        known = self.by_id.get(row.id)
        if known is not None and known.version >= row.version:
            return self.touch(known)
        content = known.content if known is not None else RowContent(self.memory, row.id, stream.base)
        entry = StreamEntry(stream, source, content)
        entry.publish()
        content.adopt(stream.tail, row.appends)
        entry.indexes = known.entry.indexes if known is not None else None
        contended_s = known.contended_until_s if known is not None else 0.0
        saved = Saved(entry, row.version, row.appends, row.parts_next, contended_until_s=contended_s)
        self.loads += 1
        self._put(saved)
        if known is not None and not known.is_stale:  # else they were woken when it was noticed
            self.listener(row.name)
        return saved

    def touch(self, known: Saved) -> Saved:
        """Note that a stream is still as it is known."""
        known.is_stale = False
        self.by_id.move_to_end(known.entry.stream.id)
        return known

    def replace(self, saved: Saved) -> None:
        """Take over a stream that a round of this server has changed."""
        known = self.by_id.get(saved.entry.stream.id)
        if known is not None:
            if known.version >= saved.version:
                return
            saved.contended_until_s = known.contended_until_s
        self._put(saved)

    def _put(self, saved: Saved) -> None:
        stream = saved.entry.stream
        other = self.by_name.get(stream.name)
        if other is not None and other.entry.stream.id != stream.id:
            if other.entry.stream.id > stream.id:
                return  # ids rise: what is known is newer
            self.remove(other.entry.stream)
        self.by_id[stream.id] = self.by_name[stream.name] = saved
        self.by_id.move_to_end(stream.id)

    def remove(self, stream: Stream) -> None:
        """Forget a stream that is gone, or whose state is not known any more."""
        saved = self.by_id.pop(stream.id, None)
        if saved is not None:
            self.memory.forget(saved.content)
            if self.by_name.get(stream.name) is saved:
                del self.by_name[stream.name]

    def missing(self, name: str) -> None:
        """Note that there is no stream of a name; whoever waits for the one that there was is woken."""
        known = self.by_name.get(name)
        if known is not None:
            self.remove(known.entry.stream)
            self.listener(name)

    def changed_elsewhere(self, ids: Iterator[int]) -> list[str]:
        """Note that another server has changed streams, and give the names of those that are in memory."""
        names = []
        for id in ids:
            saved = self.by_id.get(id)
            if saved is not None:
                saved.is_stale = True
                names.append(saved.entry.stream.name)
        return names

    def evict(self, is_needed: Callable[[str], bool]) -> None:
        """Forget the streams that were used longest ago, where there are too many."""
        surplus = len(self.by_id) - _MAX_STREAMS
        for id in list(self.by_id)[: min(max(0, surplus), len(self.by_id) - _SPARED)]:
            stream = self.by_id[id].entry.stream
            if is_needed(stream.name):
                self.by_id.move_to_end(id)
            else:
                self.remove(stream)
                self.evictions += 1
