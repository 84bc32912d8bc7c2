"""Event frames: what a live reader at a position is sent next, encoded once for all readers there.

A thousand readers of a stream are usually at the same position with the same cursor. The first one
that is woken makes the frame; the others get the same bytes. Frames of a stream are dropped when it
changes, and when it has no readers any more.

Rules L4, L5, L7.
"""

from functools import cached_property

from millstream.protocol import sse
from millstream.protocol.reads import Chunk
from millstream.protocol.requests import ReadRequest
from millstream.store.base import Read, Store
from millstream.store.pending import Eventually, when

MAX_EVENT_BYTES = 256 * 1024
"""Stored bytes in one data event, unless one message is larger: bounds what a slow reader holds."""

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


class Frames:
    """Recent frames by stream."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, dict[tuple[int, int], Frame]] = {}

    def next(self, name: str, position: int, cursor: int, now_ms: int) -> Eventually[Frame | None]:
        """Return the frame that follows a position; None when the stream is gone."""
        frames = self._kept.setdefault(name, {})
        known = frames.get((position, cursor))
        if known is not None:
            return known

        def keep(found: Read) -> Frame | None:
            if not isinstance(found, Chunk):
                self.forget(name)
                return None
            frame = make_frame(found, cursor)
            size = sum(len(kept.events) for kept in frames.values()) + len(frame.events)
            if len(frames) >= _FRAMES_KEPT_PER_STREAM or size > _BYTES_KEPT_PER_STREAM:
                frames.clear()
            frames[position, cursor] = frame  # if they were dropped meanwhile, this dict is no longer used
            return frame

        return when(self._store.read(name, ReadRequest(offset=position), MAX_EVENT_BYTES, now_ms), keep)

    def forget(self, name: str) -> None:
        """Drop the frames of a stream: it has changed, or has no readers."""
        self._kept.pop(name, None)
