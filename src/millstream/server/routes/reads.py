"""Reads: GET and HEAD of a stream, from the request to its answer.

A read is answered in one of four ways: with a recent response that many readers share, with a chunk that is
held in memory (compressed if the client asks for it), piece by piece from the store, or live.
"""

import asyncio
from collections.abc import Callable, Hashable
from functools import partial

from millstream.protocol import caching, cursors, headers, replies
from millstream.protocol.http import Header, Reply
from millstream.protocol.origins import Ago
from millstream.protocol.queries import Query
from millstream.protocol.reads import Chunk, PollOutcome, poll_outcome
from millstream.protocol.replies import reply_to
from millstream.protocol.requests import (
    NOT_LIVE,
    LiveMode,
    ReadRequest,
    asks_what_get_answers,
    parse_read,
)
from millstream.protocol.streams import Stream
from millstream.server import compression
from millstream.server.compression import MIN_BYTES
from millstream.server.live.feeds import EventFeed
from millstream.server.live.long_polls import LongPoll
from millstream.server.live.readers import Caller, LiveReaders
from millstream.server.live.stream_feeds import StreamFeed
from millstream.server.long_answers import PIECE_BYTES, with_long_body
from millstream.server.request import Answer, Request
from millstream.server.settings import Settings
from millstream.server.telemetry.latencies import LIVE
from millstream.server.telemetry.metrics import Metrics
from millstream.server.workers import COMPRESSION_THREADS, Workers
from millstream.store.base import Head, Read, Store
from millstream.store.pending import Eventually, Pending, when

_COMPRESS_IN_THREAD_BYTES = 64 * 1024
_VARY = (b"vary", b"accept-encoding")


