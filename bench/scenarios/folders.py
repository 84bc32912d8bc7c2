"""Data folders of many streams: filled by the engine itself, served by a real server, measured on the disk.

The engine makes a hundred thousand streams in seconds; a server that is asked one by one would take minutes.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path

from bench.scenarios.streams import PATH, TEXT
from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.requests import CreateRequest
from millstream.store.log.opening import folder_store
from millstream.store.log.reserve import NAME as RESERVE
from millstream.store.log.wal.segments import FOLDER as LOG_FOLDER
from millstream.store.pending import Pending
from tests.running import Server, announced, started

AT_ONCE = 1_000
MEMORY_BYTES = 512 * 2**20
"""The budget where a server has one: a hundred thousand small streams fit, a million do not."""
_BYTES_EACH = 12 * 1024  # room for a stream of 1 KB in the format that takes the most: two files and a row
_FILES_EACH = 2
_SPARE_BYTES = 2 * 2**30

Count = Callable[[int], None]


def _ignore(_: int) -> None:
    """Nobody wants to know how many streams there are so far."""


async def fill(
    folder: Path, streams: int, content: bytes, lifetime: Lifetime = FOREVER, progress: Count = _ignore
) -> None:
    """Make streams with one message each, some at a time."""
    store = folder_store(folder, durable=False)
    await store.open()
    try:
        wanted = CreateRequest(body=content, content_type=TEXT.encode(), lifetime=lifetime)
        for first in range(0, streams, AT_ONCE):
            now_ms = int(time.time() * 1000)
            names = [f"{PATH}/{number}" for number in range(first, min(streams, first + AT_ONCE))]
            for creation in [store.create(name, wanted, now_ms) for name in names]:
                if isinstance(creation, Pending):
                    await creation
            store.expire(now_ms)  # lets it take its checkpoints
            progress(first)
    finally:
        await store.close()


def has_room(folder: Path, streams: int) -> bool:
    """Tell whether the disk of a folder has room for so many streams of 1 KB."""
    disk = os.statvfs(folder)
    has_files = disk.f_files == 0 or disk.f_favail >= streams * _FILES_EACH  # 0: no limit of its own
    return has_files and disk.f_bavail * disk.f_frsize >= streams * _BYTES_EACH + _SPARE_BYTES


def log_bytes(folder: Path) -> int:
    """What of that is the log and the reserve: they depend on the load, not on how many streams there are."""
    reserve_bytes = 0
    with suppress(FileNotFoundError):  # a small folder has none
        reserve_bytes = (folder / RESERVE).stat().st_blocks * 512
    return disk_bytes(folder / LOG_FOLDER) + reserve_bytes


def disk_bytes(folder: Path) -> int:
    """The room that a folder takes on its disk, as `du` counts it; a server may use it meanwhile."""
    total = 0
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                total += entry.stat(follow_symlinks=False).st_blocks * 512
            if entry.is_dir(follow_symlinks=False):
                total += disk_bytes(Path(entry.path))
    return total


@cache
def memory_options() -> tuple[str, ...]:
    """The option that limits a server's memory, if this version has it."""
    command = [sys.executable, "-m", "millstream", "serve", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return ("--memory-bytes", str(MEMORY_BYTES)) if "--memory-bytes" in text else ()


def serving(folder: Path) -> AbstractContextManager[Server]:
    """A server on the folder, however it ends."""
    command = [sys.executable, "-m", "millstream", "serve", "--port", "0", "--data", str(folder)]
    return started([*command, *memory_options()], announced)
