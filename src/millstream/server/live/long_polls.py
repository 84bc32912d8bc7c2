"""Long-polls: a reader at the tail is answered at the next change, or after a while without one.

Readers that wait at the same offset get the same answer: the first that are woken make it, and the others
find it among the recent responses.

PROTOCOL.md 5.7; rules L1 to L3, X10.
"""

import asyncio
from collections.abc import Hashable

import msgspec

from millstream.protocol import caching, cursors, replies
from millstream.protocol.http import Reply
from millstream.protocol.reads import Chunk, PollOutcome, poll_outcome, poll_timeout_ms
from millstream.protocol.requests import ReadRequest
from millstream.protocol.streams import NotFound
from millstream.server.live.feeds import EventFeed
from millstream.server.live.readers import Caller, LiveReaders
from millstream.server.long_answers import with_long_body
from millstream.store.base import Read
from millstream.store.pending import Pending


class LongPoll(Pending[Reply | EventFeed]):
    """One reader that waits at the tail."""

    __slots__ = ("_cache", "_chunk", "_is_resolved", "_live", "_name", "_request", "_timer")

    def __init__(
        self,
        live: LiveReaders,
        name: str,
        request: ReadRequest,
        chunk: Chunk,
        caller: Caller,
        *,
        is_fresh: bool = False,
    ) -> None:
        """Wait; a chunk that is fresh was read in this turn, so the stream cannot have changed since."""
        super().__init__(self._stop)
        self._cache = caching.for_read(request.offset, caller.cache, request.origin, is_empty=True)
        self._live = live
        self._name = name
        self._chunk = chunk
        self._request = msgspec.structs.replace(request, offset=chunk.end, origin=None)
        self._is_resolved = request.origin is not None
        timeout_ms = poll_timeout_ms(request, live.settings.long_poll_timeout_ms)
        timeout_s = 0 if live.draining else min(caller.max_age_s, timeout_ms / 1000)
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self.give_up)
        live.polls.add(self)
        live.hub.watch(name, self)
        if not is_fresh:
            self.wake()

    def give_up(self) -> None:
        """Answer that there is nothing new."""
        self._answer(replies.nothing_new(self._chunk, self._live.cursor_after(self._request.cursor)))

    def wake(self) -> None:
        """Read again, and answer if there is something new."""
        live = self._live
        recent = live.responses.find(self._key(self._chunk.stream_id))
        if recent is not None:
            self._answer(recent)
            return
        found = live.read_held(self._name, self._request)
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
            reply = replies.read(found, cursor=cursor, cache=self._cache, is_resolved=self._is_resolved)
            reply = with_long_body(reply, self._live.store, self._name, found)
            if not found.lifetime:  # else each read renews it
                self._live.responses.keep(self._name, self._key(found.stream_id), reply, found.end)
            self._answer(reply)
        elif outcome is PollOutcome.END:
            self._chunk = found
            self.give_up()

    def _key(self, stream_id: int) -> Hashable:
        """Give all that an answer depends on: the place, the client's cursor, and the interval it is in."""
        interval = cursors.current_cursor(self._live.clock_ms())
        return self._name, stream_id, self._request, self._cache, self._is_resolved, interval

    def _answer(self, reply: Reply) -> None:
        if self in self._live.polls:
            self._stop()
            self.settle(reply)

    def _stop(self) -> None:
        self._timer.cancel()
        self._live.polls.discard(self)
        self._live.hub.unwatch(self._name, self)
