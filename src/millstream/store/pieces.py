"""Appended pieces of bytes, found again by position.

        position   base            ends[0]     ends[1]          ends[2]
                    |---- piece 0 ----|-- piece 1 --|--- piece 2 ---|

The ends are the append boundaries that readers of JSON streams and forks ask for. Each piece also has the
time of its arrival (rule X7).

Most streams in memory hold no pieces: their bytes are in files. Those share one empty list. What was given
to others (`all`) is shared with them, too: the next change makes a copy.

Where there are very many streams, most of those that have any hold a few, and what an append costs is memory
that was not touched for a while. So a few small pieces are one string of bytes, and their sizes and times are
another one, until there are more of them, or somebody looks for one: two objects, however many there are, and
what brought the bytes is free for the next request.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice, pairwise
from struct import Struct
from typing import Final, Protocol

import msgspec

from millstream.protocol.retention import Shared


class Piece(Protocol):
    """Bytes, or an object that reads them on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> bytes: ...


_NO_NUMBERS: Final = array("Q")
_NO_PIECES: Final[list[Piece]] = []  # shared: a list and an array for each stream would be 150 bytes


_MOST_PACKED: Final = 4096
"""So many bytes are packed at most, with their sizes and times; an append copies all of them."""
_SMALL_PIECE: Final = 512
_ENTRY: Final = Struct("<IQ")  # the size of a piece, and its time


def unpacked(entries: bytes) -> tuple[list[int], list[int]]:
    """Give the sizes and the times of packed pieces."""
    if len(entries) == _ENTRY.size:
        size, time_ms = _ENTRY.unpack(entries)
        return [size], [time_ms]
    found = list(_ENTRY.iter_unpack(entries))
    return [size for size, _ in found], [time_ms for _, time_ms in found]


def ends_of(sizes: Iterable[int], base: int) -> "array[int]":
    """Give where pieces end that follow each other from a position on."""
    return array("Q", islice(accumulate(sizes, initial=base), 1, None))


