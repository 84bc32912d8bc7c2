"""The reserve: room on the disk that is kept for changes that free more of it.

A deletion must be recorded and checkpointed before it frees anything, which a full disk has no room for.
So a file of the data folder holds some. When the disk is full the file is cut, and only deletions, expiry
and retention are accepted; when there is room again, beyond what it held, it is written again, and everything
is.

It is large enough for a checkpoint (`size_for`): what waits in memory must be written to files before the
log that holds it can be released.
"""

import os
from collections.abc import Callable

from millstream.store.log.disk import Disk, File, nonfatal_when_full

NAME = "reserve"
SLACK_BYTES = 2**20
"""How much more must fit before a full disk counts as having room again."""
_PIECE_BYTES = 2**20


def size_for(least_bytes: int, checkpoint_bytes: int) -> int:
    """Choose the size of a reserve; 0 stays 0."""
    # As much again arrives while a checkpoint is written, then writers wait for it.
    return max(least_bytes, 2 * checkpoint_bytes + SLACK_BYTES) if least_bytes else 0


class Reserve:
    """The file; a size of 0 keeps no room. `slack` is what others need beside it."""

    def __init__(
        self,
        disk: Disk,
        size: int,
        slack: int = SLACK_BYTES,
        new_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._disk = disk
        self._size = size
        self._slack = slack
        self._new_bytes = new_bytes
        self._released_bytes = 0  # how much it held before

    def keep(self) -> None:
        """Make sure that the reserve is there, as far as there is room for it; a start calls this."""
        if not self._size:
            self._disk.remove(NAME)
            return
        was_released = NAME in self._disk.names(".")
        with nonfatal_when_full():
            file = self._disk.open(NAME, create=True)
            try:
                held, free = file.size(), self._disk.free_bytes()
                # Others need room, too, on a small disk. But what a full disk had kept is taken again.
                share = free - self._slack if was_released and not held else (held + free) // 2
                self._resize(file, min(self._size, max(held, share)), slack=0)
            finally:
                file.close()

    def refill(self) -> None:
        """Write the reserve, or fail as a write does when there is no room for it and some more."""
        file = self._disk.open(NAME, create=True)
        try:
            share = (file.size() + self._disk.free_bytes()) // 2
            self._resize(file, min(self._size, max(self._released_bytes, share)), self._slack)
        finally:
            file.close()

    def _resize(self, file: File, size: int, slack: int) -> None:
        held, end = file.size(), size + slack
        if held == end:
            return
        try:
            if held < end and not file.allocate(held, end):
                for position in range(held, end, _PIECE_BYTES):
                    # Random, so that no file system stores it in less room than it will free.
                    file.write([self._new_bytes(min(_PIECE_BYTES, end - position))], position)
            file.truncate(size)
            file.sync()
        except OSError:
            file.truncate(0)
            raise

    def release(self) -> bool:
        """Free the room of the reserve; False when it held none."""
        file = self._disk.open(NAME, create=True)
        try:
            held = file.size()
            self._released_bytes = max(held, self._released_bytes)
            file.truncate(0)
            file.sync()
        finally:
            file.close()
        return held > 0

    def has_room(self) -> bool:
        """Tell whether there is room beyond what the reserve held: that is for what removes something."""
        return self._disk.free_bytes() >= self._released_bytes + 2 * self._slack
