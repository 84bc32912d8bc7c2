"""The reserve: room on the disk that is kept for changes that free more of it.

A deletion must be recorded and checkpointed before it frees anything, which a full disk has no room for.
So a file of the data folder holds some. When the disk is full the file is cut, and only deletions, expiry
and retention are accepted; when there is room again, beyond what it held, it is written again, and everything
is.

It is large enough for a checkpoint: what waits in memory must be written to files before the log that holds
it can be released. So how much may wait depends on the reserve, not the other way round: a checkpoint begins
when `checkpoint_bytes` wait, as much again may arrive while it is written, and then writers wait for it.
When half of that waits the reserve grows, in the background and while there is room, so that the checkpoint
begins later, as if there had been a larger reserve at once. Whenever the disk becomes full, before, while or
after the reserve grows, there is room for what was acknowledged. A server that does little keeps little.
"""

import os
import sys
import threading
from collections.abc import Callable

from millstream.store.log.disk import Disk, File, nonfatal_when_full

NAME = "reserve"
SLACK_BYTES = 2**20
"""How much more must fit before a full disk counts as having room again."""
FIRST_CHECKPOINT_BYTES = 4 * 2**20
"""What a new reserve has room for."""
_PIECE_BYTES = 2**20


def sizes_for(least_bytes: int, checkpoint_bytes: int) -> tuple[int, int]:
    """Choose the first and the largest size of a reserve; 0 stays 0."""
    if not least_bytes:
        return 0, 0
    first = min(checkpoint_bytes, FIRST_CHECKPOINT_BYTES)
    return max(least_bytes, 2 * first + SLACK_BYTES), max(least_bytes, 2 * checkpoint_bytes + SLACK_BYTES)


class Reserve:
    """The file; a size of 0 keeps no room. `slack` is what others need beside it.

    `must_grow` and `checkpoint_bytes` are for the event loop; everything else takes the disk's time.
    """

    def __init__(
        self,
        disk: Disk,
        sizes: tuple[int, int],
        slack: int = SLACK_BYTES,
        new_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._disk = disk
        self._first, self._largest = sizes
        self._slack = slack
        self._new_bytes = new_bytes
        self._lock = threading.Lock()  # it may be growing when the disk becomes full
        self._held = 0
        self._wanted = self._first  # as large as it was ever to be
        self._released_bytes = 0  # how much it held before
        self._is_released = False

    # -- On the event loop -------------------------------------------------------------------------

    @property
    def checkpoint_bytes(self) -> int:
        """How much may wait when a checkpoint begins."""
        return (max(self._first, self._held) - self._slack) // 2 if self._first else sys.maxsize

    def must_grow(self, unsaved_bytes: int, wanted_bytes: int) -> bool:
        """Tell whether to call `grow`, when checkpoints should begin with `wanted_bytes`.

        It does so once for an amount, until `reconsider`, and well before that waits: growing takes time. And
        by a quarter at least: what is wanted may rise with every change.
        """
        largest = min(self._largest, max(self._size_for(wanted_bytes), unsaved_bytes + self._slack))
        if 4 * largest <= 5 * self._wanted or self._size_for(2 * unsaved_bytes) < self._wanted:
            return False
        self._wanted = min(largest, self._size_for(4 * unsaved_bytes))
        return True

    def reconsider(self) -> None:
        """Let it grow again, if there was no room the last time."""
        self._wanted = max(self._first, self._held, self._released_bytes)

    def _size_for(self, checkpoint_bytes: int) -> int:
        return 2 * checkpoint_bytes + self._slack

    # -- Beside the event loop ---------------------------------------------------------------------

    def keep(self, unsaved_bytes: int = 0) -> None:
        """Make sure that the reserve is there, as far as there is room for it; a start calls this."""
        if not self._first:
            self._disk.remove(NAME)
            return
        was_released = NAME in self._disk.names(".")
        with nonfatal_when_full():
            file = self._disk.open(NAME, create=True)
            try:
                held, free = file.size(), self._disk.free_bytes()
                self._wanted = min(self._largest, max(self._first, held, self._size_for(unsaved_bytes)))
                # Others need room, too, on a small disk. But what a full disk had kept is taken again.
                share = free - self._slack if was_released and not held else (held + free) // 2
                self._resize(file, min(self._wanted, max(held, share)), slack=0)
            finally:
                file.close()

    def grow(self) -> None:
        """Make the reserve as large as is wanted, or half of the room that there is."""
        with self._lock, nonfatal_when_full():
            if self._is_released:
                return
            file = self._disk.open(NAME, create=True)
            try:
                held = file.size()
                size = min(self._wanted, (held + self._disk.free_bytes()) // 2)
                if size > held:
                    self._resize(file, size, slack=0)
            finally:
                file.close()

    def refill(self) -> None:
        """Write the reserve, or fail as a write does when there is no room for it and some more."""
        with self._lock:
            file = self._disk.open(NAME, create=True)
            try:
                share = (file.size() + self._disk.free_bytes()) // 2
                wanted = max(self._wanted, self._released_bytes)
                self._resize(file, min(wanted, max(self._released_bytes, share)), self._slack)
                self._is_released = False
            finally:
                file.close()

    def _resize(self, file: File, size: int, slack: int) -> None:
        held, end = file.size(), size + slack
        try:
            if held < end and not file.allocate(held, end):
                for position in range(held, end, _PIECE_BYTES):
                    # Random, so that no file system stores it in less room than it will free.
                    file.write([self._new_bytes(min(_PIECE_BYTES, end - position))], position)
            if held != end:
                file.truncate(size)
                file.sync()
            self._held = size
        except OSError:
            file.truncate(min(held, size))
            self._held = min(held, size)
            raise

    def release(self) -> bool:
        """Free the room of the reserve; False when it held none."""
        with self._lock:
            file = self._disk.open(NAME, create=True)
            try:
                held = file.size()
                self._released_bytes = max(held, self._released_bytes)
                self._is_released = True
                self._held = 0
                file.truncate(0)
                file.sync()
            finally:
                file.close()
            return held > 0

    def has_room(self) -> bool:
        """Tell whether there is room beyond what the reserve held: that is for what removes something."""
        return self._disk.free_bytes() >= self._released_bytes + 2 * self._slack
