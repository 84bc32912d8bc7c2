"""Event feeds: a client is sent server-sent events until they end, it leaves, or time is up.

What all feeds have in common: a sink, keep-alives, an age at which they end so that the client comes back,
and an end that is clean. `stream_feeds` follows one stream, `many_feeds` many.

PROTOCOL.md 5.8; rules L5, L6.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Protocol

from millstream.protocol.http import Reply
from millstream.protocol.sse import KEEP_ALIVE
from millstream.server.live.frames import Frame, plain_frame
from millstream.server.live.readers import LiveReaders

KEEP_ALIVE_S = 15.0

_keep_alive = plain_frame(KEEP_ALIVE)
_SENT_HEAD = Reply(200, [])


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


class EventFeed(ABC):
    """One client of an event stream."""

    __slots__ = ("_ends_at_s", "_last_sent_s", "_live", "_max_age_s", "_pieces", "_sink", "head", "on_leave")

    def __init__(self, live: LiveReaders, head: Reply, max_age_s: float) -> None:
        self.head = head
        self.on_leave: Callable[[], None] | None = None  # called once, when the feed is over
        self._live = live
        self._sink: Sink | None = None
        self._pieces: Iterator[Frame | None] | None = None  # the rest of a long message
        self._last_sent_s = self._ends_at_s = 0.0
        self._max_age_s = min(max_age_s, live.settings.sse_ttl_s)

    def start(self, sink: Sink) -> None:
        """Send what there is now, then every change; the head was sent, and is not needed any more."""
        self.head = _SENT_HEAD
        self._sink = sink
        self._live.now_s = self._last_sent_s = asyncio.get_running_loop().time()
        self._ends_at_s = self._last_sent_s + self._max_age_s
        self._live.feeds.add(self)
        self._begin()
        if self._live.draining:
            self.end()

    @abstractmethod
    def _begin(self) -> None:
        """Watch for changes, and send the first events."""

    @abstractmethod
    def pump(self) -> None:
        """Send more when it is this reader's turn: its client has room again."""

    @abstractmethod
    def _unwatch(self) -> None:
        """Stop watching for changes; may be called twice."""

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
        self._unwatch()
        if self.on_leave is not None:
            on_leave, self.on_leave = self.on_leave, None
            on_leave()
