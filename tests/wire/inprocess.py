"""The native server on this process's event loop: for looking inside and for moving its clock."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from millstream.server.http.connection import Connection
from millstream.server.http.server import NativeServer
from millstream.server.routes.dispatch import Routes
from millstream.server.run import running_routes
from millstream.server.settings import Settings
from millstream.store.memory import memory_store

PATIENCE_S = 60.0


class Client:
    """One connection to the server, on the same loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> bytes:
        """Read a response up to its body."""
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)

    async def status(self) -> int:
        return int((await self.head()).split(b" ", 2)[1])

    async def rest(self) -> bytes:
        """Read until the server hangs up."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE_S)


class Served:
    """A running server and its insides."""

    def __init__(self, native: NativeServer, routes: Routes, port: int) -> None:
        self.native = native
        self.routes = routes
        self.live = routes.live
        self.port = port
        self._now_s = 0.0
        self._clients: list[Client] = []

    async def connect(self) -> Client:
        """Connect, and wait until the server has noticed."""
        count = len(self.native.connections)
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self._clients.append(client)
        await until(lambda: len(self.native.connections) == count + 1)
        return client

    def pass_time(self, seconds: float) -> None:
        """Let time pass for connections; the live readers' own clock goes on as it does."""
        while seconds > 1:
            self._tick(1)
            seconds -= 1
        self._tick(seconds)

    def hold_up(self, seconds: float) -> None:
        """Let time pass in which the event loop did nothing."""
        self._tick(seconds)

    def _tick(self, seconds: float) -> None:
        self._now_s += seconds
        self.native.tick(self._now_s)

    @property
    def now_s(self) -> float:
        return self.native.now_s

    def close_clients(self) -> None:
        for client in self._clients:
            client.writer.close()


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Served]:
    """Serve from memory on a free port."""
    async with (
        running_routes(
            Settings(store="memory", port=0, allowed_hosts=("h",), **settings), memory_store()
        ) as routes,
        serving_routes(routes) as served,
    ):
        yield served


@asynccontextmanager
async def serving_routes(routes: Routes) -> AsyncIterator[Served]:
    """Serve routes that somebody else has made."""
    loop = asyncio.get_running_loop()
    native = NativeServer(routes, scheme=b"http")
    listener = await loop.create_server(lambda: Connection(native, loop), "127.0.0.1", 0)
    served = Served(native, routes, listener.sockets[0].getsockname()[1])
    try:
        yield served
    finally:
        listener.close()
        served.close_clients()
        for connection in list(native.connections):
            connection._transport.abort()
        await until(lambda: not native.connections)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to be so."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  what is waited for has no event of its own
            await asyncio.sleep(0.002)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test on the loop that the server uses."""
    uvloop.run(main)
