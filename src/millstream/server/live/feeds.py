"""Event feeds: a reader is sent server-sent events until the stream ends, the client leaves, or time is up.

PROTOCOL.md 5.8; rules L4 to L7.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from millstream.protocol import cursors, replies
from millstream.protocol.offsets import NOW
from millstream.protocol.reads import Chunk
from millstream.protocol.requests import ReadRequest
from millstream.protocol.sse import KEEP_ALIVE
from millstream.server.live.frames import Frame, LongMessage, Next
from millstream.server.live.readers import Caller, LiveReaders
from millstream.store.pending import Pending

KEEP_ALIVE_S = 15.0

_keep_alive = Frame(0, KEEP_ALIVE, 0, has_data=False, more=False, last=False)


class Sink(Protocol):
    """Where a feed writes: the connection of one client."""

    @property
    def writable(self) -> bool:
        """False while the client takes no more; the sink calls the feed's `pump` when it does."""
        ...

    def write(self, frame: Frame) -> None:
        """Send a frame."""
        ...

    def finish(self) -> None:
        """End the response cleanly."""
        ...


class EventFeed:
    """One reader of an event stream."""

    __slots__ = (
        "_begun",
        "_busy",
        "_cursor_floor",
        "_ends_at_s",
        "_last_sent_s",
        "_live",
        "_max_age_s",
        "_name",
        "_pieces",
        "_position",
        "_queued",
        "_sink",
        "_stale",
        "_stream_id",
        "head",
        "on_leave",
    )

    def __init__(
        self, live: LiveReaders, name: str, request: ReadRequest, chunk: Chunk, caller: Caller
    ) -> None:
        self.head = replies.event_stream(chunk)
        self.on_leave: Callable[[], None] | None = None  # called once, when the feed is over
        self._live = live
        self._name = name
        self._stream_id = chunk.stream_id
        self._position = chunk.start
        self._cursor_floor = live.cursor_after(request.cursor)
        self._sink: Sink | None = None
        self._begun = False  # whether the first event is sent; there is one even if there is no data
        self._busy = False  # whether the store is making a frame
        self._queued = False  # whether it is queued to send more
        self._pieces: Iterator[Frame | None] | None = None  # the rest of a long message
        self._stale = True  # whether the stream may hold more than was sent
        self._last_sent_s = self._ends_at_s = 0.0
        self._max_age_s = min(caller.max_age_s, live.settings.sse_ttl_s)
        if chunk.lifetime.is_sliding:  # cached frames are sent without a read of the store
            live.store.read(name, ReadRequest(offset=NOW), 1, live.clock_ms())

    def start(self, sink: Sink) -> None:
        """Send what there is now, then every change."""
        self._sink = sink
        self._last_sent_s = asyncio.get_running_loop().time()
        self._ends_at_s = self._last_sent_s + self._max_age_s
        self._live.feeds.add(self)
        self._live.hub.watch(self._name, self)
        self._advance()
        if self._live.draining:
            self.end()

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
            cursor = max(cursors.current_cursor(now_ms), self._cursor_floor)
            found = self._live.frames.next(self._name, self._position, cursor, now_ms)
            if isinstance(found, Pending):
                self._busy = True
                found.then(self._arrived)
            else:
                self._found(found)

    def tick(self, now_s: float) -> None:
        """End when it is time; send a comment when nothing else was sent for a while.

        A long message that is being sent is finished first, unless its client has stopped reading.
        """
        is_silent = now_s - self._last_sent_s >= KEEP_ALIVE_S
        if now_s >= self._ends_at_s and (self._pieces is None or is_silent):
            self.end()
        elif is_silent and self._pieces is None and self._sink is not None and self._sink.writable:
            self._last_sent_s = now_s
            self._sink.write(_keep_alive)

    def end(self) -> None:
        """End the response cleanly; the client comes back if there is more to read."""
        sink = self._sink
        self.leave()
        if sink is not None:
            sink.finish()

    def leave(self) -> None:
        """Stop sending: the client is gone, or everything is sent."""
        self._sink = None
        self._live.feeds.discard(self)
        self._live.hub.unwatch(self._name, self)
        if self._name not in self._live.hub.readers:
            self._live.frames.forget(self._name)
        if self.on_leave is not None:
            on_leave, self.on_leave = self.on_leave, None
            on_leave()

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
            self._last_sent_s = asyncio.get_running_loop().time()
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
