"""One at a time: a checkpoint that changes files, or a backup that copies them.

Both hold a lock on a file of the data folder, so that they need not know of each other: a server that
finds it taken puts its checkpoint off, which costs it a longer log and nothing else; a backup waits. The
lock goes with its process, however that ends.
"""

import fcntl
import os
from pathlib import Path

NAME = "CHECKPOINT"


class Guard:
    """The lock, as one process sees it."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def take(self) -> bool:
        """Take the lock, if nobody has it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait(self) -> None:
        """Wait for the lock, and take it."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def give_back(self) -> None:
        """Let others have the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of everything."""
        os.close(self._descriptor)
