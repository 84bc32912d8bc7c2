"""The links of a backup: where they stand until they are copied, and how they are made.

They are in a folder inside the data folder, because links reach no other file system.

It exists while a backup runs and is locked by it, so that what a backup that was killed has left there
is told from one that is running. It is made and removed only by who holds the `guard`.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from millstream.store.base import StoreError
from millstream.store.log.guard import Guard

LINKS = "backup.tmp"


@contextlib.contextmanager
def links_folder(folder: Path, guard: Guard) -> Iterator[Path]:
    """Make the folder for a backup, and remove it at the end; takes the guard for both, and gives it back."""
    links = folder / LINKS
    guard.wait()
    if not _remove_leftovers(links):
        raise StoreError(f"{folder}: another backup of it is running.")
    links.mkdir()
    descriptor = os.open(links, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        guard.give_back()
        yield links
    finally:
        guard.wait()
        shutil.rmtree(links, ignore_errors=True)
        os.close(descriptor)
        guard.give_back()


def link(folder: Path, links: Path, skip: tuple[str, ...] = ()) -> None:
    """Make the links those of the files that there are now, but for some; below, nothing is skipped.

    Called again, it does little: only for files that have come, gone or been replaced since.
    """
    links.mkdir(exist_ok=True)
    there, linked = _entries(folder), _entries(links)
    for name, entry in linked.items():
        if name not in skip and not _is_same(there.get(name), entry):
            _remove(links / name)
            linked[name] = None
    for name, entry in there.items():
        if entry is None or name in skip:
            continue
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile: then nobody needs it
            if entry.is_dir(follow_symlinks=False):
                link(folder / name, links / name)
            elif linked.get(name) is None:
                _link_one(folder / name, links / name)


Entry: TypeAlias = "os.DirEntry[str] | None"


def _entries(folder: Path) -> dict[str, Entry]:
    with os.scandir(folder) as found:
        return {entry.name: entry for entry in found}


def _is_same(original: Entry, linked: Entry) -> bool:
    """Tell whether a link still is one of this file; folders are only compared by name."""
    if original is None or linked is None:
        return False
    if original.is_dir(follow_symlinks=False):
        return linked.is_dir(follow_symlinks=False)
    return original.inode() == linked.inode()


def _link_one(original: Path, linked: Path) -> None:
    try:
        os.link(original, linked)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(original, linked)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def remove_leftovers(folder: Path, guard: Guard) -> None:
    """Remove what a backup that was killed has left; for a server that starts."""
    if (folder / LINKS).exists() and guard.take():
        _remove_leftovers(folder / LINKS)
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
