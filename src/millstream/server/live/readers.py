"""Live reads: waiting for a stream to grow, by long-poll and by server-sent events.

Both register with the hub first and read afterwards, so that no change falls between. Neither
holds data for a slow reader: what is not sent yet stays in the store and is read again when the
reader's socket has room.

PROTOCOL.md 5.7, 5.8; rules L1 to L7.
"""

import asyncio
import math
import random
from collections.abc import Callable
from typing import Protocol

import msgspec

from millstream.protocol import caching, cursors, replies
from millstream.protocol.http import Reply
from millstream.protocol.offsets import NOW
from millstream.protocol.reads import Chunk, PollOutcome, poll_outcome
from millstream.protocol.requests import ReadRequest
from millstream.protocol.sse import KEEP_ALIVE
from millstream.protocol.streams import NotFound
from millstream.server.live.frames import Frame, Frames
from millstream.server.live.hub import Hub
from millstream.server.live.response_cache import Answers
from millstream.server.long_answers import PIECE_BYTES
from millstream.server.settings import Settings
from millstream.store.base import Read, Store
from millstream.store.pending import Pending

KEEP_ALIVE_S = 15.0

_keep_alive = Frame(0, KEEP_ALIVE, 0, has_data=False, more=False, last=False)


class Sink(Protocol):
    """Where a feed writes: one client's connection."""

    @property
    def writable(self) -> bool:
        """False while the client takes no more; the sink calls the feed's `pump` when it does again."""
        ...

    def write(self, frame: Frame) -> None:
        """Send a frame."""
        ...

    def finish(self) -> None:
        """End the answer cleanly."""
        ...


class Caller(msgspec.Struct, frozen=True):
    """What a live read has to know of who reads: for how long it may, and what caches may do."""

    max_age_s: float = math.inf
    cache: bytes = caching.PUBLIC


class Live:
    """Everything that live readers share."""

    def __init__(self, store: Store, settings: Settings, clock_ms: Callable[[], int]) -> None:
        self.store = store
        self.settings = settings
        self.clock_ms = clock_ms
        self.piece_bytes = min(settings.max_chunk_bytes, PIECE_BYTES)
        self.hub = Hub()
        self.frames = Frames(store)
        self.answers = Answers()
        self.feeds: set[EventFeed] = set()
        self.polls: set[LongPoll] = set()
        self.draining = False
        store.listener = self._changed

    def cursor_after(self, client_cursor: int | None) -> int:
        """Choose an answer's cursor."""
        jitter_s = random.randint(1, cursors.MAX_JITTER_S)
        return cursors.next_cursor(self.clock_ms(), client_cursor, jitter_s)

    def tick(self, now_s: float) -> None:
        """End feeds that are old enough and keep silent ones alive; called about once a second."""
        for feed in list(self.feeds):
            feed.tick(now_s)

    def drain(self) -> None:
        """Answer every long-poll and end every feed: the server is going away."""
        self.draining = True
        for poll in list(self.polls):
            poll.give_up()
        for feed in list(self.feeds):
            feed.end()

    def _changed(self, name: str) -> None:
        self.frames.forget(name)
        self.answers.forget(name)
        self.hub.changed(name)


