"""What all live readers of a server share: the hub that wakes them, and the responses made once for many.

A live read registers with the hub first and reads afterwards, so that no change falls in between. It holds
no data for a slow client: what is not sent yet stays in the store and is read again when the client's
socket has room.

PROTOCOL.md 5.7, 5.8; rules L1 to L7, X9.
"""

import math
import random
from collections.abc import Callable
from typing import Protocol

import msgspec

from millstream.protocol import caching, cursors
from millstream.protocol.requests import ReadRequest
from millstream.server.live.frames import Frames
from millstream.server.live.globs import FollowedGlobs
from millstream.server.live.hub import Hub
from millstream.server.live.response_cache import ResponseCache
from millstream.server.long_answers import HELD_BYTES
from millstream.server.settings import Settings
from millstream.store.base import Read, Store
from millstream.store.pending import Eventually
from millstream.store.slices import Slices


class OpenFeed(Protocol):
    """An event stream that is open."""

    def tick(self, now_s: float) -> None:
        """End it when it is old enough; keep a silent one alive."""
        ...

    def end(self) -> None:
        """End it cleanly."""
        ...


class WaitingPoll(Protocol):
    """A long-poll that waits."""

    def give_up(self) -> None:
        """Answer that there is nothing new."""
        ...


class Caller(msgspec.Struct, frozen=True):
    """What a live read needs to know of its client: how long it may read, and what caches may do."""

    max_age_s: float = math.inf
    cache: bytes = caching.PUBLIC


class LiveReaders:
    """The live readers of a server, and what they share."""

    def __init__(self, store: Store, settings: Settings, clock_ms: Callable[[], int]) -> None:
        self.store = store
        self.settings = settings
        self.clock_ms = clock_ms
        self.held_bytes = min(settings.max_chunk_bytes, HELD_BYTES)
        self.hub = Hub()
        self.slices = Slices()
        self.frames = Frames(store)
        self.globs = FollowedGlobs(self.slices)
        self.responses = ResponseCache(is_on=not store.is_shared)
        self.feeds: set[OpenFeed] = set()
        self.polls: set[WaitingPoll] = set()
        self.draining = False
        self.now_s = 0.0
        """The loop's time at the last tick, or when the last feed began: a clock for what takes seconds."""
        store.listener = self._changed
        store.on_created = self.globs.created
        store.watched = lambda: self.hub.readers

    def read_held(self, name: str, request: ReadRequest, *, peek: bool = False) -> Eventually[Read]:
        """Read a chunk that is short enough to be held in memory; a single longer message is not held."""
        held_bytes = self.held_bytes
        return self.store.read(name, request, held_bytes, self.clock_ms(), peek=peek, held_bytes=held_bytes)

    def cursor_after(self, client_cursor: int | None) -> int:
        """Choose the cursor of a response."""
        jitter_s = random.randint(1, cursors.MAX_JITTER_S)
        return cursors.next_cursor(self.clock_ms(), client_cursor, jitter_s)

    def tick(self, now_s: float) -> None:
        """End feeds that are old enough and keep silent ones alive; called a few times a second."""
        self.now_s = now_s
        for feed in list(self.feeds):
            feed.tick(now_s)

    def drain(self) -> None:
        """Answer every long-poll and end every feed: the server stops."""
        self.draining = True
        for poll in list(self.polls):
            poll.give_up()
        for feed in list(self.feeds):
            feed.end()

    def _changed(self, name: str) -> None:
        # Most streams that are written to are read by nobody: lookups instead of calls.
        if name in self.hub.readers:
            self.frames.forget(name)
            self.hub.changed(name)
        if name in self.responses.keys:
            self.responses.forget(name)
