"""Batching: appends made while one is in flight share the next request.

        append A  ------------------>  answer          A leads, alone
          append B  (waits)            |
            append C  (waits)          `-> B leads, with C       ------> answer for both

The first to wait leads next, so no caller sends for others forever. The queue only decides who sends;
locks and waiting are the shells' work. An append with a `seq` is sent alone.
"""

from collections import deque
from typing import Final, Generic, TypeVar

MAX_BATCH_BYTES: Final = 1024 * 1024

W = TypeVar("W")


class Entry(Generic[W]):
    """One append that is in flight or waiting; `waiter` is how its shell wakes it."""

    __slots__ = ("alone", "batch", "message", "waiter")

    def __init__(self, message: bytes, waiter: W, *, alone: bool) -> None:
        self.message = message
        self.waiter = waiter
        self.alone = alone
        self.batch: list[Entry[W]] | None = None  # set when this entry leads


class AppendQueue(Generic[W]):
    """Which append is sent now, and which ones share the next request."""

    def __init__(self, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        self._max_batch_bytes = max_batch_bytes
        self._waiting: deque[Entry[W]] = deque()
        self._busy = False

    def enter(self, entry: Entry[W]) -> bool:
        """Add an append; true if it leads at once, false if it has to wait."""
        if self._busy:
            self._waiting.append(entry)
            return False
        self._busy = True
        entry.batch = [entry]
        return True

    def leave(self) -> Entry[W] | None:
        """End the current request; return the leader of the next one, its batch filled."""
        if not self._waiting:
            self._busy = False
            return None
        leader = self._waiting.popleft()
        leader.batch = [leader]
        size = len(leader.message)
        while self._waiting and not leader.alone and not self._waiting[0].alone:
            size += len(self._waiting[0].message) + 1
            if size > self._max_batch_bytes:
                break
            leader.batch.append(self._waiting.popleft())
        return leader

    def forget(self, entry: Entry[W]) -> None:
        """Remove an append that was not sent yet."""
        if entry in self._waiting:
            self._waiting.remove(entry)
