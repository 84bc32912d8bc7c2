"""The results that the client returns, and the types of its arguments."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec

from millstream.client.core import bodies

LiveMode = bool | Literal["long-poll", "sse"]
"""How to continue after catching up: not (False), the best way (True), long-polling, or SSE."""

Value = str | Callable[[], str | Awaitable[str]]
HeadersLike = Mapping[str, Value] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Headers: fixed, or computed for each request. Coroutine functions work in `millstream.aio`."""

OptionalValue = Value | None
ParamsLike = (
    Mapping[str, OptionalValue] | Callable[[], Mapping[str, str | None] | Awaitable[Mapping[str, str | None]]]
)
"""Query parameters, like headers; None omits one."""

Changes = Mapping[Literal["headers", "params"], Mapping[str, Any]]
OnError = Callable[[Exception], Changes | Awaitable[Changes | None] | None]
"""Called with an error that would end a read: return changes to retry with, or None to give up."""

Attributes = Mapping[str, str | int | float | bool | None]
"""What is noted about a stream, by name. In a change, None removes a name."""

T = TypeVar("T")


class CloseResult(msgspec.Struct, frozen=True):
    """A stream was closed: it ends at `final_offset`.

    >>> CloseResult(final_offset="0000000000000000_0000000000000005").final_offset[-1]
    '5'
    """

    final_offset: str


class AppendResult(msgspec.Struct, frozen=True):
    """An append was stored; the stream now ends at `next_offset`.

    `duplicate` is true when a producer's append had been stored before.

    >>> log.append({"n": 1}).next_offset
    '0000000000000000_0000000000000008'
    """

    next_offset: str
    stream_closed: bool = False
    duplicate: bool = False


class HeadResult(msgspec.Struct, frozen=True):
    """A stream's metadata, and the extensions that its server has.

    >>> log.head().content_type, log.head().stream_closed
    ('application/json', False)
    >>> "parts" in log.head().extensions
    True

    `retain_bytes` and `retain_seconds` are its retention limits, `earliest_offset` is the oldest offset
    that can be read; all are None for a stream that keeps everything. `first_time` and `last_time` are when
    the first append that is kept and the last one arrived; None for an empty stream. `start_offset` is the
    offset that the parameter `offset=time:...` or `offset=last:...` means, where one was given.
    `incarnation` differs once a stream was deleted and created again; `attributes` are what was noted about
    it.
    """

    content_type: str | None = None
    offset: str | None = None
    etag: str | None = None
    cache_control: str | None = None
    ttl_seconds: int | None = None
    expires_at: str | None = None
    stream_closed: bool = False
    exists: Literal[True] = True
    extensions: tuple[str, ...] = ()
    retain_bytes: int | None = None
    retain_seconds: int | None = None
    earliest_offset: str | None = None
    first_time: str | None = None
    last_time: str | None = None
    start_offset: str | None = None
    incarnation: str | None = None
    attributes: dict[str, Any] = {}


class TrimResult(msgspec.Struct, frozen=True):
    """A stream was trimmed: it begins at `earliest_offset` now, and ends where it did.

    >>> log.append_all(["old", "new"]).next_offset[-2:]
    '12'
    >>> log.trim(before="now").earliest_offset[-2:]
    '12'
    """

    earliest_offset: str
    next_offset: str


class JsonBatch(msgspec.Struct, Generic[T], frozen=True):
    """Messages that arrived together, and the reader's position after them.

    `stream_closed` implies `up_to_date`. The last batch may be empty and only report the end. `last_time` is
    when the last message before `offset` arrived, on servers that say it.

    >>> log.append_all([1, 2])
    AppendResult(next_offset='0000000000000000_0000000000000004', stream_closed=False, duplicate=False)
    >>> for batch in log.stream(live=False).iter_json_batches():
    ...     print(batch.items, batch.up_to_date, batch.stream_closed)
    [1, 2] True False
    """

    items: list[T]
    offset: str
    up_to_date: bool
    cursor: str | None
    stream_closed: bool
    last_time: str | None = None


class ByteChunk(msgspec.Struct, frozen=True):
    """Bytes that arrived together, and the reader's position after them.

    >>> chunk = next(log.stream(live=False).iter_byte_chunks())
    >>> chunk.data, chunk.offset
    (b'', '0000000000000000_0000000000000000')
    """

    data: bytes
    offset: str
    up_to_date: bool
    cursor: str | None
    stream_closed: bool
    last_time: str | None = None


class TextChunk(msgspec.Struct, frozen=True):
    """Text that arrived together, and the reader's position after it.

    >>> log.append("ä").next_offset[-1]
    '5'
    >>> next(log.stream(live=False).iter_text_chunks()).data
    '["ä"]'
    """

    data: str
    offset: str
    up_to_date: bool
    cursor: str | None
    stream_closed: bool
    last_time: str | None = None


class StreamBatch(msgspec.Struct, frozen=True):
    """What arrived of one of many streams, and the reader's position in it.

    `items` are its messages, `data` is the same as bytes. A batch without content reports a change: that the
    stream is read up to its tail, is closed, or was deleted.

    >>> log.append_all([1, 2]).next_offset[-1]
    '4'
    >>> for _, batch in follow_many(server, {path: "-1"}):
    ...     print(batch.items, batch.up_to_date)
    ...     break
    [1, 2] True
    """

    data: bytes
    offset: str
    up_to_date: bool
    stream_closed: bool
    stream_deleted: bool
    content_type: str

    @property
    def items(self) -> list[Any]:
        """The messages of a JSON stream."""
        return bodies.from_json(self.data, "") if self.data else []

    @property
    def text(self) -> str:
        """The content as text."""
        return self.data.decode(errors="replace")


class ProducerStamp(msgspec.Struct, frozen=True):
    """Identifies an append, so that a repetition is recognised: a producer's id, epoch and sequence number.

    >>> stamp = ProducerStamp("importer", epoch=0, seq=0)
    >>> [log.append("once", producer=stamp).duplicate for _ in range(2)]
    [False, True]
    """

    id: str
    epoch: int
    seq: int
