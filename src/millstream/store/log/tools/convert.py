"""Converts a data folder that no server uses to the format of this version, all at once.

A server does the same in the background, some streams at a time. Either may be killed at any moment: a
stream is in the former format or in this one, as the catalog says, and the next start or conversion goes on.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from millstream.store.log.engine import LogEngine
from millstream.store.log.opening import CannotOpenError, folder_store


def convert(folder: Path, progress: Callable[[int], None]) -> int:
    """Convert all streams, and give how many were; `progress` is told now and then."""
    if not (folder / "LOCK").exists():
        raise CannotOpenError(f"{folder} is not a data folder.")
    return asyncio.run(_convert(folder, progress))


async def _convert(folder: Path, progress: Callable[[int], None]) -> int:
    store = folder_store(folder)
    await store.open()
    count = 0
    try:
        assert isinstance(store.engine, LogEngine)  # a folder has no other
        async for count in store.engine.convert():
            progress(count)
    finally:
        await store.close()
    return count
