"""Requests about many streams: their entries one after the other, for some milliseconds in each turn.

Between the turns the event loop serves others, so that the length of a request costs nobody but its sender.
The answer comes when all results are there; those of entries that change something are durable then.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from millstream.protocol.http import Reply
from millstream.server.request import Answer
from millstream.store.pending import Eventually, Pending

_TURN_S: Final = 0.002

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger("millstream")


def in_slices(
    entries: Sequence[T],
    decide: Callable[[T], Eventually[R]],
    answer: Callable[[list[R]], Reply],
    failed: R,
) -> Answer:
    """Decide entries in order, and answer with all results; `failed` is that of one that raises an error.

    A client that goes away meanwhile does not stop this: what it sent may be done, as with any request.
    """
    if not entries:
        return answer([])
    work = _Work(entries, decide, answer, failed)
    work.advance()
    return work.pending


class _Work(Generic[T, R]):
    """Entries, and the results of those that are decided."""

    def __init__(
        self,
        entries: Sequence[T],
        decide: Callable[[T], Eventually[R]],
        answer: Callable[[list[R]], Reply],
        failed: R,
    ) -> None:
        self.pending: Pending[Any] = Pending()
        self._entries = entries
        self._decide = decide
        self._answer = answer
        self._results = [failed] * len(entries)
        self._next = 0
        self._open = len(entries)

    def advance(self) -> None:
        """Decide entries until this turn is over, and go on in another one."""
        ends_s = time.monotonic() + _TURN_S
        while self._next < len(self._entries):
            index = self._next
            self._next += 1
            try:
                result: Any = self._decide(self._entries[index])
            except Exception:
                _log.exception("one of many requests could not be answered")
                result = self._results[index]
            if isinstance(result, Pending):
                result.then(partial(self._settle, index))
            else:
                self._settle(index, result)
            if time.monotonic() > ends_s and self._next < len(self._entries):
                asyncio.get_running_loop().call_soon(self.advance)
                return

    def _settle(self, index: int, result: R) -> None:
        self._results[index] = result
        self._open -= 1
        if not self._open:
            self.pending.settle(self._answer(self._results))
