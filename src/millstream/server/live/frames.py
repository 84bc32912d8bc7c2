"""Event frames: what a live reader at a position is sent next, encoded once for all readers there.

A thousand readers of a stream are usually at the same position with the same cursor. The first one
that is woken makes the frame; the others get the same bytes. Frames of a stream are dropped when it
changes, when it has no readers any more, and when those of other streams need their room.

Readers that follow many streams on one connection get the same events with the stream's path added
(`Frame.tagged`): the content is encoded once for all, and the path is added once for all of these.

A message that is too large for one frame is sent in pieces, each a frame of its own. They are made for
each reader when it has room, so that a slow one holds a piece and not the message.

Rules L4, L5, L7, X9.
"""

from collections.abc import Iterator
from functools import cached_property

from millstream.protocol import events as many
from millstream.protocol import sse
from millstream.protocol.reads import Chunk
from millstream.protocol.requests import LiveMode, ReadRequest
from millstream.store.base import Read, Store
from millstream.store.pending import Eventually, Pending, when

MAX_EVENT_BYTES = 256 * 1024
"""Stored bytes in one data event, unless one message is larger: bounds what a slow reader holds."""

_MAX_ENCODED_BYTES = 384 * 1024  # of such an event; base64 needs 342 KiB
_EXPANDING_BYTES = (
    32 * 1024
)  # stored bytes in an event of content that grows more: a line break becomes 6 bytes
_TIMED_BYTES = 32 * 1024  # stored bytes in a frame with an event for each time
_PIECE_BYTES = 64 * 1024
_FRAMES_KEPT_PER_STREAM = 16
_BYTES_KEPT_PER_STREAM = 512 * 1024
_BYTES_KEPT = 16 * 2**20


class Frame:
    """Encoded events, and the position after them."""

    def __init__(
        self,
        stream_id: int,
        events: bytes,
        end: int,
        *,
        has_data: bool,
        more: bool,
        last: bool,
        data_size: int = 0,
    ) -> None:
        self.stream_id = stream_id
        self.events = events
        self.end = end
        self.has_data = has_data
        self.more = more
        self.last = last
        self.data_size = data_size
        self._tagged: Frame | None = None

    def tagged(self, name: str) -> "Frame":
        """The same for readers of many streams, with the path of this one; made once for all of them."""
        if self._tagged is None:
            data, control = self.events[: self.data_size], self.events[self.data_size :]
            self._tagged = plain_frame(many.tagged(name, self.end, data, control))
        return self._tagged

    @cached_property
    def as_chunk(self) -> bytes:
        """The events as a chunk of HTTP/1.1, also made once for all readers."""
        return b"%x\r\n%b\r\n" % (len(self.events), self.events)


def plain_frame(events: bytes) -> Frame:
    """Make a frame of events that move no position of their own."""
    return Frame(0, events, 0, has_data=False, more=False, last=False)


def make_frame(chunk: Chunk, cursor: int) -> Frame:
    """Write a chunk as a data event and its control event; with times, as a pair for each (rule X7)."""
    if chunk.runs:
        return _make_timed_frame(chunk, cursor)
    content = sse.event_content(chunk.kind, chunk.data, at_end=chunk.at_end)
    end = chunk.start + len(content)
    control = sse.control_event(end, cursor, chunk.up_to_date, chunk.at_end, chunk.last_ms)
    data = sse.data_event(chunk.kind, content) if content else b""
    more = not chunk.up_to_date and bool(content)
    return Frame(
        chunk.stream_id,
        data + control,
        end,
        has_data=bool(content),
        more=more,
        last=chunk.at_end,
        data_size=len(data),
    )


def _make_timed_frame(chunk: Chunk, cursor: int) -> Frame:
    events: list[bytes] = []
    start, data = chunk.start, chunk.data
    position = start
    for run in chunk.runs:
        is_last = run.end == chunk.end
        at_end = is_last and chunk.at_end
        # A character that an append cuts comes with the rest of it.
        content = sse.event_content(chunk.kind, data[position - start : run.end - start], at_end=at_end)
        if content or is_last:
            position += len(content)
            up_to_date = is_last and chunk.up_to_date
            if content:
                events.append(sse.data_event(chunk.kind, content))
            events.append(sse.control_event(position, cursor, up_to_date, at_end, run.time_ms))
    has_data = position > start
    more = not chunk.up_to_date and has_data
    joined = b"".join(events)
    return Frame(chunk.stream_id, joined, position, has_data=has_data, more=more, last=chunk.at_end)


