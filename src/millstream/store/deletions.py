"""Deletions of many streams: one request goes through names in order, in turns of the event loop.

        names in order --those that match--> deleted, some at a time --> answer, with a cursor
              ^                                       |
              +----- time is over: the next turn -----+

A turn has some milliseconds, so that it does not hold others up. An answer has some turns, so that it comes
soon, whatever it has to look at.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final

from millstream.store.base import DeletedPage

_TURN_S: Final = 0.002
_MAX_S: Final = 0.1  # for one answer, without the time between its turns
_MAX_LOOKED_AT: Final = 10_000  # names for one answer
_TOGETHER: Final = 64  # streams that are deleted at once: less than a turn, also if none is in memory


class Deletion:
    """One request to delete what matches, and how far it has come."""

    def __init__(
        self,
        names: Iterator[str],
        matches: Callable[[str], bool],
        delete: Callable[[list[str]], int],
        limit: int,
    ) -> None:
        self._names = names
        self._matches = matches
        self._delete = delete  # gives how many of them there were
        self._limit = limit
        self._after: str | None = ""
        self._deleted = 0
        self._looked_at = 0
        self._used_s = 0.0

    def advance(self) -> DeletedPage | None:
        """Work for one turn; None when there is more to do."""
        began_s = time.monotonic()
        ends_s = began_s + _TURN_S
        while not self._is_done and time.monotonic() < ends_s:
            self._deleted += self._delete(self._next_matching(ends_s))
        self._used_s += time.monotonic() - began_s
        return DeletedPage(self._deleted, self._after) if self._is_done else None

    @property
    def _is_done(self) -> bool:
        is_enough = self._looked_at >= _MAX_LOOKED_AT or self._used_s > _MAX_S
        return is_enough or self._deleted >= self._limit or self._after is None

    def _next_matching(self, ends_s: float) -> list[str]:
        found: list[str] = []
        most = min(_TOGETHER, self._limit - self._deleted)
        for name in self._names:
            self._after = name
            self._looked_at += 1
            if self._matches(name):
                found.append(name)
            if len(found) == most or self._looked_at == _MAX_LOOKED_AT or time.monotonic() > ends_s:
                return found
        self._after = None
        return found
