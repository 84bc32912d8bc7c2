"""Reads as an AnyCable server answers them, of the same streams.

        GET  /ds/<stream>?offset=...                    a JSON array
        GET  /ds/<stream>?offset=...&live=long-poll     the same, once there is data; 204 after a timeout
        GET  /ds/<stream>?offset=...&live=sse           events, until the client has to reconnect
        HEAD /ds/<stream>                               where the stream ends

The decisions are those of other reads: the same store, the same rules of `protocol`. The differences are
on the wire: offsets carry an epoch (`offsets`), an offset of a deleted stream is 410, every read has a
cursor, and only JSON is served. A stream that does not exist reads as empty, and a live read waits for it.
"""

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Final

from millstream.protocol import caching, headers, problems, replies
from millstream.protocol.content import Kind
from millstream.protocol.cursors import parse_cursor
from millstream.protocol.expiry import FOREVER
from millstream.protocol.http import Header, Reply
from millstream.protocol.offsets import parse_offset as parse_position
from millstream.protocol.queries import Query
from millstream.protocol.reads import Chunk, PollOutcome, poll_outcome
from millstream.protocol.replies import reply_to
from millstream.protocol.requests import LiveMode, ReadRequest, parse_live
from millstream.protocol.sse import CONTROL_OFFSET, control_event
from millstream.protocol.streams import NotFound, SoftDeleted, Stream
from millstream.server.anycable.offsets import NO_STREAM, Offset, format_offset, parse_offset
from millstream.server.live.feeds import Sink
from millstream.server.live.frames import Frame
from millstream.server.live.long_polls import LongPoll
from millstream.server.live.readers import Caller, LiveReaders
from millstream.server.live.stream_feeds import StreamFeed
from millstream.server.request import Answer, Request
from millstream.server.telemetry.latencies import LIVE
from millstream.server.telemetry.metrics import Metrics
from millstream.store.base import Head, Read
from millstream.store.pending import when

_VERSION: Final[Header] = (b"x-anycable-version", b"millstream/" + version("millstream").encode())
_EVENT_STREAM: Final = b"private, no-cache, no-store, must-revalidate, max-age=0"
_NOT_YET: Final = Chunk(NO_STREAM, b"application/json", Kind.JSON, FOREVER, 0, 0, b"", True, False)
"""What is read of a stream that does not exist."""


class Reads:
    """Answers the reads of AnyCable's clients."""

    def __init__(
        self, live: LiveReaders, metrics: Metrics, coded: Callable[[Request, Reply], Answer]
    ) -> None:
        self._live = live
        self._metrics = metrics
        self._coded = coded

    def answer(self, name: str, request: Request) -> Answer:
        """Answer a GET or a HEAD."""
        self._metrics.reads += 1
        if request.method == b"HEAD":
            return when(self._live.store.head(name, self._live.clock_ms()), _head)
        query = Query(request.query)
        cursor, mode = query.one(b"cursor"), parse_live(query)
        offset = parse_offset(query.one(b"offset") or b"")
        read = ReadRequest(offset.position, mode, parse_cursor(cursor) if cursor is not None else None)
        now_ms = self._live.clock_ms()
        found = self._live.store.read(name, read, self._live.held_bytes, now_ms, peek=mode is LiveMode.SSE)
        return when(found, partial(self._found, name, request, offset, read))

    def _found(self, name: str, request: Request, offset: Offset, read: ReadRequest, found: Read) -> Answer:
        if isinstance(found, NotFound | SoftDeleted) and offset.stream_id is not None:
            return problems.STALE_OFFSET  # the stream that it belongs to was deleted
        if isinstance(found, NotFound):
            found = _NOT_YET
        if not isinstance(found, Chunk):
            return _translate(reply_to(found))
        if found.kind is not Kind.JSON:
            return problems.NOT_JSON
        if not offset.fits(found.stream_id):
            return problems.STALE_OFFSET
        caller = Caller(request.grant.lasts_s(self._live.clock_ms() / 1000), request.cache_control)
        if read.live is LiveMode.SSE:
            self._metrics.feeds += 1
            return Feed(self._live, name, read, found, caller)
        if read.live is LiveMode.LONG_POLL:
            self._metrics.polls += 1
            request.route = LIVE
            outcome = poll_outcome(found, read.until)
            if outcome is PollOutcome.END:
                return _translate(replies.nothing_new(found, 0), found.stream_id)
            if outcome is PollOutcome.WAIT:
                poll = Poll(self._live, name, read, found, caller)
                return when(poll, partial(self._polled, poll))
        cache = caching.for_read(read.offset, request.cache_control)
        reply = replies.read(
            found,
            request.headers.get(b"if-none-match") if read.live is LiveMode.NO else None,
            cursor=self._live.cursor_after(read.cursor),
            cache=cache if found is not _NOT_YET else caching.NO_STORE,
        )
        return self._coded(request, _translate(reply, found.stream_id))

    def _polled(self, poll: "Poll", reply: Reply) -> Reply:
        if reply.status == 204 and self._live.draining:
            return problems.GOING_AWAY
        if reply is problems.NOT_JSON:
            return reply
        return _translate(reply, poll.stream_id) if reply.status < 400 else problems.STALE_OFFSET


