"""Which names the catalog may have: a look-up of a new name, as each creation is, mostly needs no query.

        slots     0 0 1 0 0 0 1 1 0 ...     a byte for each; that of a name is set once a row may have it

It never says no for a name that has a row. For others it says yes now and then: for one in nine when there
are a million names, and more often beyond, since there are never more slots. A name is noted before its row
is committed, and those that were there are noted in the background, after a start: it says yes to everything
until then. Setting a byte is one step, so two threads may do it at once.
"""

import mmap
from collections.abc import Iterable
from typing import Final

_SLOTS: Final = 2**23
_MASK: Final = _SLOTS - 1


class KnownNames:
    """The names that rows may have."""

    def __init__(self) -> None:
        self._slots = mmap.mmap(-1, _SLOTS)  # takes memory where it is set
        self.is_complete = False
        """Whether all rows that there are were noted."""

    def add(self, names: Iterable[str]) -> None:
        """Note names before their rows are committed."""
        slots = self._slots
        for name in names:
            slots[hash(name) & _MASK] = 1

    def may_have(self, name: str) -> bool:
        """Tell whether a row may have this name."""
        return not self.is_complete or self._slots[hash(name) & _MASK] != 0
