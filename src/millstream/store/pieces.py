"""Appended pieces of bytes, found again by position.

        position   base            ends[0]     ends[1]          ends[2]
                    |---- piece 0 ----|-- piece 1 --|--- piece 2 ---|

The ends are the append boundaries that readers of JSON streams and forks ask for.
"""

from array import array
from bisect import bisect_right
from typing import Protocol

from millstream.protocol.retention import Shared


class Piece(Protocol):
    """Bytes, or an object that reads them on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> bytes: ...


class Pieces:
    """A growing run of bytes that keeps its append boundaries."""

    __slots__ = ("_ends", "_pieces", "base", "end")

    def __init__(self, base: int) -> None:
        self.base = base
        self.end = base
        self._ends = array("Q")
        self._pieces: list[Piece] = []

    def __len__(self) -> int:
        return len(self._pieces)

    def append(self, piece: Piece) -> None:
        """Add a piece at the end."""
        self.end += len(piece)
        self._ends.append(self.end)
        self._pieces.append(piece)

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the piece that holds the byte at `position`."""
        index = bisect_right(self._ends, position)
        return self._ends[index - 1] if index else self.base, self._ends[index]

    def count(self, position: int) -> int:
        """Count the pieces that end at or before a position."""
        return bisect_right(self._ends, position)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        if start >= end:
            return b""
        first = bisect_right(self._ends, start)
        last = bisect_right(self._ends, end - 1)
        skipped = start - (self._ends[first - 1] if first else self.base)
        if first == last:
            return self._pieces[first][skipped : skipped + end - start]
        middle = [piece[:] for piece in self._pieces[first + 1 : last]]
        last_piece = self._pieces[last]
        surplus = self._ends[last] - end
        return b"".join([self._pieces[first][skipped:], *middle, last_piece[: len(last_piece) - surplus]])

    def all(self) -> "tuple[list[Piece], array[int]]":
        """Give a copy of the pieces and of their ends."""
        return self._pieces[:], self._ends[:]

    def drop(self, until: int) -> None:
        """Drop the pieces before a position, which must be the end of one of them."""
        count = bisect_right(self._ends, until)
        del self._ends[:count]
        del self._pieces[:count]
        self.base = until


class TrimmedPieces(Pieces):
    """All of a stream's pieces, of which the oldest can be trimmed.

    While forks share the oldest ones, trimmed pieces after the shared range are emptied and keep their
    places, so that every boundary can still be found.
    """

    __slots__ = ("_dropped", "_emptied")

    def __init__(self, base: int) -> None:
        super().__init__(base)
        self._dropped = 0
        self._emptied = 0

    def count(self, position: int) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        return self._dropped + super().count(position)

    def trim(self, start: int, shared: Shared | None) -> None:
        """Drop the bytes before a position, except those that forks share."""
        if start <= self.base:
            return
        count = bisect_right(self._ends, start)
        if shared is None:
            self._dropped += count
            self._emptied = 0
            self.drop(start)
            return
        first = max(self._emptied, bisect_right(self._ends, shared.end - 1) + 1)
        self._pieces[first:count] = [b""] * max(0, count - first)
        self._emptied = max(first, count)
