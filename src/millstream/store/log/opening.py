"""Opening a data folder: lock it, find its parts, and put the engine together on this machine."""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from millstream.store.base import StoreError
from millstream.store.log import sizes
from millstream.store.log.catalog import Catalog
from millstream.store.log.disk import RealDisk, sync_path
from millstream.store.log.engine import LogStore
from millstream.store.log.guard import Guard
from millstream.store.log.runtime import Runtime
from millstream.store.log.tools.backup_links import remove_leftovers
from millstream.store.log.wal.commit import CommitThread, Outcome
from millstream.store.log.wal.company import Company
from millstream.store.log.wal.segments import DamagedError, Log
from millstream.store.measures import Sizes

CATALOG = "catalog.db"
LOCK = "LOCK"
SEGMENT_BYTES = 32 * 2**20


class CannotOpenError(StoreError):
    """A data folder cannot be used; the message says why. Nothing in it was changed or deleted."""


class FolderStore(LogStore):
    """The durable engine on a folder of this machine."""

    def __init__(self, folder: Path, *, durable: bool = True, segment_bytes: int = SEGMENT_BYTES) -> None:
        with explained(folder), contextlib.ExitStack() as undo:
            _make(folder, durable=durable)
            self._lock = lock(folder)
            undo.callback(os.close, self._lock)
            self._real_disk = disk = RealDisk(folder, durable=durable)
            undo.callback(disk.close)
            self._checkpoint_guard = Guard(folder)
            undo.callback(self._checkpoint_guard.close)
            remove_leftovers(folder, self._checkpoint_guard)
            catalog = Catalog(folder / CATALOG)
            disk.sync_folder(".")
            undo.pop_all()
        self._folder = folder
        log = Log(disk, segment_bytes, fills=durable)
        runtime = Runtime(self._start_commit_thread, _in_executor, self._checkpoint_guard)
        super().__init__(disk, catalog, log, runtime)

    async def open(self) -> None:
        """Recover what was kept, and begin to commit."""
        try:
            with explained(self._folder):
                await super().open()
        except CannotOpenError:
            self._log.close()
            self._files.close()
            self._catalog.close()
            self._let_go()
            raise

    async def close(self) -> None:
        """Finish, and let another process have the folder."""
        try:
            await super().close()
        finally:
            self._let_go()

    def log_bytes(self) -> int:
        """How large the log is that a start would read."""
        return sizes.log_bytes(self._folder)

    def measure_sizes(self) -> Sizes:
        """Look how much room the folder takes."""
        return sizes.measure(self._folder)

    def _start_commit_thread(self, log: Log, report: Callable[[Outcome], None]) -> CommitThread:
        turns = LoopTurns(asyncio.get_running_loop())
        company = Company(lambda: self.count_reads())  # which the server sets after the store is open
        return CommitThread(log, report, turns, company)

    def _let_go(self) -> None:
        self._real_disk.close()
        self._checkpoint_guard.close()
        os.close(self._lock)


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn whatever keeps a folder from being opened into one error that names it."""
    try:
        yield
    except (DamagedError, sqlite3.Error) as error:
        raise CannotOpenError(f"{folder} cannot be opened: {error}") from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CannotOpenError(f"{folder} cannot be opened: {where}{error.strerror or error}") from error


def lock(folder: Path) -> int:
    """Keep other processes out of a folder, until the descriptor is closed."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise CannotOpenError(f"{folder} is in use by another server.") from None
    return descriptor


def _make(folder: Path, *, durable: bool) -> None:
    """Make a folder and those above it, durably."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if durable:
        for path in missing:
            sync_path(path.parent)


class LoopTurns:
    """The turns of an event loop that may be closed before the thread has told all."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.call_soon = loop.call_soon

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        """Call back on the loop, if it is still there."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


def _in_executor(job: Callable[[], None], report: Callable[[BaseException | None], None]) -> None:
    running = asyncio.get_running_loop().run_in_executor(None, job)
    running.add_done_callback(lambda done: report(done.exception()))
