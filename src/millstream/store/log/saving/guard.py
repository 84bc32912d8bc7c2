"""The guard: either a checkpoint changes files, or a backup copies them.

Both hold a lock on a file of the data folder. A server that finds it taken postpones its checkpoint, which
only makes its log longer; a backup waits. The lock ends with its process, however that ends.

A backup keeps links to files in a folder of its own, which it locks while it runs. So the links of a
killed backup can be recognized, and the next start or backup removes them. The folder is made and
removed only by a process that holds the guard.
"""

import fcntl
import os
import shutil
from pathlib import Path

from millstream.store.log.disk import FILE_MODE

NAME = "CHECKPOINT"
LINKS = "backup.tmp"


class Guard:
    """The lock, as one process sees it."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def take(self) -> bool:
        """Take the lock, if it is free."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait(self) -> None:
        """Wait for the lock, and take it."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def release(self) -> None:
        """Release the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, which releases the lock."""
        os.close(self._descriptor)


def remove_leftovers(folder: Path, guard: Guard) -> None:
    """Remove what a backup that was killed has left; called when a server starts."""
    if (folder / LINKS).exists() and guard.take():
        remove_unused_links(folder / LINKS)
        guard.release()


def remove_unused_links(links: Path) -> bool:
    """Remove the folder of links, if there is one; False when a running backup uses it."""
    try:
        descriptor = os.open(links, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(links, ignore_errors=True)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
