"""The only door to the disk: what the engine asks of a file system, and nothing more.

Everything that must survive a power cut goes through here, so that a simulated disk can stand behind
the same door, lose what was not synced, and show that nothing acknowledged was among it.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

_IOV_MAX = 1024


class File(Protocol):
    """An open file."""

    def write(self, pieces: Sequence[bytes], position: int) -> None:
        """Write all pieces, one after the other, from a position on."""
        ...

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes."""
        ...

    def sync(self) -> None:
        """Make what was written survive a power cut."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file."""
        ...

    def size(self) -> int:
        """Tell how long the file is."""
        ...

    def close(self) -> None:
        """Let go of the file."""
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
        """Remove a file, if it is there."""
        ...

    def make_folder(self, name: str) -> None:
        """Make a folder, durably, if it is not there."""
        ...

    def sync_folder(self, name: str) -> None:
        """Make the names in a folder survive a power cut."""
        ...


class RealFile:
    """A file by its descriptor."""

    __slots__ = ("_descriptor", "_durable")

    def __init__(self, descriptor: int, *, durable: bool) -> None:
        self._descriptor = descriptor
        self._durable = durable

    def write(self, pieces: Sequence[bytes], position: int) -> None:
        """Write all pieces, going on where a short write stopped."""
        todo = list(pieces)
        while todo:
            batch = todo[:_IOV_MAX]
            written = os.pwritev(self._descriptor, batch, position)
            position += written
            done = 0
            while done < len(batch) and written >= len(batch[done]):
                written -= len(batch[done])
                done += 1
            del todo[:done]
            if written:
                todo[0] = todo[0][written:]

    def read(self, size: int, position: int) -> bytes:
        """Read at most `size` bytes."""
        return os.pread(self._descriptor, size, position)

    def sync(self) -> None:
        """Make what was written survive a power cut, unless that was waived."""
        if self._durable:
            getattr(os, "fdatasync", os.fsync)(self._descriptor)

    def truncate(self, size: int) -> None:
        """Cut the file."""
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        """Tell how long the file is."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


class RealDisk:
    """A folder of this machine; `durable=False` leaves syncing to the operating system."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self._durable = durable

    def open(self, name: str, *, create: bool = False) -> RealFile:
        """Open a file for reading and writing."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(os.open(self.folder / name, flags, 0o644), durable=self._durable)

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
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / name).unlink()

    def make_folder(self, name: str) -> None:
        """Make a folder, durably, if it is not there."""
        path = self.folder / name
        if not path.is_dir():
            path.mkdir(parents=True)
            self.sync_folder(str(Path(name).parent))

    def sync_folder(self, name: str) -> None:
        """Make the names in a folder survive a power cut."""
        if self._durable:
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
