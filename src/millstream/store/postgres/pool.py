"""A pool of connections: the one that was used last is used next, so that what is not needed becomes idle.

asyncpg has one that does more for each use (a task, two timers, a proxy for each method), which takes longer
than a short statement. Nothing of that is needed here: whoever uses a connection leaves nothing behind, and
gives it back soon.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

_IDLE_S: Final = 300.0


class Pool:
    """Connections that are used in turns."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], most: int, patience_s: float) -> None:
        self._connect = connect
        self._most = most
        self._patience_s = patience_s
        self._places = asyncio.Semaphore(most)
        self._idle: list[tuple[Any, float]] = []  # and since when; what was used last is at the end
        self._used: set[Any] = set()
        self._is_closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Give a connection, to each in turn; one that was cut short is not used again."""
        await self._wait_for_place()
        try:
            connection = self._newest_idle() or await self._connect()
            self._used.add(connection)
            try:
                yield connection
            except asyncio.CancelledError:
                connection.terminate()  # the answer is still to come
                raise
            finally:
                self._used.remove(connection)
                self._keep(connection)
        finally:
            self._places.release()

    async def _wait_for_place(self) -> None:
        if self._is_closed:
            raise asyncpg.InterfaceError("the connections are closed")
        if self._places.locked():
            async with asyncio.timeout(self._patience_s):
                await self._places.acquire()
        else:
            await self._places.acquire()

    def _newest_idle(self) -> Any:
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _keep(self, connection: Any) -> None:
        now_s = time.monotonic()
        if not connection.is_closed():
            if self._is_closed or connection.is_in_transaction():
                connection.terminate()
            else:
                self._idle.append((connection, now_s))
        while self._idle and self._idle[0][1] < now_s - _IDLE_S:
            self._idle.pop(0)[0].terminate()

    async def close(self) -> None:
        """Close all connections when they are given back; cut those that are not soon enough."""
        self._is_closed = True
        try:
            async with asyncio.timeout(self._patience_s):
                for _ in range(self._most):
                    await self._places.acquire()
                for connection, _ in self._idle:
                    await connection.close()
        except Exception:  # the database may be gone: nothing is left to be finished
            for connection in (*self._used, *(connection for connection, _ in self._idle)):
                connection.terminate()
