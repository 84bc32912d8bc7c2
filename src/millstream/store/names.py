"""Names in order, for listings, without the cost of sorting on every create.

New names are collected until the next listing, which merges them in one pass; that costs little, because
the rest is sorted already.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class SortedNames:
    """A set of names that can be walked in order from any point."""

    def __init__(self) -> None:
        self._sorted: list[str] = []
        self._added: set[str] = set()
        self._removed: set[str] = set()

    def add(self, name: str) -> None:
        """Add a name."""
        if name in self._removed:
            self._removed.remove(name)
        else:
            self._added.add(name)

    def remove(self, name: str) -> None:
        """Remove a name that was added."""
        if name in self._added:
            self._added.remove(name)
        else:
            self._removed.add(name)

    def walk(self, prefix: str, after: str) -> Iterator[str]:
        """Give the names that begin with a prefix and come after another name, in order."""
        self._merge()
        start = max(bisect_left(self._sorted, prefix), bisect_right(self._sorted, after))
        for index in range(start, len(self._sorted)):
            name = self._sorted[index]
            if not name.startswith(prefix):
                return
            yield name

    def _merge(self) -> None:
        if self._removed:
            self._sorted = [name for name in self._sorted if name not in self._removed]
            self._removed.clear()
        if self._added:
            self._sorted += self._added
            self._sorted.sort()
            self._added.clear()