class ReadRoutes:
    """Answers reads."""

    settings: Settings

    def __init__(
        self, store: Store, live: LiveReaders, metrics: Metrics, clock_ms: Callable[[], int]
    ) -> None:
        self.store = store
        self.live = live
        self.metrics = metrics
        self._clock_ms = clock_ms
        self._workers = Workers("compression", COMPRESSION_THREADS)
        self.close = self._workers.close

    def read(self, name: str, request: Request) -> Answer:
        """Answer a GET."""
        self.metrics.reads += 1
        fields = request.headers
        key = request.path + b"?" + request.query
        if request.token or b"authorization" in fields:  # else the response is public
            key = request.cache_control + key  # a path begins with a slash, so these never collide
        if b"accept-encoding" in fields:
            key = fields[b"accept-encoding"] + b"\n" + key  # which no header and no URL contains
        recent = self.live.responses.find(key)
        if recent is not None and b"if-none-match" not in fields:
            return recent
        read = parse_read(Query(request.query))
        if read.live is not NOT_LIVE:
            return self._live_read(name, request, read)
        max_bytes = self.settings.max_chunk_bytes
        found = self.store.read(name, read, max_bytes, self._clock_ms(), held_bytes=PIECE_BYTES)
        if isinstance(found, Chunk):  # the common case, without a detour
            return self._read_reply(name, request, read, key, found)
        return when(found, partial(self._read_reply, name, request, read, key))

    def _read_reply(self, name: str, request: Request, read: ReadRequest, key: bytes, found: Read) -> Answer:
        if isinstance(found, Chunk) and found.end - found.start > self.live.held_bytes:
            if not self._compresses(request, found):
                return self._long_reply(name, request, read, found)
            return when(self.live.read_held(name, read), partial(self._coded_reply, name, request, read))
        reply = _read_reply(request, read, found)
        answer = self.coded(request, reply) if len(reply.body) >= MIN_BYTES else reply
        is_lasting = reply.status == 200 and not isinstance(read.origin, Ago)  # that changes by itself
        if is_lasting and isinstance(found, Chunk) and not found.lifetime and isinstance(answer, Reply):
            self.live.responses.keep(name, key, answer, found.end)
        return answer

    def _coded_reply(self, name: str, request: Request, read: ReadRequest, found: Read) -> Answer:
        """Compress a long response; a single message that is too long for that is sent as it is."""
        if isinstance(found, Chunk) and not found.is_held:
            return self._long_reply(name, request, read, found)
        return self.coded(request, _read_reply(request, read, found))

    def _long_reply(self, name: str, request: Request, read: ReadRequest, found: Chunk) -> Reply:
        reply = with_long_body(_read_reply(request, read, found), self.store, name, found)
        return Reply(200, [*reply.headers, _VARY], reply.body) if reply.status == 200 else reply

    def _compresses(self, request: Request, found: Chunk) -> bool:
        accepted = request.headers.get(b"accept-encoding", b"")
        return self.settings.compress and compression.choose(accepted, found.content_type) is not None

    def coded(self, request: Request, reply: Reply) -> Answer:
        """Compress a reply if it is worth it, off the event loop when it is large."""
        body = reply.body
        if len(body) < MIN_BYTES or reply.status != 200 or not self.settings.compress:
            return reply
        assert isinstance(body, bytes)  # what is longer is not compressed
        coding, fields = _choose_coding(request, reply)
        if coding is None or len(body) < _COMPRESS_IN_THREAD_BYTES:
            return Reply(200, fields, compression.compress(body, coding) if coding else body)
        work = self._workers.start(partial(compression.compress, body, coding))

        def drop() -> None:
            """Do not begin: the client has left while others had their turn."""
            work.cancel()

        pending: Pending[Reply | EventFeed] = Pending(drop)

        def settle(done: asyncio.Future[bytes]) -> None:
            if not done.cancelled():
                pending.settle(Reply(200, fields, done.result()))

        work.add_done_callback(settle)
        return pending

    def _live_read(self, name: str, request: Request, read: ReadRequest) -> Answer:
        sse = read.live is LiveMode.SSE
        self.metrics.feeds += sse
        self.metrics.polls += not sse
        request.route = LIVE
        now_ms = self._clock_ms()
        caller = Caller(request.grant.lasts_s(now_ms / 1000), request.cache_control)
        if sse:
            found = self.store.read(name, read, self.settings.max_chunk_bytes, now_ms, peek=True)
            return when(found, partial(self._feed, name, read, caller))
        key = name, read, caller.cache, cursors.current_cursor(now_ms)
        recent = self.live.responses.find(key)
        if recent is not None:
            return recent
        found = self.live.read_held(name, read)
        if isinstance(found, Pending):
            return when(found, partial(self._long_poll, name, read, caller, key, is_fresh=False))
        return self._long_poll(name, read, caller, key, found, is_fresh=True)

    def _feed(self, name: str, read: ReadRequest, caller: Caller, found: Read) -> Reply | EventFeed:
        if not isinstance(found, Chunk):
            return reply_to(found)
        return StreamFeed(self.live, name, read, found, caller)

    def _long_poll(
        self, name: str, read: ReadRequest, caller: Caller, key: Hashable, found: Read, *, is_fresh: bool
    ) -> Answer:
        if not isinstance(found, Chunk):
            return reply_to(found)
        outcome = poll_outcome(found, read.until)
        if outcome is PollOutcome.DATA:
            cursor, is_resolved = self.live.cursor_after(read.cursor), read.origin is not None
            cache = caching.for_read(read.offset, caller.cache, read.origin)
            reply = replies.read(found, cursor=cursor, cache=cache, is_resolved=is_resolved)
            reply = with_long_body(reply, self.store, name, found)
            if not found.lifetime and not isinstance(read.origin, Ago):
                self.live.responses.keep(name, key, reply, found.end)
            return reply
        if outcome is PollOutcome.END:
            return replies.nothing_new(found, 0)
        return LongPoll(self.live, name, read, found, caller, is_fresh=is_fresh)

    def head(self, name: str, request: Request) -> Answer:
        """Answer a HEAD."""
        self.metrics.reads += 1
        query = Query(request.query)
        if not asks_what_get_answers(query):
            return self._describe(name, request)
        read = parse_read(query)
        found = self.store.read(name, read, self.settings.max_chunk_bytes, self._clock_ms(), peek=True)

        def shorten(found: Read) -> Eventually[Read]:
            if not isinstance(found, Chunk) or found.end - found.start <= self.live.held_bytes:
                return found
            return self.live.read_held(name, read, peek=True) if self._compresses(request, found) else found

        def reply(found: Read) -> Reply:
            reply = _read_reply(request, read, found)
            size = found.end - found.start if isinstance(found, Chunk) else 0
            if size < MIN_BYTES or reply.status != 200 or not self.settings.compress:
                return reply
            if size > self.live.held_bytes:
                return Reply(200, [*reply.headers, _VARY])
            return Reply(200, _choose_coding(request, reply)[1])

        return when(when(found, shorten), reply)

    def _describe(self, name: str, request: Request) -> Answer:
        """Answer a HEAD that asks about the stream."""
        responses, is_conditional = self.live.responses, b"if-none-match" in request.headers
        recent = responses.find(name)  # reads have other keys
        if recent is not None and not is_conditional:
            return recent

        def reply(found: Head) -> Reply:
            if not isinstance(found, Stream):
                return reply_to(found)
            reply = replies.head(found, request.headers.get(b"if-none-match"))
            if not found.lifetime and not is_conditional:
                responses.keep(name, name, reply, found.tail)
            return reply

        return when(self.store.head(name, self._clock_ms()), reply)


def _read_reply(request: Request, read: ReadRequest, found: Read) -> Reply:
    if not isinstance(found, Chunk):
        return reply_to(found)
    return replies.read(
        found,
        request.headers.get(b"if-none-match"),
        cache=caching.for_read(
            read.offset, request.cache_control, read.origin, is_empty=found.start == found.end
        ),
        is_resolved=read.origin is not None,
    )


def _choose_coding(request: Request, reply: Reply) -> tuple[bytes | None, list[Header]]:
    """Choose how a reply is compressed, and give the headers that it has then."""
    accepted = request.headers.get(b"accept-encoding", b"")
    if not accepted:
        return None, [*reply.headers, _VARY]
    fields = dict(reply.headers)
    coding = compression.choose(accepted, fields.get(headers.CONTENT_TYPE, b""))
    if coding is not None:
        fields[b"content-encoding"] = coding
        if b"etag" in fields:
            fields[b"etag"] = caching.encoded_tag(fields[b"etag"], coding)
    return coding, [*fields.items(), _VARY]
