"""Events of streams for the application around a store: appended, closed, deleted.

        change is durable --> name noted, once --> the listener asks --> the stream as it is now --> event

An event says how a stream is when the listener gets to it, so changes that come meanwhile are one event,
and what waits is bounded by the number of streams. If more streams change than a listener has room for, or if
what others have changed was not heard, it is told so by an event of its own, and looks at the streams itself.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from typing import Final, Literal, Protocol

import msgspec

from millstream.protocol.globs import path_matcher
from millstream.protocol.offsets import format_offset
from millstream.protocol.streams import Stream
from millstream.store.pending import Eventually, settled

MAX_STREAMS: Final = 10_000
"""How many streams may have changed before the listener asks; also, of how many it remembers the end."""

Notify = Callable[[str], None]


class StreamEvent(msgspec.Struct, frozen=True):
    """What has happened to a stream."""

    kind: Literal["appended", "closed", "deleted", "missed"]
    """`missed` is about no stream: it is not known which have changed, or they are too many."""
    path: str = ""
    offset: str | None = None
    """Where the stream ends now."""


class Heads(Protocol):
    """Describes streams."""

    def __call__(self, name: str, now_ms: int) -> "Eventually[Stream | object]":
        """Describe a stream; anything else means that it is gone."""
        ...


class Listening(AsyncIterator[StreamEvent]):
    """Events of the streams that a glob matches, from now on; `close` ends it."""

    def __init__(
        self, glob: str, head: Heads, clock_ms: Callable[[], int], on_close: "Callable[[Listening], None]"
    ) -> None:
        self._matches = path_matcher(glob)
        self._head = head
        self._clock_ms = clock_ms
        self._on_close = on_close
        self._changed: dict[str, None] = {}
        self._told: dict[str, Stream] = {}  # as they were
        self._ready: list[StreamEvent] = []
        self._has_missed = False
        self._is_closed = False
        self._waiting = asyncio.Event()

    def notify(self, name: str) -> None:
        """Note that a stream has changed."""
        if name in self._changed or self._has_missed or not self._matches(name):
            return
        if len(self._changed) >= MAX_STREAMS:
            self.miss()
        else:
            self._changed[name] = None
            self._waiting.set()

    def miss(self) -> None:
        """Note that it is not known which streams have changed."""
        self._changed.clear()
        self._has_missed = True
        self._waiting.set()

    def close(self) -> None:
        """End it: no more events."""
        if not self._is_closed:
            self._is_closed = True
            self._on_close(self)
            self._waiting.set()

    async def __anext__(self) -> StreamEvent:
        while not self._is_closed:
            if self._ready:
                return self._ready.pop(0)
            if self._has_missed:
                self._has_missed = False
                self._told.clear()
                return StreamEvent("missed")
            if self._changed:
                name = next(iter(self._changed))
                del self._changed[name]
                self._describe(name, await settled(self._head(name, self._clock_ms())))
            else:
                self._waiting.clear()
                await self._waiting.wait()
        raise StopAsyncIteration

    def _describe(self, name: str, found: object) -> None:
        """Add the events that tell how a stream is now, if that is not known."""
        told = self._told.pop(name, None)
        if not isinstance(found, Stream):
            self._ready.append(StreamEvent("deleted", name))
            return
        offset = format_offset(found.tail).decode()
        if told is None or told.id != found.id:
            told = None
        if found.tail > (told.tail if told is not None else found.base):
            self._ready.append(StreamEvent("appended", name, offset))
        if found.closed and not (told is not None and told.closed):
            self._ready.append(StreamEvent("closed", name, offset))
        self._told[name] = copy.copy(found)
        if len(self._told) > MAX_STREAMS:
            del self._told[next(iter(self._told))]


class Listeners:
    """Everybody who hears of changes: the server's own readers first, and those of the application."""

    def __init__(self, install: Callable[[Notify], None], head: Heads) -> None:
        self._install = install
        self._head = head
        self._first: Notify = lambda _name: None
        self._others: set[Listening] = set()

    @property
    def first(self) -> Notify:
        """The server's own readers."""
        return self._first

    @first.setter
    def first(self, notify: Notify) -> None:
        self._first = notify
        self._reinstall()

    @property
    def has_others(self) -> bool:
        """Whether an application hears of changes."""
        return bool(self._others)

    def miss(self) -> None:
        """Tell the application that streams have changed, and nobody knows which."""
        for listening in self._others:
            listening.miss()

    def listen(self, glob: str, clock_ms: Callable[[], int]) -> Listening:
        """Begin to note changes of the streams that a glob matches."""
        listening = Listening(glob, self._head, clock_ms, self._remove)
        self._others.add(listening)
        self._reinstall()
        return listening

    def _remove(self, listening: Listening) -> None:
        self._others.discard(listening)
        self._reinstall()

    def _reinstall(self) -> None:
        """Let every change call what is needed: mostly the server's own readers, and nothing else."""
        self._install(self._notify if self._others else self._first)

    def _notify(self, name: str) -> None:
        self._first(name)
        for listening in self._others:
            listening.notify(name)
