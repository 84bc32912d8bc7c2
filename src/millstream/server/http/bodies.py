"""Limits of request bodies: how many bytes all connections may hold together, and how slowly they may arrive.

Counted are bodies that arrive, wait behind other requests, or are being checked. When there is no room, the
large body that began first is given up (503): usually that one is slow, or its client holds it on purpose.
Small bodies are never given up, and the number of connections limits them. The price: when far more large
bodies arrive at once than there is room for, most of them are given up, and their clients try again.

However many arrive at once, only a few are read in a turn of the event loop (`ReadTurns`): parsing what the
transport reads at a time takes some milliseconds when it is cut into very small chunks.

A body has a minimum rate, averaged over `body_timeout_s`: a client that sends a byte now and then must not
hold its body for ever.

Rule H4.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from millstream.server.settings import Settings

_READS_PER_TURN: Final = 2


def due_bytes(received_bytes: int, settings: Settings) -> float:
    """Return how much of a body must have arrived after the next `body_timeout_s`; less of it gets 408."""
    return received_bytes + max(1.0, settings.min_body_bytes_per_s * settings.body_timeout_s)


class BodyHolder(Protocol):
    """A connection that a body arrives on."""

    def refuse_body(self) -> None:
        """Give up the body that is arriving, and report that it is gone."""
        ...


class Bodies:
    """The bodies of all connections of a server."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._arriving: dict[BodyHolder, None] = {}  # large ones, in the order in which they began

    def report(self, holder: BodyHolder, added_bytes: int, *, is_arriving: bool) -> None:
        """Count what a connection holds more, or less; `is_arriving` when a large body arrives on it."""
        self.held_bytes += added_bytes
        if is_arriving:
            self._arriving.setdefault(holder)
        else:
            self._arriving.pop(holder, None)
        while self.held_bytes > self.max_bytes and self._arriving:
            oldest = next(iter(self._arriving))
            del self._arriving[oldest]
            oldest.refuse_body()


class ReadTurns:
    """Connections with large bodies that wait to be read on."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, resume: Callable[[], None]) -> None:
        """Let a connection read on, after those that were added before it."""
        self._waiting.append(resume)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._resume_some)

    def _resume_some(self) -> None:
        resumed = [self._waiting.popleft() for _ in range(min(_READS_PER_TURN, len(self._waiting)))]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._resume_some)
        for resume in resumed:
            resume()