class LongMessage:
    """A message that is still in the store, because it is too large for one frame."""

    def __init__(self, store: Store, name: str, chunk: Chunk, cursor: int) -> None:
        self._store = store
        self._name = name
        self._chunk = chunk
        self._cursor = cursor
        self.stream_id = chunk.stream_id

    def frames(self, *, tagged: bool = False) -> Iterator[Frame | None]:
        """Yield its data event in pieces, the last one with the control event; None when the rest is gone.

        Until the last one the position stays the same: a client that loses its connection reads it again.
        """
        chunk = self._chunk
        try:
            if tagged:
                id = many.event_id(self._name, chunk.end)
                yield Frame(chunk.stream_id, id, chunk.start, has_data=True, more=True, last=False)
            for events in sse.long_data_event(self._stored()):
                yield Frame(chunk.stream_id, events, chunk.start, has_data=True, more=True, last=False)
        except _LostError:
            yield None
            return
        control = sse.control_event(chunk.end, self._cursor, chunk.up_to_date, chunk.at_end, chunk.last_ms)
        if tagged:
            control = many.tagged(self._name, chunk.end, b"", control)
        more = not chunk.up_to_date
        yield Frame(chunk.stream_id, control, chunk.end, has_data=True, more=more, last=chunk.at_end)

    def _stored(self) -> Iterator[bytes]:
        chunk = self._chunk
        end = chunk.end - 1  # without its comma
        for start in range(chunk.start, end, _PIECE_BYTES):
            piece_end = min(start + _PIECE_BYTES, end)
            piece = self._store.fetch(self._name, chunk.stream_id, start, piece_end)
            if piece is None:
                raise _LostError
            yield piece


class _LostError(Exception):
    """The stream was deleted or trimmed while a message was being sent."""


Next = Frame | LongMessage | None
"""What follows a position; None when the stream is gone."""


_Key = tuple[int, int, bool]
"""A position, a cursor, and whether there is an event for each time."""


class Frames:
    """Recent frames by stream, and those that the store is about to make."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, _KeptFrames] = {}
        self._kept_bytes = 0

    def next(
        self, name: str, position: int, cursor: int, now_ms: int, *, times: bool = False
    ) -> Eventually[Next]:
        """Return what follows a position; None when the stream is gone."""
        frames = self._kept.get(name)
        if frames is None:
            frames = self._kept[name] = _KeptFrames()
        key = position, cursor, times
        known = frames.get(key)
        return known if known is not None else self._make(name, frames, key, now_ms)

    def _make(self, name: str, frames: "_KeptFrames", key: _Key, now_ms: int) -> Eventually[Next]:
        position, cursor, times = key

        def read(max_bytes: int) -> Eventually[Read]:
            request = ReadRequest(position, LiveMode.SSE, times=times) if times else ReadRequest(position)
            return self._store.read(name, request, max_bytes, now_ms, held_bytes=max_bytes)

        def keep(found: Read) -> Eventually[Next]:
            frames.pop(key, None)
            if not isinstance(found, Chunk):
                self.forget(name)
                return None
            if not found.is_held:
                return LongMessage(self._store, name, found, cursor)
            frame = make_frame(found, cursor)
            if len(frame.events) > _MAX_ENCODED_BYTES and len(found.data) > _EXPANDING_BYTES:
                return when(read(_EXPANDING_BYTES), keep)
            if self._kept.get(name) is frames:  # else they were dropped meanwhile
                self._keep(frames, key, frame)
            return frame

        frame: Eventually[Next] = when(read(_TIMED_BYTES if times else MAX_EVENT_BYTES), keep)
        if isinstance(frame, Pending):
            frames[key] = frame
        return frame

    def _keep(self, frames: "_KeptFrames", key: _Key, frame: Frame) -> None:
        size = len(frame.events)
        if len(frames) >= _FRAMES_KEPT_PER_STREAM or frames.size + size > _BYTES_KEPT_PER_STREAM:
            self._kept_bytes -= frames.size
            frames.clear()
            frames.size = 0
        frames[key] = frame
        frames.size += size
        self._kept_bytes += size
        while self._kept_bytes > _BYTES_KEPT:
            self.forget(next(iter(self._kept)))  # the stream whose frames were begun first

    def forget(self, name: str) -> None:
        """Drop the frames of a stream: it has changed, or has no readers."""
        dropped = self._kept.pop(name, None)
        if dropped is not None:
            self._kept_bytes -= dropped.size


class _KeptFrames(dict[_Key, Frame | Pending[Next]]):
    """Frames of a stream, and how many bytes they are."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
