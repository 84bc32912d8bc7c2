"""Where the links of a backup stand until they are copied: a folder inside the data folder.

It exists while a backup runs and is locked by it, so that what a backup that was killed has left there
is told from one that is running. It is made and removed only by who holds the `guard`.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from millstream.store.base import StoreError
from millstream.store.log.guard import Guard

NAME = "backup.tmp"


@contextlib.contextmanager
def links_folder(folder: Path, guard: Guard) -> Iterator[Path]:
    """Make the folder for a backup; the guard is held when this begins, and given back at its end."""
    links = folder / NAME
    if not _remove_leftovers(links):
        raise StoreError(f"{folder}: another backup of it is running.")
    links.mkdir()
    descriptor = os.open(links, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield links
    finally:
        guard.wait()
        shutil.rmtree(links, ignore_errors=True)
        os.close(descriptor)
        guard.give_back()


def remove_leftovers(folder: Path, guard: Guard) -> None:
    """Remove what a backup that was killed has left; for a server that starts."""
    if (folder / NAME).exists() and guard.take():
        _remove_leftovers(folder / NAME)
        guard.give_back()


def _remove_leftovers(links: Path) -> bool:
    """Remove the folder, if it is there and nobody uses it; False when somebody does."""
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
