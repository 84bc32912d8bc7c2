"""Opening a data folder: lock it, find what is in it, and put the engine together on this machine."""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from millstream.store.base import StoreError
from millstream.store.log import sizes
from millstream.store.log.cache import machine_memory
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.pages import SUMS
from millstream.store.log.disk import FILE_MODE, FOLDER_MODE, RealDisk, sync_path
from millstream.store.log.engine import CHECKPOINT_BYTES, MAX_UNSAVED_BYTES, LogEngine
from millstream.store.log.files.layout import FOLDER as STREAM_FOLDER
from millstream.store.log.files.packs import FOLDER as PACK_FOLDER
from millstream.store.log.files.staged import FOLDER as PART_FOLDER
from millstream.store.log.reserve import Reserve, sizes_for
from millstream.store.log.runtime import Runtime
from millstream.store.log.saving import guard
from millstream.store.log.saving.guard import Guard, remove_leftovers
from millstream.store.log.wal.commit import CommitThread, Outcome
from millstream.store.log.wal.segments import FOLDER as LOG_FOLDER
from millstream.store.log.wal.segments import DamagedError, Log
from millstream.store.table import Table

CATALOG = "catalog.db"
LOCK = "LOCK"
MIGRATION = "MIGRATION"
"""A file of this name says that a migration into the folder is not finished."""
SEGMENT_BYTES = 32 * 2**20
_SHARE = 16
"""A segment, and what waits for a checkpoint, is at most this part of a small disk: it must hold several."""
_LEAST_SHARE_BYTES = 2**20

_OURS = (
    LOCK,
    guard.NAME,
    CATALOG,
    f"{CATALOG}-wal",
    f"{CATALOG}-shm",
    SUMS,
    LOG_FOLDER,
    STREAM_FOLDER,
    PART_FOLDER,
    PACK_FOLDER,
)


class CannotOpenError(StoreError):
    """A data folder cannot be used; the message says why. Nothing in it was changed or deleted."""


def folder_store(
    folder: Path,
    *,
    durable: bool = True,
    segment_bytes: int = SEGMENT_BYTES,
    reserve_bytes: int = 0,
    max_unsaved_bytes: int = MAX_UNSAVED_BYTES,
    memory_bytes: int = 0,
    may_be_unfinished: bool = False,
) -> Table:
    """Make a store on a folder of this machine, and lock the folder until the store is closed.

    The streams in memory may take `memory_bytes`; 0 stands for a share of the machine's memory. A folder into
    which a migration is not finished is refused, unless it `may_be_unfinished`.
    """
    with explained(folder), contextlib.ExitStack() as undo:
        _make(folder, durable=durable)
        undo.callback(os.close, lock(folder))
        if (folder / MIGRATION).exists() and not may_be_unfinished:
            raise CannotOpenError(
                f"a migration into {folder} is not finished. Run it again: `millstream migrate` goes on."
            )
        _make_private(folder)
        disk = RealDisk(folder, durable=durable)
        undo.callback(disk.close)
        checkpoint_guard = Guard(folder)
        undo.callback(checkpoint_guard.close)
        remove_leftovers(folder, checkpoint_guard)
        (folder / CATALOG).touch(FILE_MODE)  # SQLite gives its other files the mode of this one
        catalog = Catalog(folder / CATALOG)
        disk.sync_folder(".")
        loop = _Loop()
        runtime = Runtime(
            start_committer=loop.start_committer,
            in_background=_in_executor,
            call_on_loop=loop.call_soon_threadsafe,
            guard=checkpoint_guard,
            opening=partial(explained, folder),
            log_bytes=partial(sizes.log_bytes, folder),
            measure_sizes=partial(sizes.measure, folder),
        )
        share = max(_LEAST_SHARE_BYTES, disk.total_bytes() // _SHARE)
        checkpoint_bytes = min(CHECKPOINT_BYTES, max_unsaved_bytes // 3, share)
        log = Log(disk, min(segment_bytes, share), fills=durable)
        reserve = Reserve(disk, sizes_for(reserve_bytes, checkpoint_bytes))
        memory_bytes = memory_bytes or machine_memory.default_bytes()
        limits = checkpoint_bytes, max_unsaved_bytes, memory_bytes
        engine = LogEngine(disk, catalog, log, runtime, reserve, *limits)
        try:
            with catalog.naming_damage():
                table = Table(engine)
        except DamagedError:
            catalog.close()
            raise
        runtime.release = undo.pop_all().close
    return table


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn any error of opening a folder into one that names the folder."""
    try:
        yield
    except DamagedError as error:
        raise CannotOpenError(f"{folder} cannot be opened: {error}") from error
    except sqlite3.Error as error:
        raise CannotOpenError(f"{folder} cannot be opened: {CATALOG}: {error}") from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CannotOpenError(f"{folder} cannot be opened: {where}{error.strerror or error}") from error


def lock(folder: Path) -> int:
    """Keep other processes out of a folder, until the descriptor is closed."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise CannotOpenError(f"{folder} is in use by another server.") from None
    return descriptor


def _make(folder: Path, *, durable: bool) -> None:
    """Make a folder and those above it, durably."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    if durable:
        for path in missing:
            sync_path(path.parent)


def _make_private(folder: Path) -> None:
    """Take from others what a former version let them read or lock; the folder itself stays as it is."""
    for path in (folder / name for name in _OURS):
        if path.exists() and path.stat().st_mode & 0o077:
            with contextlib.suppress(PermissionError):  # it has another owner, who decides
                path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)


class _Loop:
    """The event loop of the store; threads may have something to say after it was closed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def start_committer(self, log: Log, report: Callable[[Outcome], None]) -> CommitThread:
        """Start the thread that commits; the store is being opened on its event loop."""
        self._loop = asyncio.get_running_loop()
        return CommitThread(log, report, self)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call back in the next turn."""
        assert self._loop is not None  # the store is open
        self._loop.call_soon(call)

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        """Call back on the loop, if it is still open."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


def _in_executor(job: Callable[[], None], report: Callable[[BaseException | None], None]) -> None:
    running = asyncio.get_running_loop().run_in_executor(None, job)
    running.add_done_callback(lambda done: report(done.exception()))