class EventFeed:
    """A reader that is sent events until the stream ends, the client leaves, or its time is up."""

    __slots__ = (
        "_begun",
        "_busy",
        "_cursor_floor",
        "_ends_at_s",
        "_last_sent_s",
        "_live",
        "_max_age_s",
        "_name",
        "_position",
        "_sink",
        "_stale",
        "_stream_id",
        "head",
        "on_leave",
    )

    def __init__(self, live: Live, name: str, request: ReadRequest, chunk: Chunk, caller: Caller) -> None:
        self.head = replies.event_stream(chunk)
        self.on_leave: Callable[[], None] | None = None  # told once that it is over
        self._live = live
        self._name = name
        self._stream_id = chunk.stream_id
        self._position = chunk.start
        self._cursor_floor = live.cursor_after(request.cursor)
        self._sink: Sink | None = None
        self._begun = False  # whether the first event is out; there is one even if there is no data
        self._busy = False  # whether a frame is on its way from the store
        self._stale = True  # whether the stream may hold more than was sent
        self._last_sent_s = self._ends_at_s = 0.0
        self._max_age_s = min(caller.max_age_s, live.settings.sse_ttl_s)
        if chunk.lifetime.is_sliding:  # frames that are cached already are sent without a read of the store
            live.store.read(name, ReadRequest(offset=NOW), 1, live.clock_ms())

    def start(self, sink: Sink) -> None:
        """Begin to send: at once, and then at every change."""
        self._sink = sink
        self._last_sent_s = asyncio.get_running_loop().time()
        self._ends_at_s = self._last_sent_s + self._max_age_s
        self._live.feeds.add(self)
        self._live.hub.watch(self._name, self)
        self.pump()
        if self._live.draining:
            self.end()

    def wake(self) -> None:
        """Take note that the stream has changed, and send what is new."""
        self._stale = True
        self.pump()

    def pump(self) -> None:
        """Send as much as there is and the client takes."""
        while self._stale and not self._busy and self._sink is not None and self._sink.writable:
            self._stale = False
            now_ms = self._live.clock_ms()
            cursor = max(cursors.current_cursor(now_ms), self._cursor_floor)
            frame = self._live.frames.next(self._name, self._position, cursor, now_ms)
            if isinstance(frame, Pending):
                self._busy = True
                frame.then(self._arrived)
            else:
                self._send(frame)

    def tick(self, now_s: float) -> None:
        """End when it is time; send a comment when nothing else was sent for a while."""
        if now_s >= self._ends_at_s:
            self.end()
        elif now_s - self._last_sent_s >= KEEP_ALIVE_S and self._sink is not None and self._sink.writable:
            self._last_sent_s = now_s
            self._sink.write(_keep_alive)

    def end(self) -> None:
        """End the answer cleanly; the client comes back if there is more to read."""
        sink = self._sink
        self.leave()
        if sink is not None:
            sink.finish()

    def leave(self) -> None:
        """Stop sending: the client is gone."""
        self._sink = None
        self._live.feeds.discard(self)
        self._live.hub.unwatch(self._name, self)
        if not self._live.hub.is_watched(self._name):
            self._live.frames.forget(self._name)
        if self.on_leave is not None:
            on_leave, self.on_leave = self.on_leave, None
            on_leave()

    def _arrived(self, frame: Frame | None) -> None:
        self._busy = False
        self._send(frame)
        self.pump()

    def _send(self, frame: Frame | None) -> None:
        if self._sink is None:
            return
        if frame is None or frame.stream_id != self._stream_id:
            self.end()
        elif frame.has_data or frame.last or not self._begun:
            self._begun = True
            self._position = frame.end
            self._stale |= frame.more
            self._last_sent_s = asyncio.get_running_loop().time()
            self._sink.write(frame)
            if frame.last:
                self.end()


class LongPoll(Pending[Reply | EventFeed]):
    """A reader at the tail that is answered at the next change, or after a while without one."""

    __slots__ = ("_cache", "_chunk", "_live", "_name", "_request", "_timer")

    def __init__(self, live: Live, name: str, request: ReadRequest, chunk: Chunk, caller: Caller) -> None:
        super().__init__(self._stop)
        self._cache = caching.for_read(request.offset, caller.cache)
        self._live = live
        self._name = name
        self._chunk = chunk
        self._request = ReadRequest(chunk.end, request.live, request.cursor, request.until, request.limit)
        timeout_s = 0 if live.draining else min(caller.max_age_s, live.settings.long_poll_timeout_ms / 1000)
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self.give_up)
        live.polls.add(self)
        live.hub.watch(name, self)
        self.wake()

    def give_up(self) -> None:
        """Answer that nothing came."""
        self._answer(replies.nothing_new(self._chunk, self._live.cursor_after(self._request.cursor)))

    def wake(self) -> None:
        """Look whether there is something to answer with."""
        live = self._live
        found = live.store.read(self._name, self._request, live.piece_bytes, live.clock_ms())
        if isinstance(found, Pending):
            found.then(self._found)
        else:
            self._found(found)

    def _found(self, found: Read) -> None:
        if not isinstance(found, Chunk):
            self._answer(replies.reply_to(found))
        elif found.stream_id != self._chunk.stream_id:
            self._answer(replies.reply_to(NotFound(self._name)))
        elif (outcome := poll_outcome(found, self._request.until)) is PollOutcome.DATA:
            cursor = self._live.cursor_after(self._request.cursor)
            self._answer(replies.read(found, cursor=cursor, cache=self._cache))
        elif outcome is PollOutcome.END:
            self._chunk = found
            self.give_up()

    def _answer(self, reply: Reply) -> None:
        if self in self._live.polls:
            self._stop()
            self.settle(reply)

    def _stop(self) -> None:
        self._timer.cancel()
        self._live.polls.discard(self)
        self._live.hub.unwatch(self._name, self)
