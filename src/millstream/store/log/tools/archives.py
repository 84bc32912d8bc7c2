"""Archives: what a backup is written to and restored from, a folder or a tar file (plain or gzip).

An archive gets its name when it is complete and on the disk, and not before.
"""

import contextlib
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol

from millstream.store.base import StoreError
from millstream.store.log.disk import FILE_MODE, FOLDER_MODE, RealDisk, sync_path

_PIECE_BYTES = 2**20
_TARS = {".tar": "w", ".gz": "w:gz", ".tgz": "w:gz"}


class Archive(Protocol):
    """Something that files are added to."""

    def add(self, name: str, path: Path) -> int:
        """Add a file as it is now, under a name; gives its size. It may grow meanwhile."""
        ...

    def add_empty(self, name: str) -> None:
        """Add a file with nothing in it."""
        ...


class FolderArchive:
    """A folder that looks like a data folder, and is one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, path: Path) -> int:
        """Copy a file."""
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        size = path.stat().st_size
        with path.open("rb") as source, target.open("xb") as copy:
            left = size
            while left and (piece := source.read(min(left, _PIECE_BYTES))):
                copy.write(piece)
                left -= len(piece)
        return size

    def add_empty(self, name: str) -> None:
        """Make a file."""
        (self._folder / name).touch()


class TarArchive:
    """The same in one file."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar

    def add(self, name: str, path: Path) -> int:
        """Write a file to the archive."""
        with path.open("rb") as source:
            about = path.stat()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = about.st_size, about.st_mtime
            self._tar.addfile(entry, source)
            return entry.size

    def add_empty(self, name: str) -> None:
        """Write an entry without content."""
        self._tar.addfile(tarfile.TarInfo(name))


@contextlib.contextmanager
def new_archive(path: Path) -> Iterator[Archive]:
    """Make an archive; the suffix of the name decides between a tar file and a folder."""
    mode = _TARS.get(path.suffix)
    with _appearing(path, is_folder=mode is None) as partial:
        if mode is None:
            yield FolderArchive(partial)
            return
        with partial.open("wb") as file:
            with tarfile.open(fileobj=file, mode=mode, format=tarfile.GNU_FORMAT) as tar:  # type: ignore[call-overload]  # it knows no computed mode
                yield TarArchive(tar)
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def extracted(archive: Path, target: Path) -> Iterator[Path]:
    """Extract an archive to a folder; it is renamed to the target when everything succeeded."""
    if not archive.exists():
        raise StoreError(f"{archive} does not exist.")
    with _appearing(target, is_folder=True) as folder:
        if archive.is_dir():
            shutil.copytree(archive, folder, dirs_exist_ok=True)
        else:
            _unpack(archive, folder)
        yield folder


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            for entry in tar:
                name = PurePosixPath(entry.name)
                if name.is_absolute() or ".." in name.parts or not (entry.isfile() or entry.isdir()):
                    raise StoreError(f"{archive}: {entry.name!r} has no place in a backup.")
                if entry.isfile() and (content := tar.extractfile(entry)) is not None:
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with content, target.open("xb") as copy:
                        shutil.copyfileobj(content, copy, _PIECE_BYTES)
    except (tarfile.TarError, EOFError, OSError) as error:
        [reason, *_] = str(error).splitlines() or [type(error).__name__]
        raise StoreError(f"{archive} cannot be read: {reason.rstrip(':')}.") from None


@contextlib.contextmanager
def _appearing(path: Path, *, is_folder: bool) -> Iterator[Path]:
    """Give a temporary name to write to, and rename it at the end; a failure leaves nothing behind."""
    if path.exists() and not (is_folder and path.is_dir() and not any(path.iterdir())):
        raise StoreError(f"{path} exists already, and is left as it is.")
    partial = path.absolute().with_name(f"{path.name}.partial")
    if partial.exists():
        raise StoreError(f"{partial} is in the way: remove it if no other backup is being written.")
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        if is_folder:
            partial.mkdir(FOLDER_MODE)
        else:
            partial.touch(FILE_MODE)
        yield partial
        if is_folder:
            _sync(partial)
        partial.rename(path)
        sync_path(partial.parent)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}.") from error
    finally:
        if is_folder:
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Make all that is in a folder survive a power cut."""
    disk = RealDisk(folder)
    try:
        if disk.sync_all():
            return
    finally:
        disk.close()
    for path, _, files in os.walk(folder):
        for name in files:
            descriptor = os.open(Path(path) / name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_path(Path(path))
