"""Responses of the sync shell: read everything, iterate, or subscribe. The twin of aio/responses."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from millstream.client.core.endpoints import Endpoint
from millstream.client.core.exchanges import ContentChunk, Started
from millstream.client.core.models import ByteChunk, JsonBatch, TextChunk
from millstream.client.core.plans.reading import Reader
from millstream.client.core.responses import ResponseView, byte_chunk, flatten, text_chunks
from millstream.client.core.transport import Transport
from millstream.client.sync.driving import Cancellable, Drive

M = TypeVar("M")


class StreamResponse(Cancellable, ResponseView):
    """One read of a stream. Use one of its methods, once; iterators end at EOF.

    >>> log.close({"event": "end"}).final_offset[-2:]
    '16'
    >>> with log.stream() as response:
    ...     response.read_json(), response.up_to_date, response.stream_closed
    ([{'event': 'end'}], True, True)
    """

    def __init__(self, endpoint: Endpoint, reader: Reader, transport: Transport) -> None:
        super().__init__(endpoint.url, reader)
        self._drive = Drive(transport, reader.plan())
        self._subscription: Subscription | None = None
        self._ahead: ContentChunk | None = None
        first = self._drive.next()
        if isinstance(first, ContentChunk):
            self._ahead = first

    # -- Everything there is -----------------------------------------------------------------

    def read_bytes(self) -> bytes:
        """Return all bytes up to the stream's current tail."""
        self._consume("read_bytes")
        return b"".join(chunk.data for chunk in self._until_up_to_date())

    def read_text(self) -> str:
        """Return all text up to the stream's current tail."""
        self._consume("read_text")
        return b"".join(chunk.data for chunk in self._until_up_to_date()).decode(errors="replace")

    def read_json(self) -> list[Any]:
        """Return all messages up to the stream's current tail."""
        self._consume("read_json")
        return [item for chunk in self._until_up_to_date() for item in self._json_batch(chunk).items]

    # -- One by one ----------------------------------------------------------------------------

    def iter_bytes(self) -> Iterator[bytes]:
        """Iterate over bytes as they arrive."""
        self._consume("iter_bytes")
        return (chunk.data for chunk in self._chunks() if chunk.data)

    def iter_text(self) -> Iterator[str]:
        """Iterate over text as it arrives, in whole characters."""
        self._consume("iter_text")
        show = text_chunks()
        return (chunk.data for chunk in map(show, self._chunks()) if chunk.data)

    def iter_json(self) -> Iterator[Any]:
        """Iterate over messages."""
        self._consume("iter_json")
        return flatten(map(self._json_batch, self._chunks()))

    def __iter__(self) -> Iterator[bytes]:
        return self.iter_bytes()

    # -- With offsets --------------------------------------------------------------------------

    def iter_json_batches(self) -> Iterator[JsonBatch[Any]]:
        """Iterate over batches of messages, each with the offset after it, to resume from."""
        self._consume("iter_json_batches")
        return map(self._json_batch, self._chunks())

    def iter_byte_chunks(self) -> Iterator[ByteChunk]:
        """Iterate over chunks of bytes, each with the offset after it, to resume from."""
        self._consume("iter_byte_chunks")
        return map(byte_chunk, self._chunks())

    def iter_text_chunks(self) -> Iterator[TextChunk]:
        """Iterate over chunks of text, each with the offset after it, to resume from."""
        self._consume("iter_text_chunks")
        return map(text_chunks(), self._chunks())

    # -- In the background -----------------------------------------------------------------------

    def subscribe_json(self, callback: Callable[[JsonBatch[Any]], None]) -> "Subscription":
        """Call back with each batch, in a thread; the next is read when the callback returns."""
        self._consume("subscribe_json")
        return self._subscribe(self._json_batch, callback)

    def subscribe_bytes(self, callback: Callable[[ByteChunk], None]) -> "Subscription":
        """Call back with each chunk, in a thread; the next is read when the callback returns."""
        self._consume("subscribe_bytes")
        return self._subscribe(byte_chunk, callback)

    def subscribe_text(self, callback: Callable[[TextChunk], None]) -> "Subscription":
        """Call back with each chunk, in a thread; the next is read when the callback returns."""
        self._consume("subscribe_text")
        return self._subscribe(text_chunks(), callback)

    # -- The end ---------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Stop reading, from any thread. Iterators end."""
        self._drive.scope.cancel()
        if self._subscription is not None:
            self._subscription._join()
        with contextlib.suppress(ValueError):  # another thread runs the plan, and closes it when it wakes
            self._drive.close()

    def _chunks(self) -> Iterator[ContentChunk]:
        try:
            if self._ahead is not None:
                first, self._ahead = self._ahead, None
                yield first
            while (chunk := self._drive.next()) is not None:
                if not isinstance(chunk, Started):
                    yield chunk
        finally:
            self._drive.close()

    def _until_up_to_date(self) -> Iterator[ContentChunk]:
        for chunk in self._chunks():
            yield chunk
            if chunk.up_to_date:
                break

    def _subscribe(self, show: Callable[[ContentChunk], M], callback: Callable[[M], None]) -> "Subscription":
        self._subscription = Subscription(self._drive, self._chunks(), lambda chunk: callback(show(chunk)))
        return self._subscription


class Subscription:
    """A read that runs in the background until it ends or is cancelled.

    >>> seen = []
    >>> with stream(url) as response:
    ...     subscription = response.subscribe_json(lambda batch: seen.extend(batch.items))
    ...     ending = log.close("last")
    ...     subscription.wait(timeout=5)
    >>> seen
    ['last']
    """

    def __init__(
        self, drive: Drive, chunks: Iterator[ContentChunk], handle: Callable[[ContentChunk], None]
    ) -> None:
        self._drive = drive
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(chunks, handle), daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether nothing more will be delivered."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end; raises any error of the read or the callback."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"the subscription did not end within {timeout} s")
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def cancel(self) -> None:
        """Stop reading; a running callback finishes first."""
        self._drive.scope.cancel()
        self._join()

    def _join(self) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self, chunks: Iterator[ContentChunk], handle: Callable[[ContentChunk], None]) -> None:
        try:
            for chunk in chunks:
                handle(chunk)
                if self._drive.scope.cancelled.is_set():
                    break
        except BaseException as error:  # raised by `wait`
            self._error = error
        finally:
            self._drive.close()
