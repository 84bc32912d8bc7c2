"""Appended pieces of bytes, found again by position.

        position   base            ends[0]     ends[1]          ends[2]
                    |---- piece 0 ----|-- piece 1 --|--- piece 2 ---|

The ends are the append boundaries that readers of JSON streams and forks ask for. Each piece also has the
time of its arrival (rule X7).

Most streams in memory hold no pieces: their bytes are in files. Those share one empty list. What was given
to others (`all`) is shared with them, too: the next change makes a copy.

Where there are very many streams, most of those that have any hold a few, and what an append costs is memory
that was not touched for a while. So new pieces are a chain, until there are more of them or somebody looks
for one: an append adds a link, and of what came before it touches only the last one.

        (None, piece, time) <-- (link, piece, time) <-- (link, piece, time)
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from typing import Any, Final, Protocol

import msgspec

from millstream.protocol.retention import Shared


class Piece(Protocol):
    """Bytes, or an object that reads them on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> bytes: ...


_NO_NUMBERS: Final = array("Q")
_NO_PIECES: Final[list[Piece]] = []  # shared: a list and an array for each stream would be 150 bytes


_MOST_LINKED: Final = 32  # somebody looks for one of them after each append, perhaps

Link = tuple[Any, Piece, int]
"""The last one of some pieces: the link before it or None, a piece, its time."""


def unlinked(link: Link | None) -> tuple[list[Piece], list[int]]:
    """Give the pieces of a chain and their times, in their order."""
    pieces: list[Piece] = []
    times: list[int] = []
    while link is not None:
        link, piece, time_ms = link
        pieces.append(piece)
        times.append(time_ms)
    pieces.reverse()
    times.reverse()
    return pieces, times


def ends_of(pieces: Iterable[Piece], base: int) -> "array[int]":
    """Give where pieces end that follow each other from a position on."""
    return array("Q", islice(accumulate(map(len, pieces), initial=base), 1, None))


class Pieces(msgspec.Struct, eq=False, gc=False):
    """A growing run of bytes that keeps its append boundaries."""

    base: int
    end: int = 0
    _link: Link | None = None
    """The last of all of them, while they are a chain; then the lists are empty."""
    _linked: int = 0
    """How many links there are."""
    _pieces: list[Piece] = msgspec.field(default_factory=lambda: _NO_PIECES)
    _ends: "array[int]" = msgspec.field(default_factory=lambda: _NO_NUMBERS)
    _times: "array[int]" = msgspec.field(default_factory=lambda: _NO_NUMBERS)
    _is_shared: bool = True

    def __post_init__(self) -> None:
        self.end = self.base

    def __len__(self) -> int:
        return self._linked or len(self._pieces)

    def append(self, piece: Piece, time_ms: int) -> None:
        """Add a piece at the end, with the time of its arrival."""
        self.end = end = self.end + len(piece)
        if not self._pieces:
            self._link = (self._link, piece, time_ms)
            self._linked += 1
            if self._linked > _MOST_LINKED:
                self._unlink()
            return
        if self._is_shared:
            self._copy()
        self._ends.append(end)
        self._times.append(time_ms)
        self._pieces.append(piece)

    def _unlink(self) -> None:
        """Bring all pieces where they can be found by position."""
        if self._link is not None:
            self._pieces, times = unlinked(self._link)
            self._ends, self._times = ends_of(self._pieces, self.base), array("Q", times)
            self._link, self._linked, self._is_shared = None, 0, False

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the piece that holds the byte at `position`."""
        self._unlink()
        index = bisect_right(self._ends, position)
        return self._ends[index - 1] if index else self.base, self._ends[index]

    def count(self, position: int) -> int:
        """Count the pieces that end at or before a position."""
        self._unlink()
        return bisect_right(self._ends, position)

    def start_of(self, append: int) -> int:
        """Give where a piece begins, by its number; the end of all for the number after the last."""
        self._unlink()
        return self._ends[append - 1] if append else self.base

    def time_of(self, append: int) -> int:
        """Give when a piece arrived."""
        self._unlink()
        return self._times[append]

    def arrived_before(self, time_ms: int) -> int:
        """Count the pieces that arrived before a time."""
        self._unlink()
        return bisect_left(self._times, time_ms)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        if start >= end:
            return b""
        self._unlink()
        first = bisect_right(self._ends, start)
        last = bisect_right(self._ends, end - 1)
        skipped = start - (self._ends[first - 1] if first else self.base)
        if first == last:
            return self._pieces[first][skipped : skipped + end - start]
        middle = [piece[:] for piece in self._pieces[first + 1 : last]]
        last_piece = self._pieces[last]
        surplus = self._ends[last] - end
        return b"".join([self._pieces[first][skipped:], *middle, last_piece[: len(last_piece) - surplus]])

    def all(self) -> tuple[Sequence[Piece], Sequence[int], Sequence[int]]:
        """Give the pieces, their ends and their times, which nobody changes from now on."""
        if self._link is not None:
            pieces, times = unlinked(self._link)
            return pieces, ends_of(pieces, self.base), times
        self._is_shared = True
        return self._pieces, self._ends, self._times

    def drop(self, until: int) -> None:
        """Drop the pieces before a position, which must be the end of one of them."""
        if self._link is not None:
            self._drop_links(until)
        else:
            self._drop_found(until)
        self.base = until

    def _drop_links(self, until: int) -> None:
        if until >= self.end:  # all of them, as is usual
            self._link, self._linked = None, 0
            return
        pieces, times = unlinked(self._link)
        ends = ends_of(pieces, self.base)
        count = bisect_right(ends, until)
        self._link, self._linked = None, len(pieces) - count
        for piece, time_ms in zip(pieces[count:], times[count:], strict=True):
            self._link = (self._link, piece, time_ms)

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
        self._unlink()
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
