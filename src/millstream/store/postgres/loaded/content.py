"""The bytes of streams: rows that were loaded from the database, and what a round adds to them.

`RowContent` holds what this server happens to have of a stream's content. What is committed never changes
until it is trimmed, so it need not be asked for again. What is not there is asked for by an exception, which
says what is needed; whoever has begun loads it and decides again (`loading`).

`WorkContent` is the content of a working copy: what is committed, and the appends of one round after it.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from millstream.store.pieces import Piece, Pieces
from millstream.store.postgres.encoding import Row
from millstream.store.postgres.loaded.held import Held

_MAX_CONTENT_BYTES: Final = 4 * 2**20
"""How much of one stream is held; the half that was used longest ago goes when it is more."""
_COST: Final = 200  # of a row without its index, and of data without its bytes
_ENTRY_COST: Final = 28  # of an append in a row: as it is in the database, and decoded


class Bytes(msgspec.Struct, frozen=True, gc=False):
    """Rows and their data are wanted, from a position to another."""

    content: "RowContent"
    start: int
    end: int


class ByNumber(msgspec.Struct, frozen=True, gc=False):
    """The row of an append is wanted, by its number."""

    content: "RowContent"
    append: int


class ByTime(msgspec.Struct, frozen=True, gc=False):
    """The row of the first append that arrived at a time or later is wanted."""

    content: "RowContent"
    time_ms: int


class ProducersOf(msgspec.Struct, frozen=True, gc=False):
    """The producers of a stream are wanted."""

    stream_id: int


class PartData(msgspec.Struct, frozen=True, gc=False):
    """The bytes of a staged part are wanted."""

    part: "StoredPart"


Wanted = Bytes | ByNumber | ByTime | ProducersOf | PartData


class NotLoadedError(Exception):
    """Something must be loaded from the database before this can be decided: load it, and decide again."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class NotPreparedError(Exception):
    """A round has decided what it was not prepared for: it begins anew, with these prepared, too."""

    def __init__(self, *, tails: Iterable[str] = (), streams: Iterable[str] = ()) -> None:
        super().__init__("a round was not prepared")
        self.tails = tuple(tails)
        self.streams = tuple(streams)


