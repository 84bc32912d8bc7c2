"""Pumping for the sync producer: a thread with an event loop, on which the Pump of aio/ runs.

A producer pipelines batches, so it needs concurrency whichever shell it belongs to. There is one
engine, `millstream.client.aio.pumping`, and this module lets blocking code use it.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from millstream.client.core.transport import (
    Answer,
    AsyncDownload,
    AsyncTransport,
    CancelScope,
    Request,
    Transport,
)
from millstream.client.http import aio_sockets
from millstream.client.http.sync_sockets import HttpClient

R = TypeVar("R")


class LoopThread:
    """A thread that runs an event loop, and closes the connections that `transport` has on it."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.loop = asyncio.new_event_loop()
        self._transport = transport
        self._thread = threading.Thread(
            target=_serve, args=(self.loop,), name="millstream-producer", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the loop, wait for it and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self) -> None:
        """Stop the loop and cancel its tasks."""
        self.loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if isinstance(self._transport, aio_sockets.HttpClient):
            self._transport.drop_idle()
        self.loop.stop()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def async_transport(transport: Transport) -> AsyncTransport:
    """Return the asyncio counterpart of a blocking transport."""
    if isinstance(transport, HttpClient):
        return aio_sockets.HttpClient(
            tls=transport._tls,
            connect_timeout_s=transport._connect_timeout_s,
            trust_env=transport._trust_env,
        )
    return ThreadedTransport(transport)


class ThreadedTransport:
    """A blocking transport, usable from an event loop: each call runs in a thread."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and return the complete response."""
        return await asyncio.to_thread(self._transport.send, request, scope)

    async def open(self, request: Request, scope: CancelScope | None = None) -> AsyncDownload:
        """Producers do not read."""
        raise NotImplementedError
