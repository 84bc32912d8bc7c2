"""Receivers of webhooks that behave as told, in the test's own event loop."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """A listener: where it is, and what it has got."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections = 0
        self.requests: list[bytes] = []
        self.sent_bytes = 0


@contextlib.asynccontextmanager
async def receiver(
    behave: Callable[[Receiver], Behaviour],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Receiver]:
    """Listen; whatever still runs is ended at the end."""
    tasks: set[asyncio.Task[None]] = set()
    found = Receiver(port)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        found.connections += 1
        with contextlib.suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            await behave(found)(reader, writer)
        writer.transport.abort()
        tasks.discard(task)

    server = await asyncio.start_server(serve, host, port, ssl=tls)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(*answers: bytes) -> Callable[[Receiver], Behaviour]:
    """Take the request, send these bytes one after the other, and close."""

    def behave(found: Receiver) -> Behaviour:
        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            found.requests.append(head + await reader.readexactly(length))
            for answer in answers:
                writer.write(answer)
                await writer.drain()
                await asyncio.sleep(0)
            writer.write_eof() if writer.can_write_eof() else writer.close()
            await reader.read()

        return run

    return behave


def endless(start: bytes, repeated: bytes, pause_s: float = 0) -> Callable[[Receiver], Behaviour]:
    """Send something again and again until the connection ends."""

    def behave(found: Receiver) -> Behaviour:
        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(start)
            while True:
                writer.write(repeated)
                await writer.drain()
                found.sent_bytes += len(repeated)
                await asyncio.sleep(pause_s)

        return run

    return behave


def silent(found: Receiver) -> Behaviour:
    """Accept and say nothing."""

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    return run
