"""The only way to the disk: what the engine needs of a file system, and nothing more.

Everything that must survive a power cut goes through here, so that a simulated disk can take its place,
lose what was not synced, and show that nothing acknowledged was lost.

There are two kinds of failure. A plain `OSError` means that a call did not do what it should, and nothing
else. A `SyncError` means that what is on the disk is unknown from now on: after a failed sync the page
cache cannot be trusted, so nothing may be tried again and nothing more be promised.
"""

import contextlib
import ctypes
import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Protocol

FILE_MODE = 0o600
FOLDER_MODE = 0o700
"""What is stored is nobody else's: not to read, and not to lock."""

_IOV_MAX = 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)
_CANNOT_ALLOCATE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ENODEV)
_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


class SyncError(OSError):
    """A sync failed: what was written since the last one may or may not be on the disk."""


class File(Protocol):
    """An open file."""

    def write(self, pieces: Sequence[bytes], position: int) -> None:
        """Write all pieces, one after the other, from a position on."""
        ...

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes."""
        ...

    def allocate(self, start: int, end: int) -> bool:
        """Give a range its room without writing it; False when that is not possible, and was not done."""
        ...

    def sync(self) -> None:
        """Make what was written survive a power cut."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file."""
        ...

    def size(self) -> int:
        """Give the size of the file."""
        ...

    def descriptor(self) -> int | None:
        """Give the file's descriptor, if it has one."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Disk(Protocol):
    """A folder on a file system; names are relative to it."""

    def open(self, name: str, *, create: bool = False) -> File:
        """Open a file for reading and writing."""
        ...

    def names(self, folder: str) -> list[str]:
        """List a folder, sorted; one that does not exist is empty."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; durable after `sync_folder`."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there; durable after `sync_folder`."""
        ...

    def make_folder(self, name: str) -> None:
        """Make a folder and those above it, durably, where they are not there."""
        ...

    def sync_folder(self, name: str) -> None:
        """Make the names in a folder survive a power cut."""
        ...

    def sync_all(self) -> bool:
        """Make everything survive a power cut at once; False when this disk cannot, and did not."""
        ...

    def free_bytes(self) -> int:
        """Give how much room there is, by what the file system says."""
        ...


class RealFile:
    """A file by its descriptor."""

    __slots__ = ("_descriptor", "_durable")

    def __init__(self, descriptor: int, *, durable: bool) -> None:
        self._descriptor = descriptor
        self._durable = durable

    def write(self, pieces: Sequence[bytes], position: int) -> None:
        """Write all pieces, going on where a short write stopped."""
        for first in range(0, len(pieces), _IOV_MAX):
            batch = pieces[first : first + _IOV_MAX]
            size = sum(map(len, batch))
            written = os.pwritev(self._descriptor, batch, position)
            if written < size:
                rest = memoryview(b"".join(batch))
                while written < size:
                    written += os.pwritev(self._descriptor, [rest[written:]], position + written)
            position += size

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes."""
        return os.pread(self._descriptor, size, position)

    def allocate(self, start: int, end: int) -> bool:
        """Give a range its room, where the operating system and the file system can (macOS cannot)."""
        allocate = getattr(os, "posix_fallocate", None)
        if allocate is None:
            return False
        try:
            allocate(self._descriptor, start, end - start)
        except OSError as error:
            if error.errno not in _CANNOT_ALLOCATE:
                raise
            return False
        # A file system that compresses may have been given zeros, which take no room.
        return os.fstat(self._descriptor).st_blocks * 512 >= end

    def sync(self) -> None:
        """Make what was written survive a power cut, unless the disk is not durable."""
        if self._durable:
            try:
                _fdatasync(self._descriptor)
            except OSError as error:
                raise SyncError(error.errno, error.strerror) from error

    def truncate(self, size: int) -> None:
        """Cut the file."""
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        """Give the size of the file."""
        return os.fstat(self._descriptor).st_size

    def descriptor(self) -> int:
        """Give the file's descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class RealDisk:
    """A folder of this machine; `durable=False` leaves syncing to the operating system."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self._durable = durable
        # A folder that is there may have been made by a process that was killed before it synced the
        # name; so what counts is what this process has synced.
        self._made: set[PurePath] = set()
        # Open from the beginning: syncfs reports the errors since then.
        self._root = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)

    def open(self, name: str, *, create: bool = False) -> RealFile:
        """Open a file for reading and writing."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(os.open(self.folder / name, flags, FILE_MODE), durable=self._durable)

    def names(self, folder: str) -> list[str]:
        """List a folder, sorted; one that does not exist is empty."""
        try:
            return sorted(os.listdir(self.folder / folder))  # noqa: PTH208  names, not paths
        except FileNotFoundError:
            return []

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; durable after `sync_folder`."""
        (self.folder / old).rename(self.folder / new)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there; durable after `sync_folder`."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / name).unlink()

    def make_folder(self, name: str) -> None:
        """Make a folder and those above it, durably, where they are not there."""
        path = PurePath(name)
        for folder in (*reversed(path.parents), path):
            if folder not in self._made:
                (self.folder / folder).mkdir(FOLDER_MODE, exist_ok=True)
                self.sync_folder(str(folder.parent))
                self._made.add(folder)

    def sync_folder(self, name: str) -> None:
        """Make the names in a folder survive a power cut."""
        if self._durable:
            sync_path(self.folder / name)

    def sync_all(self) -> bool:
        """Sync the whole file system, where errors are reported (Linux 5.8 and newer)."""
        if not self._durable:
            return True
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None or not _SYNCFS_REPORTS:
            return False
        if syncfs(self._root) != 0:
            raise SyncError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return True

    def free_bytes(self) -> int:
        """Give how much room there is for this process; a quota may allow less."""
        found = os.fstatvfs(self._root)
        return found.f_bavail * found.f_frsize

    def total_bytes(self) -> int:
        """Give how large the file system is."""
        found = os.fstatvfs(self._root)
        return found.f_blocks * found.f_frsize

    def close(self) -> None:
        """Close the folder."""
        os.close(self._root)


def is_full(error: BaseException) -> bool:
    """Tell whether a call failed because the disk is full, and for no worse reason."""
    return isinstance(error, OSError) and error.errno in _FULL and not isinstance(error, SyncError)


@contextlib.contextmanager
def nonfatal_when_full() -> Iterator[None]:
    """Ignore that there is no room."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise


def sync_path(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise SyncError(error.errno, error.strerror) from error
    finally:
        os.close(descriptor)


def _syncfs_reports() -> bool:
    system = os.uname()
    version = re.match(r"(\d+)\.(\d+)", system.release)
    return system.sysname == "Linux" and version is not None and (int(version[1]), int(version[2])) >= (5, 8)


_SYNCFS_REPORTS = _syncfs_reports()
