"""Reads as an AnyCable server answers them, of the same streams.

        GET  /ds/<stream>?offset=...                    a JSON array
        GET  /ds/<stream>?offset=...&live=long-poll     the same, once there is something; 204 if not
        GET  /ds/<stream>?offset=...&live=sse           events, until the client has to come back
        HEAD /ds/<stream>                               where the stream ends

Everything is decided by the parts that answer other reads. What differs is how it is said: offsets have
an epoch (`offsets`), a stale one is 410, every read has a cursor, and only JSON is served. And nobody
makes streams: one that is not there reads as empty, and can be waited for.
"""

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Final

from millstream.protocol import caching, headers, replies
from millstream.protocol.content import Kind
from millstream.protocol.cursors import parse_cursor
from millstream.protocol.errors import MalformedError
from millstream.protocol.expiry import FOREVER
from millstream.protocol.offsets import NOW
from millstream.protocol.offsets import parse_offset as parse_position
from millstream.protocol.queries import Query
from millstream.protocol.reads import Chunk
from millstream.protocol.replies import Header, Reply, problem, reply_to
from millstream.protocol.requests import Live as LiveMode
from millstream.protocol.requests import ReadRequest, parse_live
from millstream.protocol.sse import CONTROL_OFFSET, control_event
from millstream.protocol.streams import NotFound, SoftDeleted, Stream
from millstream.server.anycable.offsets import NOBODY, Offset, format_offset, parse_offset
from millstream.server.live.feeds import EventFeed, Sink
from millstream.server.live.frames import Frame
from millstream.server.live.long_polls import LongPoll
from millstream.server.live.readers import Caller, LiveReaders
from millstream.server.request import Answer, Request
from millstream.server.telemetry.metrics import Metrics
from millstream.store.base import Head, Read
from millstream.store.pending import when

_VERSION: Final[Header] = (b"x-anycable-version", b"millstream/" + version("millstream").encode())
_EVENT_STREAM: Final = b"private, no-cache, no-store, must-revalidate, max-age=0"
_STALE: Final = problem(410, "OFFSET_GONE", "The stream is not the one in which the offset was given.")
_NOT_JSON: Final = problem(400, "NOT_JSON", "AnyCable's clients read JSON streams only.")
_NOT_YET: Final = Chunk(NOBODY, b"application/json", Kind.JSON, FOREVER, 0, 0, b"", True, False)
_GOING_AWAY: Final = problem(410, "GOING_AWAY", "The server is shutting down.")


class Reads:
    """What AnyCable's clients are answered."""

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
        text, cursor = query.one(b"offset"), query.one(b"cursor")
        mode = parse_live(query.one(b"live"))
        if mode is not LiveMode.NO and text is None:
            raise MalformedError("MISSING_OFFSET", "A live read needs an offset; offset=-1 is the start.")
        offset = parse_offset(text or b"")
        read = ReadRequest(offset.position, mode, parse_cursor(cursor) if cursor is not None else None)
        now_ms = self._live.clock_ms()
        found = self._live.store.read(name, read, self._live.piece_bytes, now_ms, peek=mode is LiveMode.SSE)
        return when(found, partial(self._found, name, request, offset, read))

    def _found(self, name: str, request: Request, offset: Offset, read: ReadRequest, found: Read) -> Answer:
        if isinstance(found, NotFound | SoftDeleted) and offset.stream_id is not None:
            return _STALE  # it is no more
        if isinstance(found, NotFound):
            found = _NOT_YET
        if not isinstance(found, Chunk):
            return _said(reply_to(found))
        if found.kind is not Kind.JSON:
            return _NOT_JSON
        if not offset.fits(found.stream_id):
            return _STALE
        caller = Caller(request.grant.lasts_s(self._live.clock_ms() / 1000), request.cache_control)
        if read.live is LiveMode.SSE:
            self._metrics.feeds += 1
            return Feed(self._live, name, read, found, caller)
        if read.live is LiveMode.LONG_POLL:
            self._metrics.polls += 1
            if not found.data and found.at_end:
                return _said(replies.nothing_new(found, 0), found.stream_id)
            if not found.data:
                poll = Poll(self._live, name, read, found, caller)
                return when(poll, partial(self._polled, poll))
        reply = replies.read(
            found,
            request.headers.get(b"if-none-match") if read.live is LiveMode.NO else None,
            at_tail=read.offset == NOW or found is _NOT_YET,
            cursor=self._live.cursor_after(read.cursor),
            cache=request.cache_control,
        )
        return self._coded(request, _said(reply, found.stream_id))

    def _polled(self, poll: "Poll", reply: Reply) -> Reply:
        if reply.status == 204 and self._live.draining:
            return _GOING_AWAY
        if reply is _NOT_JSON:
            return reply
        return _said(reply, poll.stream_id) if reply.status < 400 else _STALE


class Poll(LongPoll):
    """A long-poll that also waits for a stream that is not there yet."""

    __slots__ = ()

    @property
    def stream_id(self) -> int:
        """The stream that is answered with."""
        return self._chunk.stream_id

    def _found(self, found: Read) -> None:
        if self._chunk.stream_id == NOBODY:
            if isinstance(found, NotFound):
                return
            if isinstance(found, Chunk):
                self._chunk = found
                if found.kind is not Kind.JSON:
                    self._answer(_NOT_JSON)
                    return
        super()._found(found)


class Feed(EventFeed):
    """Events whose offsets are AnyCable's.

    Those of a stream that is not there yet are one that says so. When it is made they end, and the
    client comes back.
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
        super().start(_Translated(sink))

    def _send(self, frame: Frame | None) -> None:
        if frame is None and self._stream_id == NOBODY:
            if not self._begun and self._sink is not None:
                self._begun = True
                cursor = self._live.cursor_after(None)
                event = control_event(0, cursor, up_to_date=True, closed=False)
                self._sink.write(Frame(NOBODY, event, 0, has_data=False, more=False, last=False))
            return
        super()._send(frame)


class _Translated:
    """A sink that writes AnyCable's offsets where a frame has ours."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    @property
    def writable(self) -> bool:
        """Whether the client takes more."""
        return self._sink.writable

    def write(self, frame: Frame) -> None:
        """Send a frame. Its last event is the control event, which begins with the offset."""
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
        return _said(reply_to(found))
    if found.kind is not Kind.JSON:
        return _NOT_JSON
    return _said(replies.head(found), found.id)


def _said(reply: Reply, stream_id: int = 0) -> Reply:
    """Write a reply as AnyCable would."""
    fields = [_VERSION]
    for name, value in reply.headers:
        if name == headers.STREAM_NEXT_OFFSET:
            value = format_offset(parse_position(value), stream_id)
        fields.append((name, value))
    return Reply(reply.status, fields, reply.body)
