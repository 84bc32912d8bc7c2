"""Pieces of a stream that are held in memory, by where they begin.

What was used longest ago is dropped first, half of it at a time, and never what was used last: what a
decision needs together stays until it is made, however large it is.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Final, Generic, TypeVar

_SPARED: Final = 4

T = TypeVar("T")


class Held(Generic[T]):
    """Pieces in their order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._pieces: list[T] = []
        self._used: OrderedDict[int, None] = OrderedDict()  # by start, what was used last at the end

    def __len__(self) -> int:
        return len(self._starts)

    def find(self, position: int) -> tuple[int, T] | None:
        """Give the last piece that begins at a position or before, and where."""
        at = bisect_right(self._starts, position) - 1
        if at < 0:
            return None
        self._used.move_to_end(self._starts[at])
        return self._starts[at], self._pieces[at]

    def find_by(self, value: int, key: Callable[[T], int]) -> T | None:
        """Give the last piece whose key is a value or less; keys rise with positions."""
        at = bisect_right(self._pieces, value, key=key) - 1
        if at < 0:
            return None
        self._used.move_to_end(self._starts[at])
        return self._pieces[at]

    def last(self) -> T | None:
        """Give the piece that begins last."""
        return self._pieces[-1] if self._pieces else None

    def at(self, start: int) -> T | None:
        """Give the piece that begins at a position."""
        if start not in self._used:
            return None
        self._used.move_to_end(start)
        return self._pieces[bisect_left(self._starts, start)]

    def after(self, position: int) -> tuple[int, T] | None:
        """Give the first piece that begins at a position or later, and where."""
        at = bisect_left(self._starts, position)
        return (self._starts[at], self._pieces[at]) if at < len(self._starts) else None

    def put(self, start: int, piece: T) -> None:
        """Hold a piece, instead of one that begins at the same position."""
        if not self._starts or start > self._starts[-1]:
            self._starts.append(start)
            self._pieces.append(piece)
        elif start in self._used:
            self._pieces[bisect_left(self._starts, start)] = piece
            self._used.move_to_end(start)
        else:
            at = bisect_left(self._starts, start)
            self._starts.insert(at, start)
            self._pieces.insert(at, piece)
        self._used[start] = None

    def remove(self, start: int) -> T:
        """Hold a piece no more, and give it."""
        at = bisect_left(self._starts, start)
        del self._starts[at], self._used[start]
        return self._pieces.pop(at)

    def drop_half(self) -> list[T]:
        """Drop what was used longest ago, and give it."""
        count = min(len(self._used) // 2 + 1, len(self._used) - _SPARED)
        dropped = set(islice(self._used, max(0, count)))
        if not dropped:
            return []
        gone = [piece for start, piece in zip(self._starts, self._pieces, strict=True) if start in dropped]
        kept = [pair for pair in zip(self._starts, self._pieces, strict=True) if pair[0] not in dropped]
        self._starts, self._pieces = [start for start, _ in kept], [piece for _, piece in kept]
        for start in dropped:
            del self._used[start]
        return gone
