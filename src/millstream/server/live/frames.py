"""Event frames: what a live reader at a position is sent next, encoded once for all readers there.

A thousand readers of a stream are usually at the same position with the same cursor. The first one
that is woken makes the frame; the others get the same bytes. Frames of a stream are dropped when it
changes, and when it has no readers any more.

A message that is too large for one frame is sent in pieces, each a frame of its own. They are made for
each reader when it has room, so that a slow one holds a piece and not the message.

Rules L4, L5, L7.
"""

from collections.abc import Iterator
from functools import cached_property

from millstream.protocol import sse
from millstream.protocol.reads import Chunk
from millstream.protocol.requests import ReadRequest
from millstream.store.base import Read, Store
from millstream.store.pending import Eventually, Pending, when

MAX_EVENT_BYTES = 256 * 1024
"""Stored bytes in one data event, unless one message is larger: bounds what a slow reader holds."""

_MAX_ENCODED_BYTES = 384 * 1024  # of such an event; base64 needs 342 KiB
_EXPANDING_BYTES = (
    32 * 1024
)  # stored bytes in an event of content that grows more: a line break becomes 6 bytes
_PIECE_BYTES = 64 * 1024
_FRAMES_KEPT_PER_STREAM = 16
_BYTES_KEPT_PER_STREAM = 512 * 1024


class Frame:
    """Encoded events, and the position after them."""

    def __init__(
        self, stream_id: int, events: bytes, end: int, *, has_data: bool, more: bool, last: bool
    ) -> None:
        self.stream_id = stream_id
        self.events = events
        self.end = end
        self.has_data = has_data
        self.more = more
        self.last = last

    @cached_property
    def as_chunk(self) -> bytes:
        """The events as a chunk of HTTP/1.1, also made once for all readers."""
        return b"%x\r\n%b\r\n" % (len(self.events), self.events)


def make_frame(chunk: Chunk, cursor: int) -> Frame:
    """Write a chunk as a data event and its control event."""
    content = sse.event_content(chunk.kind, chunk.data, at_end=chunk.at_end)
    end = chunk.start + len(content)
    events = sse.control_event(end, cursor, chunk.up_to_date, chunk.at_end)
    if content:
        events = sse.data_event(chunk.kind, content) + events
    more = not chunk.up_to_date and bool(content)
    return Frame(chunk.stream_id, events, end, has_data=bool(content), more=more, last=chunk.at_end)


class LongMessage:
    """A message that is still in the store, because it is too large for one frame."""

    def __init__(self, store: Store, name: str, chunk: Chunk, cursor: int) -> None:
        self._store = store
        self._name = name
        self._chunk = chunk
        self._cursor = cursor

    def frames(self) -> Iterator[Frame | None]:
        """Yield its data event in pieces, the last one with the control event; None when the rest is gone.

        Until the last one the position stays the same: a client that loses its connection reads it again.
        """
        chunk = self._chunk
        try:
            for events in sse.long_data_event(self._stored()):
                yield Frame(chunk.stream_id, events, chunk.start, has_data=True, more=True, last=False)
        except _LostError:
            yield None
            return
        control = sse.control_event(chunk.end, self._cursor, chunk.up_to_date, chunk.at_end)
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


class Frames:
    """Recent frames by stream, and those that the store is about to make."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, dict[tuple[int, int], Frame | Pending[Next]]] = {}

    def next(self, name: str, position: int, cursor: int, now_ms: int) -> Eventually[Next]:
        """Return what follows a position; None when the stream is gone."""
        frames = self._kept.setdefault(name, {})
        known = frames.get((position, cursor))
        if known is not None:
            return known

        def read(max_bytes: int) -> Eventually[Read]:
            request = ReadRequest(offset=position)
            return self._store.read(name, request, max_bytes, now_ms, held_bytes=max_bytes)

        def keep(found: Read) -> Eventually[Next]:
            frames.pop((position, cursor), None)
            if not isinstance(found, Chunk):
                self.forget(name)
                return None
            if not found.is_held:
                return LongMessage(self._store, name, found, cursor)
            frame = make_frame(found, cursor)
            if len(frame.events) > _MAX_ENCODED_BYTES and len(found.data) > _EXPANDING_BYTES:
                return when(read(_EXPANDING_BYTES), keep)
            size = sum(len(kept.events) for kept in frames.values() if isinstance(kept, Frame))
            if len(frames) >= _FRAMES_KEPT_PER_STREAM or size + len(frame.events) > _BYTES_KEPT_PER_STREAM:
                frames.clear()
            frames[position, cursor] = frame  # if they were dropped meanwhile, this dict is no longer used
            return frame

        frame: Eventually[Next] = when(read(MAX_EVENT_BYTES), keep)
        if isinstance(frame, Pending):
            frames[position, cursor] = frame
        return frame

    def forget(self, name: str) -> None:
        """Drop the frames of a stream: it has changed, or has no readers."""
        self._kept.pop(name, None)