class Memory:
    """How much the content in memory takes; what was used longest ago goes first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used: OrderedDict[int, RowContent] = OrderedDict()
        self.bytes = 0

    def grown(self, content: "RowContent", size: int) -> None:
        """Note that some content is larger, and make room for it."""
        self.bytes += size
        self._used[content.stream_id] = content
        self._used.move_to_end(content.stream_id)
        while self.bytes > self._max_bytes and len(self._used) > 1:
            self._used.popitem(last=False)[1].clear()

    def drop_all(self) -> None:
        """Hold nothing: all of it can be loaded again."""
        while self._used:
            self._used.popitem()[1].clear()

    def forget(self, content: "RowContent") -> None:
        """Forget content that nobody holds any more."""
        if self._used.get(content.stream_id) is content:
            del self._used[content.stream_id]
            content.clear()


class RowContent:
    """What is in memory of a stream's committed content."""

    def __init__(self, memory: Memory, stream_id: int, base: int) -> None:
        self.stream_id = stream_id
        self.base = self.end = base
        self.appends = 0
        self._memory = memory
        self._rows: Held[Row] = Held()
        self._data: Held[bytes] = Held()
        self._bytes = 0
        self._earliest: Row | None = None  # the first that the database has, where it was asked for
        self._counts: dict[int, int] = {}  # appends before a time

    def append(self, piece: Piece, time_ms: int) -> None:
        """Refuse: a round appends to a working copy."""
        raise TypeError("what is committed grows by what is committed")

    def adopt(self, end: int, appends: int) -> None:
        """Note how far the stream goes, by what is committed."""
        if end > self.end:
            self.end, self.appends = end, appends
            self._counts.clear()

    # -- What is loaded --------------------------------------------------------------------------

    def add(self, row: Row, start: int, data: bytes) -> None:
        """Hold a row, and bytes of it from a position on."""
        self._grow(self._hold_row(row) + self._hold_data(start, data))

    def add_row(self, row: Row) -> None:
        """Hold a row without its bytes."""
        self._grow(self._hold_row(row))

    def _hold_row(self, row: Row) -> int:
        """Hold a row, and give by how much that is more; what it has merged goes."""
        grown = 0
        last = self._rows.last()
        if last is not None and last.end > row.start:  # most rows come after all that are held
            found = self._rows.find(row.start)
            if found is not None:
                start, other = found
                if other.end > row.start and (start < row.start or other.end >= row.end):
                    return 0  # it is part of one that is there
            while (following := self._rows.after(row.start)) is not None and following[1].end <= row.end:
                grown -= _row_cost(self._rows.remove(following[0]))
        self._rows.put(row.start, row)
        return grown + _row_cost(row)

    def _hold_data(self, start: int, data: bytes) -> int:
        known = self._data.at(start)
        if known is None:
            self._data.put(start, data)
            return _data_cost(data)
        if len(known) >= len(data):
            return 0
        self._data.put(start, data)
        return len(data) - len(known)

    def add_count(self, time_ms: int, count: int) -> None:
        """Note how many appends arrived before a time."""
        self._counts[time_ms] = count

    def add_earliest(self, row: Row) -> None:
        """Note which row is the first that the database has."""
        self._earliest = row

    def clear(self) -> None:
        """Hold nothing."""
        self._memory.bytes -= self._bytes
        self._bytes = 0
        self._rows, self._data = Held(), Held()
        self._earliest = None
        self._counts.clear()

    def _grow(self, size: int) -> None:
        if self._bytes + size > _MAX_CONTENT_BYTES:
            size -= sum(map(_row_cost, self._rows.drop_half())) + sum(map(_data_cost, self._data.drop_half()))
        self._bytes += size
        self._memory.grown(self, size)

    # -- Questions -------------------------------------------------------------------------------

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        row = self._row_at(position)
        index = bisect_right(row.ends, position)
        return row.ends[index - 1] if index else row.start, row.ends[index]

    def count(self, position: int) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        if position >= self.end:
            return self.appends
        if position <= self.base:
            return 0
        row = self._row_at(position)
        return row.first + bisect_right(row.ends, position)

    def start_of(self, append: int) -> int:
        """Give where an append begins, by its number; the end of all for the number after the last."""
        if append >= self.appends:
            return self.end
        row = self._row_of(append)
        index = append - row.first
        return row.ends[index - 1] if index > 0 else row.start

    def time_of(self, append: int) -> int:
        """Give when an append arrived, by its number."""
        row = self._row_of(append)
        return row.times[max(0, append - row.first)]

    def arrived_before(self, time_ms: int) -> int:
        """Count the appends that arrived before a time, trimmed ones included."""
        if not self.appends:
            return 0
        known = self._counts.get(time_ms)
        if known is None:
            raise NotLoadedError(ByTime(self, time_ms))
        return known

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        pieces: list[bytes] = []
        while start < end:
            piece = self._data_at(start, end)
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _data_at(self, start: int, end: int) -> bytes:
        # What begins last may be short: a longer one before it may reach further, but is rarely there.
        found = self._data.find(start)
        if found is not None:
            begin, data = found
            if start < begin + len(data):
                return (
                    data if start == begin and len(data) <= end - start else data[start - begin : end - begin]
                )
        raise NotLoadedError(Bytes(self, start, end))

    def _row_at(self, position: int) -> Row:
        found = self._rows.find(position)
        if found is not None and position < found[1].end:
            return found[1]
        raise NotLoadedError(Bytes(self, position, position + 1))

    def _row_of(self, append: int) -> Row:
        row = self._rows.find_by(append, _first)
        if row is not None and append < row.first + row.count:
            return row
        if self._earliest is not None and append < self._earliest.first:
            return self._earliest
        raise NotLoadedError(ByNumber(self, append))


def _row_cost(row: Row) -> int:
    return _COST + _ENTRY_COST * row.count


def _data_cost(data: bytes) -> int:
    return _COST + len(data)


def _first(row: Row) -> int:
    return row.first


class WorkContent:
    """Content of a working copy: what is committed, and what a round appends."""

    def __init__(self, saved: RowContent, end: int, appends: int) -> None:
        self.saved = saved
        self.appends = self._appends = appends
        """How many appends there are, new ones included, and how many are committed."""
        self.new = Pieces(end)

    def append(self, piece: Piece, time_ms: int) -> None:
        """Add the bytes of one append."""
        self.new.append(piece, time_ms)
        self.appends += 1

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        return self.new.bounds(position) if position >= self.new.base else self.saved.bounds(position)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        if start >= self.new.base:
            return self.new.fetch(start, end)
        if end <= self.new.base:
            return self.saved.fetch(start, end)
        return self.saved.fetch(start, self.new.base) + self.new.fetch(self.new.base, end)

    def count(self, position: int) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        if position >= self.new.base:
            return self._appends + self.new.count(position)
        return self.saved.count(position)

    def start_of(self, append: int) -> int:
        """Give where an append begins, by its number; the end of all for the number after the last."""
        if append >= self._appends:
            return self.new.start_of(append - self._appends)
        return self.saved.start_of(append)

    def time_of(self, append: int) -> int:
        """Give when an append arrived, by its number."""
        if append >= self._appends:
            return self.new.time_of(append - self._appends)
        return self.saved.time_of(append)

    def arrived_before(self, time_ms: int) -> int:
        """Count the appends that arrived before a time; nobody asks while a round decides."""
        raise NotImplementedError


class StoredPart:
    """The bytes of a staged part, which stay in the database until somebody compares them."""

    def __init__(self, stream_id: int, number: int, size: int) -> None:
        self.stream_id = stream_id
        self.number = number
        self.data: bytes | None = None
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, span: slice) -> bytes:
        if self.data is None:
            raise NotLoadedError(PartData(self))
        return self.data[span]
