"""Many readers of one stream while several writers append as fast as they are answered.

Every message names its writer and its number. Each reader checks that the messages of each writer come in
their order, none twice, and at the end that it has got all of them.
"""

import asyncio
import re
from typing import cast
from urllib.parse import urlsplit

_MESSAGE = re.compile(rb"@(\d)(\d{6})#")
_CONNECTING_AT_ONCE = 100
_PATIENCE_S = 300.0


class Reader(asyncio.Protocol):
    """One event stream."""

    def __init__(self, request: bytes, writers: int, messages: int) -> None:
        loop = asyncio.get_running_loop()
        self._request = request
        self._expected = [0] * writers
        self._missing = writers * messages
        self._cut = b""  # a message that has not arrived whole
        self.is_live = loop.create_future()
        self.is_done = loop.create_future()
        self._is_lost = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.is_live.done():
            self.is_live.set_result(None)
        data = self._cut + data
        end = 0
        for message in _MESSAGE.finditer(data):
            writer, number, end = int(message[1]), int(message[2]), message.end()
            if number != self._expected[writer]:
                expected = self._expected[writer]
                self._fail(f"message {number} of writer {writer} came instead of {expected}")
                return
            self._expected[writer] += 1
            self._missing -= 1
        self._cut = data[max(end, len(data) - 8) :]
        if not self._missing and not self.is_done.done():
            self.is_done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost.set_result(None)
        if self._missing:
            self._fail(f"the connection was lost, with {self._missing} messages missing")

    async def leave(self) -> None:
        """Close the connection, and wait until it is."""
        self._transport.abort()
        await self._is_lost

    def _fail(self, reason: str) -> None:
        for future in (self.is_live, self.is_done):
            if not future.done():
                future.set_exception(AssertionError(reason))


async def _write(address: tuple[str, int], head: str, writer: int, messages: int) -> None:
    reader, connection = await asyncio.open_connection(*address)
    for number in range(messages):
        message = f"@{writer}{number:06}#"
        connection.write(f"{head}Content-Length: {len(message)}\r\n\r\n{message}".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 204"), answer
    connection.close()
    await connection.wait_closed()


async def deliver(url: str, path: str, *, readers: int, writers: int, messages: int) -> None:
    """Let every reader get every message of every writer, or fail."""
    place = urlsplit(url)
    address = place.hostname or "", place.port or 0
    loop = asyncio.get_running_loop()
    request = f"GET {path}?offset=now&live=sse HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
    crowd: list[Reader] = []
    async with asyncio.timeout(_PATIENCE_S):
        while len(crowd) < readers:
            batch = [
                loop.create_connection(lambda: Reader(request, writers, messages), *address)
                for _ in range(min(_CONNECTING_AT_ONCE, readers - len(crowd)))
            ]
            joined = [reader for _, reader in await asyncio.gather(*batch)]
            await asyncio.gather(*(reader.is_live for reader in joined))
            crowd += joined
        head = f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: text/plain\r\n"
        await asyncio.gather(*(_write(address, head, writer, messages) for writer in range(writers)))
        await asyncio.gather(*(reader.is_done for reader in crowd))
        await asyncio.gather(*(reader.leave() for reader in crowd))
