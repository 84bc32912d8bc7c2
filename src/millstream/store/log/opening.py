"""Opening a data folder: lock it, find its parts, and put the engine together on this machine."""

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from millstream.store.base import StoreError
from millstream.store.log.catalog import Catalog
from millstream.store.log.commit import CommitThread, Outcome
from millstream.store.log.disk import RealDisk
from millstream.store.log.engine import LogStore, Runtime
from millstream.store.log.segments import Log

SEGMENT_BYTES = 32 * 2**20


class FolderInUseError(StoreError):
    """Another process has the data folder open."""


class FolderStore(LogStore):
    """The durable engine on a folder of this machine."""

    def __init__(self, folder: Path, *, durable: bool = True, segment_bytes: int = SEGMENT_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(folder)
        disk = RealDisk(folder, durable=durable)
        runtime = Runtime(_start_commit_thread, _in_executor)
        super().__init__(disk, Catalog(folder / "catalog.db"), Log(disk, segment_bytes), runtime)

    async def close(self) -> None:
        """Finish, and let another process have the folder."""
        await super().close()
        os.close(self._lock)


def _lock(folder: Path) -> int:
    descriptor = os.open(folder / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FolderInUseError(f"{folder} is in use by another server.") from None
    return descriptor


def _start_commit_thread(log: Log, report: Callable[[Outcome], None]) -> CommitThread:
    loop = asyncio.get_running_loop()
    return CommitThread(log, lambda outcome: _tell(loop, report, outcome))


def _tell(loop: asyncio.AbstractEventLoop, report: Callable[[Outcome], None], outcome: Outcome) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(report, outcome)


def _in_executor(job: Callable[[], None], report: Callable[[BaseException | None], None]) -> None:
    running = asyncio.get_running_loop().run_in_executor(None, job)
    running.add_done_callback(lambda done: report(done.exception()))