class Pieces(msgspec.Struct, eq=False, gc=False):
    """A growing run of bytes that keeps its append boundaries."""

    base: int
    end: int = 0
    _packed: bytes = b""
    """The bytes of all of them, while they are packed; then the lists are empty."""
    _entries: bytes = b""
    """The size and the time of each that is packed."""
    _pieces: list[Piece] = msgspec.field(default_factory=lambda: _NO_PIECES)
    _ends: "array[int]" = msgspec.field(default_factory=lambda: _NO_NUMBERS)
    _times: "array[int]" = msgspec.field(default_factory=lambda: _NO_NUMBERS)
    _is_shared: bool = True

    def __post_init__(self) -> None:
        self.end = self.base

    def __len__(self) -> int:
        return len(self._pieces) or len(self._entries) // _ENTRY.size

    def append(self, piece: Piece, time_ms: int) -> None:
        """Add a piece at the end, with the time of its arrival."""
        size = len(piece)
        self.end = end = self.end + size
        if not self._pieces:
            packed, entries = self._packed, self._entries
            has_room = len(packed) + len(entries) + size < _MOST_PACKED
            if has_room and size <= _SMALL_PIECE and type(piece) is bytes:
                self._packed, self._entries = packed + piece, entries + _ENTRY.pack(size, time_ms)
                return
            self._unpack()
        if self._is_shared:
            self._copy()
        self._ends.append(end)
        self._times.append(time_ms)
        self._pieces.append(piece)

    def _unpack(self) -> None:
        """Bring all pieces where they can be found by position."""
        if self._entries:
            pieces, self._ends, times = self.all()
            self._pieces, self._times = list(pieces), array("Q", times)
            self._packed, self._entries, self._is_shared = b"", b"", False

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the piece that holds the byte at `position`."""
        self._unpack()
        index = bisect_right(self._ends, position)
        return self._ends[index - 1] if index else self.base, self._ends[index]

    def count(self, position: int) -> int:
        """Count the pieces that end at or before a position."""
        self._unpack()
        return bisect_right(self._ends, position)

    def start_of(self, append: int) -> int:
        """Give where a piece begins, by its number; the end of all for the number after the last."""
        self._unpack()
        return self._ends[append - 1] if append else self.base

    def time_of(self, append: int) -> int:
        """Give when a piece arrived."""
        self._unpack()
        return self._times[append]

    def arrived_before(self, time_ms: int) -> int:
        """Count the pieces that arrived before a time."""
        self._unpack()
        return bisect_left(self._times, time_ms)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        if start >= end:
            return b""
        if self._entries:
            return self._packed[start - self.base : end - self.base]
        first = bisect_right(self._ends, start)
        last = bisect_right(self._ends, end - 1)
        skipped = start - (self._ends[first - 1] if first else self.base)
        if first == last:
            return self._pieces[first][skipped : skipped + end - start]
        middle = [piece[:] for piece in self._pieces[first + 1 : last]]
        last_piece = self._pieces[last]
        surplus = self._ends[last] - end
        return b"".join([self._pieces[first][skipped:], *middle, last_piece[: len(last_piece) - surplus]])

    def all(self) -> "tuple[Sequence[Piece], array[int], Sequence[int]]":
        """Give the pieces, their ends and their times, which nobody changes from now on."""
        if self._entries:
            sizes, times = unpacked(self._entries)
            cuts = pairwise(accumulate(sizes, initial=0))
            pieces = [self._packed[start:end] for start, end in cuts]
            return pieces, ends_of(sizes, self.base), times
        self._is_shared = True
        return self._pieces, self._ends, self._times

    def packed(self) -> tuple[bytes, list[int], list[int]] | None:
        """Give the bytes, sizes and times of all pieces, if they are packed."""
        return (self._packed, *unpacked(self._entries)) if self._entries else None

    def drop(self, until: int) -> None:
        """Drop the pieces before a position, which must be the end of one of them."""
        if self._entries:
            self._drop_packed(until)
        else:
            self._drop_found(until)
        self.base = until

    def _drop_packed(self, until: int) -> None:
        if until >= self.end:  # all of them, as is usual
            self._packed = self._entries = b""
            return
        sizes, _ = unpacked(self._entries)
        count = bisect_right(ends_of(sizes, self.base), until)
        self._packed, self._entries = self._packed[until - self.base :], self._entries[count * _ENTRY.size :]

    def _drop_found(self, until: int) -> None:
        count = bisect_right(self._ends, until)
        if count == len(self._pieces):
            self._ends, self._times, self._pieces = _NO_NUMBERS, _NO_NUMBERS, _NO_PIECES
            self._is_shared = True
        else:
            self._ends, self._times = self._ends[count:], self._times[count:]
            self._pieces, self._is_shared = self._pieces[count:], False

    def _copy(self) -> None:
        self._ends, self._times = self._ends[:], self._times[:]
        self._pieces, self._is_shared = self._pieces[:], False


class TrimmedPieces(Pieces, eq=False, gc=False):
    """All of a stream's pieces, of which the oldest can be trimmed.

    While forks share the oldest ones, trimmed pieces after the shared range are emptied and keep their
    places, so that every boundary can still be found.
    """

    _dropped: int = 0
    _emptied: int = 0

    def count(self, position: int) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        return self._dropped + super().count(position)

    def start_of(self, append: int) -> int:
        """Give where an append begins, by its number."""
        return super().start_of(max(0, append - self._dropped))

    def time_of(self, append: int) -> int:
        """Give when an append arrived."""
        return super().time_of(max(0, append - self._dropped))

    def arrived_before(self, time_ms: int) -> int:
        """Count the appends that arrived before a time, trimmed ones included."""
        return self._dropped + super().arrived_before(time_ms)

    def trim(self, start: int, shared: Shared | None) -> None:
        """Drop the bytes before a position, except those that forks share."""
        if start <= self.base:
            return
        self._unpack()
        count = bisect_right(self._ends, start)
        if shared is None:
            self._dropped += count
            self._emptied = 0
            self.drop(start)
            return
        if self._is_shared:
            self._copy()
        first = max(self._emptied, bisect_right(self._ends, shared.end - 1) + 1)
        self._pieces[first:count] = [b""] * max(0, count - first)
        self._emptied = max(first, count)
