"""How much room a data folder takes, whatever files are in it."""

import os
from collections.abc import Iterator
from pathlib import Path

from millstream.store.log.wal.segments import FOLDER as LOG_FOLDER
from millstream.store.measures import Sizes


def log_bytes(folder: Path) -> int:
    """Add up the log's segments; there are few."""
    return sum(_size(entry) for entry in _files(folder / LOG_FOLDER) if entry.name.endswith(".wal"))


def measure(folder: Path) -> Sizes:
    """Add up all files, and get the free space. Slow where there are many."""
    disk = os.statvfs(folder)
    return Sizes(sum(_size(entry) for entry in _files(folder)), disk.f_bavail * disk.f_frsize)


def _files(folder: Path) -> Iterator["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(Path(entry.path))
                else:
                    yield entry
    except FileNotFoundError:
        return  # it was removed meanwhile


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0  # as above
