"""An event loop in a thread of its own, for the synchronous methods of what is written with `await`."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_starting = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_process = 0


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop, and wait for it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _running())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Iterate over what comes from the background loop, one at a time."""

    async def following() -> tuple[T] | None:
        try:
            return (await anext(items),)
        except StopAsyncIteration:
            return None

    try:
        while (item := run(following())) is not None:
            yield item[0]
    finally:
        run(items.aclose())


def _running() -> asyncio.AbstractEventLoop:
    """Return the loop; start it for the first call of a process. A fork has no threads but its own."""
    global _loop, _process
    with _starting:
        if _loop is None or _process != os.getpid():
            _loop, _process = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="millstream-agents", daemon=True).start()
        return _loop
