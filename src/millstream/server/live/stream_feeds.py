"""Feeds of one stream: a reader is sent its events until the stream ends.

PROTOCOL.md 5.8; rules L4 to L7.
"""

from millstream.protocol import cursors, replies
from millstream.protocol.offsets import NOW
from millstream.protocol.reads import Chunk
from millstream.protocol.requests import ReadRequest
from millstream.server.live.feeds import EventFeed
from millstream.server.live.frames import Frame, LongMessage, Next
from millstream.server.live.readers import Caller, LiveReaders
from millstream.store.pending import Pending


class StreamFeed(EventFeed):
    """One reader of a stream."""

    __slots__ = (
        "_begun",
        "_busy",
        "_cursor_floor",
        "_name",
        "_position",
        "_queued",
        "_stale",
        "_stream_id",
        "_times",
    )

    def __init__(
        self, live: LiveReaders, name: str, request: ReadRequest, chunk: Chunk, caller: Caller
    ) -> None:
        head = replies.event_stream(chunk, is_resolved=request.origin is not None)
        super().__init__(live, head, caller.max_age_s)
        self._name = name
        self._stream_id = chunk.stream_id
        self._position = chunk.start
        self._times = request.times
        self._cursor_floor = live.cursor_after(request.cursor)
        self._begun = False  # whether the first event is sent; there is one even if there is no data
        self._busy = False  # whether the store is making a frame
        self._queued = False  # whether it is queued to send more
        self._stale = True  # whether the stream may hold more than was sent
        if chunk.lifetime.is_sliding:  # cached frames are sent without a read of the store
            live.store.read(name, ReadRequest(offset=NOW), 1, live.clock_ms())

    def _begin(self) -> None:
        self._live.hub.watch(self._name, self)
        self._advance()

    def wake(self) -> None:
        """Send what is new: the stream has changed."""
        self._stale = True
        self._advance()

    def pump(self) -> None:
        """Send more when it is this reader's turn: its client has room again."""
        if (self._stale or self._pieces is not None) and not self._queued:
            self._queue()

    def _advance(self) -> None:
        """Send the next frame, if the client has room; other requests have their turn before more."""
        if self._busy or self._queued or self._sink is None or not self._sink.writable:
            return
        if self._pieces is not None:
            self._send(next(self._pieces))
        elif self._stale:
            self._stale = False
            now_ms = self._live.clock_ms()
            cursor = cursors.current_cursor(now_ms)
            if cursor < self._cursor_floor:  # `max` would be a call for each reader
                cursor = self._cursor_floor
            found = self._live.frames.next(self._name, self._position, cursor, now_ms, times=self._times)
            if isinstance(found, Pending):
                self._busy = True
                found.then(self._arrived)
            else:
                self._found(found)

    def _unwatch(self) -> None:
        self._live.hub.unwatch(self._name, self)
        if self._name not in self._live.hub.readers:
            self._live.frames.forget(self._name)

    def _arrived(self, found: Next) -> None:
        self._busy = False
        self._found(found)
        self._advance()

    def _found(self, found: Next) -> None:
        if isinstance(found, LongMessage):
            self._pieces = found.frames()
            self._queue()
        else:
            self._send(found)

    def _send(self, frame: Frame | None) -> None:
        if self._sink is None:
            return
        if frame is None or frame.stream_id != self._stream_id:
            self.end()
        elif frame.has_data or frame.last or not self._begun:
            self._begun = True
            if frame.end != self._position:
                self._position = frame.end
                self._pieces = None
            self._last_sent_s = self._live.now_s
            self._sink.write(frame)
            if frame.last:
                self.end()
                return
            self._stale |= frame.more
            if self._stale:
                self._queue()

    def _queue(self) -> None:
        self._queued = True
        self._live.slices.add(self._continue)

    def _continue(self) -> None:
        self._queued = False
        self._advance()