class Poll(LongPoll):
    """A long-poll that also waits for a stream to be created."""

    __slots__ = ()

    @property
    def stream_id(self) -> int:
        """The stream that the reply is about."""
        return self._chunk.stream_id

    def _found(self, found: Read) -> None:
        if self._chunk.stream_id == NO_STREAM:
            if isinstance(found, NotFound):
                return
            if isinstance(found, Chunk):
                self._chunk = found
                if found.kind is not Kind.JSON:
                    self._answer(problems.NOT_JSON)
                    return
        super()._found(found)


class Feed(StreamFeed):
    """An event stream with AnyCable's offsets.

    On a stream that does not exist it sends one control event and waits. It ends when the stream is
    created, and the client reconnects.
    """

    __slots__ = ()

    def __init__(
        self, live: LiveReaders, name: str, request: ReadRequest, chunk: Chunk, caller: Caller
    ) -> None:
        super().__init__(live, name, request, chunk, caller)
        fields = dict(self.head.headers) | {b"cache-control": _EVENT_STREAM}
        self.head = Reply(200, [*fields.items(), _VERSION])

    def start(self, sink: Sink) -> None:
        """Begin to send."""
        super().start(_TranslatingSink(sink))

    def _send(self, frame: Frame | None) -> None:
        if frame is None and self._stream_id == NO_STREAM:
            if not self._begun and self._sink is not None:
                self._begun = True
                cursor = self._live.cursor_after(None)
                event = control_event(0, cursor, up_to_date=True, closed=False)
                self._sink.write(Frame(NO_STREAM, event, 0, has_data=False, more=False, last=False))
            return
        super()._send(frame)


class _TranslatingSink:
    """A sink that writes AnyCable's offsets where a frame has ours."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    @property
    def writable(self) -> bool:
        """Whether the client takes more."""
        return self._sink.writable

    def write(self, frame: Frame) -> None:
        """Send a frame. Its last event is a control event, which begins with the offset."""
        before, found, after = frame.events.rpartition(CONTROL_OFFSET)
        if found:
            offset = format_offset(frame.end, frame.stream_id)
            events = before + found + offset + after[after.index(b'"') :]
            frame = Frame(
                frame.stream_id, events, frame.end, has_data=frame.has_data, more=frame.more, last=frame.last
            )
        self._sink.write(frame)

    def finish(self) -> None:
        """End the answer cleanly."""
        self._sink.finish()


def _head(found: Head) -> Reply:
    if isinstance(found, NotFound):
        about = [(headers.CONTENT_TYPE, _NOT_YET.content_type), (headers.STREAM_NEXT_OFFSET, b"0")]
        return Reply(200, [_VERSION, *about, (b"cache-control", caching.NO_STORE)])
    if not isinstance(found, Stream):
        return _translate(reply_to(found))
    if found.kind is not Kind.JSON:
        return problems.NOT_JSON
    return _translate(replies.head(found), found.id)


def _translate(reply: Reply, stream_id: int = NO_STREAM) -> Reply:
    """Give a reply AnyCable's offsets and its version header."""
    fields = [_VERSION]
    for name, value in reply.headers:
        if name == headers.STREAM_NEXT_OFFSET:
            value = format_offset(parse_position(value), stream_id)
        fields.append((name, value))
    return Reply(reply.status, fields, reply.body)
