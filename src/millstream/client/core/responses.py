"""Responses: what both shells' `StreamResponse` share.

A response is read once, by one method. Its position moves when a chunk reaches the user.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from millstream.client.core import bodies
from millstream.client.core.errors import AlreadyConsumedError
from millstream.client.core.exchanges import ContentChunk
from millstream.client.core.models import ByteChunk, JsonBatch, LiveMode, TextChunk
from millstream.client.core.plans.reading import Reader
from millstream.protocol import headers

M = TypeVar("M")


class ResponseView:
    """The position of a read, and the last response's metadata."""

    def __init__(self, url: str, reader: Reader) -> None:
        self.url = url
        self._reader = reader
        self._consumed_by: str | None = None

    @property
    def content_type(self) -> str | None:
        """The stream's content type; unknown when only server-sent events were seen."""
        return self._reader.content_type

    @property
    def incarnation(self) -> str | None:
        """Which of the streams that this path had is read; another one after it was created again."""
        found = self._reader.headers.get(headers.STREAM_INCARNATION)
        return found.decode("latin-1") if found is not None else None

    @property
    def live(self) -> LiveMode:
        """How this response continues after catching up."""
        return self._reader.live

    @property
    def start_offset(self) -> str:
        """Where the read began; of a time, or of the last messages, the offset that the server found."""
        return self._reader.start_offset

    @property
    def offset(self) -> str:
        """Where to resume: after the last batch or chunk that was delivered."""
        return self._reader.offset

    @property
    def cursor(self) -> str | None:
        """The cursor for caches in between; the client echoes it by itself."""
        return self._reader.cursor

    @property
    def up_to_date(self) -> bool:
        """Whether everything in the stream was delivered."""
        return self._reader.up_to_date

    @property
    def stream_closed(self) -> bool:
        """Whether the end was reached: everything was delivered and nothing can follow."""
        return self._reader.stream_closed

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the last HTTP response, with lower-case names."""
        return {
            name.decode("latin-1"): value.decode("latin-1") for name, value in self._reader.headers.items()
        }

    @property
    def status(self) -> int:
        """The status of the last HTTP response."""
        return self._reader.status

    def _consume(self, method: str) -> None:
        if self._consumed_by is not None:
            raise AlreadyConsumedError(
                f"{method} came after {self._consumed_by}; open another response to read again", url=self.url
            )
        self._consumed_by = method

    def _json_batch(self, chunk: ContentChunk) -> JsonBatch[Any]:
        parts = [bodies.from_json(part, self.url) for part in chunk.parts]
        items = parts[0] if len(parts) == 1 else [item for part in parts for item in part]
        return JsonBatch(
            items, chunk.offset, chunk.up_to_date, chunk.cursor, chunk.stream_closed, chunk.last_time
        )


def byte_chunk(chunk: ContentChunk) -> ByteChunk:
    """Convert a chunk to bytes."""
    return ByteChunk(
        chunk.data, chunk.offset, chunk.up_to_date, chunk.cursor, chunk.stream_closed, chunk.last_time
    )


def text_chunks() -> Callable[[ContentChunk], TextChunk]:
    """Make a converter of chunks to text; a character split between chunks comes with the second."""
    decoder = bodies.TextDecoder()

    def show(chunk: ContentChunk) -> TextChunk:
        text = decoder.feed(chunk.data, final=chunk.stream_closed)
        return TextChunk(
            text, chunk.offset, chunk.up_to_date, chunk.cursor, chunk.stream_closed, chunk.last_time
        )

    return show


def flatten(batches: Iterator[JsonBatch[M]]) -> Iterator[M]:
    """Iterate over the messages of batches."""
    for batch in batches:
        yield from batch.items
