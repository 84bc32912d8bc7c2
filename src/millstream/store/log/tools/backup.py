"""Backup: copies a data folder that is in use; the copy is what a crash at that moment would have left.

A start recovers from the catalog and the log since. So a copy is good if its log goes on where its
catalog ends, and its files hold what its catalog says they do:

        1  link all files but catalog and log, into a folder inside the data folder
        2  take the guard: no checkpoint from here on, files and catalog stay as they are
        3  copy the catalog, with SQLite's own backup of a database that is in use
        4  copy the log from there on, up to its last whole frame
        5  link the files that were added since, unlink those that were removed
        6  release the guard; verify everything that is linked, as a restore would
        7  copy the links, then remove them

What was acknowledged before the backup began is in the log by step 4, so it is in the copy. Linked files
may grow until they are copied; what they gain is beyond what the copy's catalog knows, and ignored.

The copy of the catalog has no checksums of its pages; the first start computes them.

Only the catalog and the log are known here. All other files are changed by checkpoints only, or are no
longer needed once they are removed.
"""

import contextlib
import fcntl
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import msgspec

from millstream.store.base import StoreError
from millstream.store.log.catalog.database import APPLIED_LSN, Catalog
from millstream.store.log.catalog.pages import SUMS, CatalogPages
from millstream.store.log.disk import FOLDER_MODE, RealDisk
from millstream.store.log.opening import CATALOG, LOCK, CannotOpenError, explained
from millstream.store.log.reserve import NAME as RESERVE
from millstream.store.log.saving.guard import LINKS, NAME, Guard, remove_unused_links
from millstream.store.log.tools.archives import Archive, extracted
from millstream.store.log.tools.check import Report, examine, verify
from millstream.store.log.wal import segments
from millstream.store.log.wal.segments import DamagedError, Segment

_NOT_LINKED = (
    LINKS,
    LOCK,
    NAME,
    RESERVE,
    segments.FOLDER,
    CATALOG,
    f"{CATALOG}-wal",
    f"{CATALOG}-shm",
    SUMS,
)
_TRIES = 50
_RETRY_S = 0.02


class Copied(msgspec.Struct, frozen=True):
    """What a backup holds."""

    files: int
    bytes: int
    last_lsn: int


def back_up(folder: Path, archive: Archive) -> Copied:
    """Copy a data folder into an archive, unless it is damaged; a server may use the folder."""
    if not (folder / LOCK).exists():
        raise CannotOpenError(f"{folder} is not a data folder.")
    with contextlib.ExitStack() as undo:
        with explained(folder):
            guard = Guard(folder)
            undo.callback(guard.close)
            links = undo.enter_context(_links_folder(folder, guard))
            _link_all(folder, links)
            guard.wait()
            last_lsn = _copy_log(folder, links, _copy_catalog(folder, links))
            _link_all(folder, links)
            guard.release()
            _verify(links)
        names = list(_files_below(links))
        size = sum(archive.add(name, links / name) for name in names)
        archive.add_empty(LOCK)
    return Copied(len(names), size, last_lsn)


def _verify(links: Path) -> None:
    """Refuse to make a backup that could not be restored."""
    report = examine(links)
    if not report.is_sound:
        raise DamagedError(f"{report.complaints[0]} Restore an earlier backup, or delete what is damaged.")


def restore(archive: Path, folder: Path) -> Report:
    """Restore a data folder from a backup, and verify it; one that is damaged is not made."""
    with extracted(archive, folder) as unpacked:
        report = verify(unpacked)
        if not report.is_sound:
            raise CannotOpenError(f"{archive} is damaged: {report.complaints[0]}")
    return msgspec.structs.replace(report, folder=folder)


def _copy_catalog(folder: Path, links: Path) -> int:
    """Copy the catalog, and give the log position that it stands for."""
    if not (folder / CATALOG).exists():
        return 0
    pages = CatalogPages(folder / CATALOG)
    try:
        for complaint in pages.complaints():
            raise DamagedError(complaint)
    finally:
        pages.close()
    with (
        contextlib.closing(
            sqlite3.connect(f"file:{quote(str(folder / CATALOG))}?mode=ro", uri=True)
        ) as source,
        contextlib.closing(sqlite3.connect(links / CATALOG)) as copy,
    ):
        source.backup(copy)
    copied = Catalog(links / CATALOG, read_only=True)
    try:
        return copied.fact(APPLIED_LSN)
    finally:
        copied.close()
        for left in links.glob(f"{CATALOG}-*"):
            left.unlink()


def _copy_log(folder: Path, links: Path, applied_lsn: int) -> int:
    """Copy the log since the catalog, and give its last record."""
    disk = RealDisk(folder, durable=False)
    try:
        (links / segments.FOLDER).mkdir()
        needed = segments.find_segments(disk, applied_lsn)
        needed = needed[segments.first_needed(needed, applied_lsn) :]
        for segment, following in zip(needed, [*needed[1:], None], strict=True):
            _find_end(disk, segment, following)
            with (folder / segment.name).open("rb") as source, (links / segment.name).open("xb") as copy:
                _copy(source.fileno(), copy.fileno(), segment.end)
        return needed[-1].next_lsn - 1 if needed else applied_lsn
    finally:
        disk.close()


def _find_end(disk: RealDisk, segment: Segment, following: Segment | None) -> None:
    """Read a segment up to its last whole frame; the last segment may be written at this moment."""
    for _ in range(_TRIES):
        try:
            for _ in segments.read_segment(disk, segment, following):
                pass
        except DamagedError as error:
            # Perhaps a frame was not whole when we read it, but one after it was: read again.
            damage = error
            time.sleep(_RETRY_S)
        else:
            return
    raise damage


@contextlib.contextmanager
def _links_folder(folder: Path, guard: Guard) -> Iterator[Path]:
    """Make the folder of links, and remove it at the end; holds the guard for both."""
    links = folder / LINKS
    guard.wait()
    if not remove_unused_links(links):
        raise StoreError(f"{folder}: another backup of it is running.")
    links.mkdir(FOLDER_MODE)
    descriptor = os.open(links, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        guard.release()
        yield links
    finally:
        guard.wait()
        shutil.rmtree(links, ignore_errors=True)
        os.close(descriptor)
        guard.release()


def _link_all(folder: Path, links: Path) -> None:
    """Link everything but the catalog, the log and the locks."""
    link(folder, links, _NOT_LINKED)


def link(folder: Path, links: Path, skip: tuple[str, ...] = ()) -> None:
    """Link the files that exist now, except some names at the top.

    Called again, it only handles files that were added, removed or replaced since.
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
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile: then it is not needed
            if entry.is_dir(follow_symlinks=False):
                link(folder / name, links / name)
            elif linked.get(name) is None:
                _link_one(folder / name, links / name)


_Entry: TypeAlias = "os.DirEntry[str] | None"


def _entries(folder: Path) -> dict[str, _Entry]:
    with os.scandir(folder) as found:
        return {entry.name: entry for entry in found}


def _is_same(original: _Entry, linked: _Entry) -> bool:
    """Tell whether a link still points to this file; folders are only compared by name."""
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


def _files_below(folder: Path) -> Iterator[str]:
    """Give the files in a folder and below, by their names relative to it."""
    for path, folders, files in os.walk(folder):
        place = Path(path).relative_to(folder)
        folders.sort()
        yield from (str(place / name) for name in sorted(files))


def _copy(source: int, target: int, size: int) -> None:
    position = 0
    while position < size:
        piece = os.pread(source, min(2**20, size - position), position)
        os.write(target, piece)
        position += len(piece)
