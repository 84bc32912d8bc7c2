"""Copying a data folder while a server uses it, so that the copy is what a crash would have left.

A start recovers from the catalog and the log since. So a copy is good if its log goes on where its
catalog ends, and its files hold what its catalog says they do:

        1  all files but catalog and log: not copied but linked
        2  no checkpoint from here on (`guard`): files and catalog stay as they are
        3  the catalog, by SQLite's own way to copy a database that is in use
        4  the log from there on, up to its last whole frame
        5  files that have come or gone since they were linked
        6  checkpoints may go on; the links are copied, and then removed

What was acknowledged before the backup began is in the log by step 4, so it is in the copy. Linked files
may grow until they are copied; what they gain is beyond what the copy's catalog knows, and ignored.

Only the catalog and the log are known here. Whatever other files there are, they change by checkpoints
only, or are not needed any more once they are removed.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec

from millstream.store.log import guard
from millstream.store.log.catalog import Catalog
from millstream.store.log.disk import RealDisk
from millstream.store.log.files.checkpoint import APPLIED_LSN
from millstream.store.log.opening import CATALOG, LOCK, CannotOpenError, explained
from millstream.store.log.tools.archives import Archive, extracted
from millstream.store.log.tools.backup_links import LINKS, link, links_folder
from millstream.store.log.tools.check import Report, verify
from millstream.store.log.wal import segments
from millstream.store.log.wal.segments import DamagedError, Segment

_NOT_LINKED = (LINKS, LOCK, guard.NAME, segments.FOLDER, CATALOG, f"{CATALOG}-wal", f"{CATALOG}-shm")
_TRIES = 50
_RETRY_S = 0.02


class Copied(msgspec.Struct, frozen=True):
    """What a backup holds."""

    files: int
    bytes: int
    last_lsn: int


def back_up(folder: Path, archive: Archive) -> Copied:
    """Copy a data folder into an archive; a server may use the folder."""
    if not (folder / LOCK).exists():
        raise CannotOpenError(f"{folder} is not a data folder.")
    with contextlib.ExitStack() as undo:
        with explained(folder):
            checkpoints = guard.Guard(folder)
            undo.callback(checkpoints.close)
            links = undo.enter_context(links_folder(folder, checkpoints))
            link(folder, links, _NOT_LINKED)
            checkpoints.wait()
            last_lsn = _copy_log(folder, links, _copy_catalog(folder, links))
            link(folder, links, _NOT_LINKED)
            checkpoints.give_back()
        names = list(_files_below(links))
        size = sum(archive.add(name, links / name) for name in names)
        archive.add_empty(LOCK)
    return Copied(len(names), size, last_lsn)


def restore(archive: Path, folder: Path) -> Report:
    """Make a data folder of a backup, and verify it; one that is not sound is not made."""
    with extracted(archive, folder) as unpacked:
        report = verify(unpacked)
        if not report.is_sound:
            raise CannotOpenError(f"{archive} is damaged: {report.complaints[0]}")
    return msgspec.structs.replace(report, folder=folder)


def _copy_catalog(folder: Path, links: Path) -> int:
    """Copy the catalog, and give the log position that it stands for."""
    if not (folder / CATALOG).exists():
        return 0
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
            # Or a frame was not whole when we read it, and one behind it was already: look again.
            damage = error
            time.sleep(_RETRY_S)
        else:
            return
    raise damage


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
