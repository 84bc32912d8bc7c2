"""Names in order, for listings, without the cost of sorting on every create or of copying on every delete.

New names are collected until the next listing, which merges them in one pass; that costs little, because
the rest is sorted already. Removed ones are skipped until they are half of all, and dropped then.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class SortedNames:
    """A set of names that can be walked in order from any point."""

    def __init__(self) -> None:
        # Replaced, never changed in place: a walk that was begun goes on in the lists that it began with.
        self._sorted: list[str] = []
        self._added: set[str] = set()
        self._removed: set[str] = set()

    def __len__(self) -> int:
        return len(self._sorted) - len(self._removed) + len(self._added)

    def __contains__(self, name: str) -> bool:
        if name in self._added:
            return True
        index = bisect_left(self._sorted, name)
        return index < len(self._sorted) and self._sorted[index] == name and name not in self._removed

    def add(self, name: str) -> None:
        """Add a name that is not there."""
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

    def discard(self, name: str) -> None:
        """Remove a name if it is there."""
        if name in self._added:
            self._added.remove(name)
        elif self._sorted and name in self:
            self._removed.add(name)

    def walk(self, prefix: str, after: str) -> Iterator[str]:
        """Give the names that begin with a prefix and come after another name, in order.

        A name that is removed while the walk goes on may still come, and one that is added may not.
        """
        self._merge()
        names, removed = self._sorted, self._removed
        start = max(bisect_left(names, prefix), bisect_right(names, after))
        for index in range(start, len(names)):
            name = names[index]
            if not name.startswith(prefix):
                return
            if name not in removed:
                yield name

    def _merge(self) -> None:
        if self._added:
            self._sorted = [*self._sorted, *self._added]
            self._sorted.sort()
            self._added = set()
        if len(self._removed) * 2 > len(self._sorted):
            self._sorted = [name for name in self._sorted if name not in self._removed]
            self._removed = set()
