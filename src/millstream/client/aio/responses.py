"""Responses of the async shell: read everything, iterate, or subscribe. The twin of sync/responses."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Self, TypeVar

from millstream.client.aio.driving import Drive, settled
from millstream.client.core.endpoints import Endpoint
from millstream.client.core.exchanges import ContentChunk, Started
from millstream.client.core.models import ByteChunk, JsonBatch, TextChunk
from millstream.client.core.plans.reading import Reader
from millstream.client.core.responses import ResponseView, byte_chunk, text_chunks
from millstream.client.core.transport import AsyncTransport
from millstream.client.http.aio_sockets import shared_client

M = TypeVar("M")


class Opening:
    """A response that is not open yet: await it or enter it."""

    def __init__(self, endpoint: Endpoint, reader: Reader, transport: AsyncTransport | None) -> None:
        self._endpoint = endpoint
        self._reader = reader
        self._transport = transport
        self._response: StreamResponse | None = None

    async def _open(self) -> "StreamResponse":
        response = StreamResponse(self._endpoint, self._reader, self._transport or shared_client())
        await response._start()
        return response

    def __await__(self) -> Generator[Any, None, "StreamResponse"]:
        return self._open().__await__()

    async def __aenter__(self) -> "StreamResponse":
        self._response = await self._open()
        return self._response

    async def __aexit__(self, *_: object) -> None:
        if self._response is not None:
            await self._response.cancel()


class StreamResponse(ResponseView):
    """One read of a stream. Use one of its methods, once; iterators end at EOF.

    >>> ending = log.close({"event": "end"})
    >>> async def read():
    ...     async with stream(url) as response:
    ...         return [event async for event in response.iter_json()], response.stream_closed
    >>> asyncio.run(read())
    ([{'event': 'end'}], True)
    """

    def __init__(self, endpoint: Endpoint, reader: Reader, transport: AsyncTransport) -> None:
        super().__init__(endpoint.url, reader)
        self._drive = Drive(transport, reader.plan())
        self._subscription: Subscription | None = None
        self._ahead: ContentChunk | None = None

    async def _start(self) -> None:
        first = await self._drive.next()
        if isinstance(first, ContentChunk):
            self._ahead = first

    # -- Everything there is -----------------------------------------------------------------

    async def read_bytes(self) -> bytes:
        """Return all bytes up to the stream's current tail."""
        self._consume("read_bytes")
        return b"".join([chunk.data async for chunk in self._until_up_to_date()])

    async def read_text(self) -> str:
        """Return all text up to the stream's current tail."""
        self._consume("read_text")
        return b"".join([chunk.data async for chunk in self._until_up_to_date()]).decode(errors="replace")

    async def read_json(self) -> list[Any]:
        """Return all messages up to the stream's current tail."""
        self._consume("read_json")
        return [item async for chunk in self._until_up_to_date() for item in self._json_batch(chunk).items]

    # -- One by one ----------------------------------------------------------------------------

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over bytes as they arrive."""
        self._consume("iter_bytes")
        return self._shown(lambda chunk: [chunk.data] if chunk.data else [])

    def iter_text(self) -> AsyncIterator[str]:
        """Iterate over text as it arrives, in whole characters."""
        self._consume("iter_text")
        show = text_chunks()
        return self._shown(lambda chunk: [text] if (text := show(chunk).data) else [])

    def iter_json(self) -> AsyncIterator[Any]:
        """Iterate over messages."""
        self._consume("iter_json")
        return self._shown(lambda chunk: self._json_batch(chunk).items)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.iter_bytes()

    # -- With offsets --------------------------------------------------------------------------

    def iter_json_batches(self) -> AsyncIterator[JsonBatch[Any]]:
        """Iterate over batches of messages, each with the offset after it, to resume from."""
        self._consume("iter_json_batches")
        return self._shown(lambda chunk: [self._json_batch(chunk)])

    def iter_byte_chunks(self) -> AsyncIterator[ByteChunk]:
        """Iterate over chunks of bytes, each with the offset after it, to resume from."""
        self._consume("iter_byte_chunks")
        return self._shown(lambda chunk: [byte_chunk(chunk)])

    def iter_text_chunks(self) -> AsyncIterator[TextChunk]:
        """Iterate over chunks of text, each with the offset after it, to resume from."""
        self._consume("iter_text_chunks")
        show = text_chunks()
        return self._shown(lambda chunk: [show(chunk)])

    # -- In the background -----------------------------------------------------------------------

    def subscribe_json(self, callback: Callable[[JsonBatch[Any]], Awaitable[None] | None]) -> "Subscription":
        """Call back with each batch, in a task; the next is read when the callback is done."""
        self._consume("subscribe_json")
        return self._subscribe(self._json_batch, callback)

    def subscribe_bytes(self, callback: Callable[[ByteChunk], Awaitable[None] | None]) -> "Subscription":
        """Call back with each chunk, in a task; the next is read when the callback is done."""
        self._consume("subscribe_bytes")
        return self._subscribe(byte_chunk, callback)

    def subscribe_text(self, callback: Callable[[TextChunk], Awaitable[None] | None]) -> "Subscription":
        """Call back with each chunk, in a task; the next is read when the callback is done."""
        self._consume("subscribe_text")
        return self._subscribe(text_chunks(), callback)

    # -- The end ---------------------------------------------------------------------------------

    async def cancel(self) -> None:
        """Stop reading. Iterators end."""
        self._drive.cancel()
        if self._subscription is not None:
            await self._subscription._join()
        with contextlib.suppress(ValueError):  # another task runs the plan, and closes it when it wakes
            self._drive.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cancel()

    def __del__(self) -> None:
        if hasattr(self, "_drive"):
            with contextlib.suppress(ValueError, RuntimeError):  # in use, or its loop is closed
                self._drive.close()

    async def _chunks(self) -> AsyncGenerator[ContentChunk, None]:
        try:
            if self._ahead is not None:
                first, self._ahead = self._ahead, None
                yield first
            while (chunk := await self._drive.next()) is not None:
                if not isinstance(chunk, Started):
                    yield chunk
        finally:
            self._drive.close()

    async def _until_up_to_date(self) -> AsyncGenerator[ContentChunk, None]:
        async with contextlib.aclosing(self._chunks()) as chunks:
            async for chunk in chunks:
                yield chunk
                if chunk.up_to_date:
                    break

    async def _shown(self, show: Callable[[ContentChunk], list[M]]) -> AsyncGenerator[M, None]:
        async with contextlib.aclosing(self._chunks()) as chunks:
            async for chunk in chunks:
                for one in show(chunk):
                    yield one

    def _subscribe(
        self, show: Callable[[ContentChunk], M], callback: Callable[[M], Awaitable[None] | None]
    ) -> "Subscription":
        async def handle(chunk: ContentChunk) -> None:
            await settled(callback(show(chunk)))

        self._subscription = Subscription(self._drive, self._chunks(), handle)
        return self._subscription


class Subscription:
    """A read that runs in the background until it ends or is cancelled.

    >>> ending, seen = log.close("last"), []
    >>> async def read():
    ...     async with stream(url) as response:
    ...         await response.subscribe_json(lambda batch: seen.extend(batch.items)).wait(timeout=5)
    >>> asyncio.run(read())
    >>> seen
    ['last']
    """

    def __init__(
        self,
        drive: Drive,
        chunks: AsyncGenerator[ContentChunk, None],
        handle: Callable[[ContentChunk], Awaitable[None]],
    ) -> None:
        self._drive = drive
        self._error: BaseException | None = None
        self._task = asyncio.get_running_loop().create_task(self._work(chunks, handle))

    @property
    def done(self) -> bool:
        """Whether nothing more will be delivered."""
        return self._task.done()

    async def wait(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (as the sync twin)
        """Wait for the end; raises any error of the read or the callback."""
        async with asyncio.timeout(timeout):
            await asyncio.shield(self._task)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    async def cancel(self) -> None:
        """Stop reading; a running callback finishes first."""
        self._drive.cancel()
        await self._join()

    async def _join(self) -> None:
        if asyncio.current_task() is not self._task:
            await asyncio.wait([self._task])

    async def _work(
        self, chunks: AsyncGenerator[ContentChunk, None], handle: Callable[[ContentChunk], Awaitable[None]]
    ) -> None:
        try:
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    await handle(chunk)
                    if self._drive.scope.cancelled.is_set():
                        break
        except Exception as error:  # raised by `wait`
            self._error = error
