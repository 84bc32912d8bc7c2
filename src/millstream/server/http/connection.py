"""One client's HTTP/1.1 connection: a state machine between the transport and the routes.

The parser turns bytes into requests. A complete request goes to the routes, and its response is written
at once, or when it is ready:

        READING --request--> ANSWERING --response written--> READING
           |                     |
           | too large,          | server-sent events: FEEDING until the stream or the client ends
           | malformed           |
           v                     v
        CLOSING  (the response is written, further input is dropped)

Requests that arrive while one is being answered are queued, so that responses keep their order. While a
client does not read its responses, its requests are not read either.

Bodies that do not arrive in one segment have a minimum rate, and count towards what all connections may hold
together (`bodies`).
"""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

from millstream.protocol import problems
from millstream.protocol.http import Body, Reply
from millstream.server.http.bodies import due_bytes
from millstream.server.http.local_peers import send_unpaced_if_local
from millstream.server.http.parser import RequestParser
from millstream.server.http.sendfile import file_sender
from millstream.server.http.server import NativeServer
from millstream.server.http.wire import CONTINUE, LAST_CHUNK, encode_head, encode_stream_head
from millstream.server.live.feeds import EventFeed
from millstream.server.live.frames import Frame
from millstream.server.long_answers import LongBody, StreamLostError
from millstream.server.request import Request
from millstream.server.telemetry.latencies import Timing
from millstream.store.pending import Pending

_WRITE_BUFFER_BYTES = 256 * 1024
_JOIN_BYTES = 16 * 1024  # below this, one write of a copy is cheaper than two writes
_YIELD_BYTES = 32 * 1024  # the transport reads on at once while so much arrives, and small chunks cost time
_LINGER_S = 2.0
_LINGER_BYTES = 4 * 2**20

_FEED_REQUEST = Request(b"GET", b"", b"", {}, b"")
"""Stands for the request of a feed once that has begun: a feed needs nothing more of it, and lasts long."""


class Connection(asyncio.Protocol):
    """One client's connection."""

    __slots__ = (
        "_address",
        "_answering",
        "_awaits_room",
        "_chunked",
        "_claims_room",
        "_closing",
        "_deadline_s",
        "_due_bytes",
        "_feed",
        "_held_bytes",
        "_keep_alive",
        "_lingered",
        "_loop",
        "_parser",
        "_pieces",
        "_server",
        "_timing",
        "_transport",
        "_unsent",
        "_waiting",
        "writable",
    )

    _transport: asyncio.Transport
    _address: bytes
    _parser: RequestParser

    def __init__(self, server: NativeServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._answering: Request | None = None
        self._waiting: Pending[Any] | None = None
        self._timing: Timing | None = None
        self._feed: EventFeed | None = None
        self._pieces: Iterator[bytes] | None = None
        self._chunked = True
        self._keep_alive = True
        self._closing = False
        self._lingered = 0
        self._unsent = 0
        self._deadline_s = 0.0
        self._due_bytes = 0.0
        self._held_bytes = 0
        self._claims_room = False
        self._awaits_room = False
        self.writable = True

    # -- The transport calls these ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the connection: a client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        send_unpaced_if_local(transport)
        self._wait_at_most(self._server.settings.header_timeout_s)
        self._address = str((transport.get_extra_info("peername") or ("",))[0]).encode()
        server = self._server
        check_head = server.routes.refuse_head
        self._parser = RequestParser(server.settings, server.scheme, self._address, check_head)
        refusal = self._server.admit(self, self._address)
        if refusal is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up: the client is gone."""
        self._closing = True
        self._server.dismiss(self, self._address)
        self._parser.abandon()
        self._hold(0)
        if self._waiting is not None:
            self._waiting.abandon()
        if self._feed is not None:
            self._feed.leave()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self._closing:
            self._lingered += len(data)
            if self._lingered > _LINGER_BYTES:
                self._transport.abort()
            return
        if self._answering is None and self.writable and not self._parser.requests:
            request = self._parser.parse_whole(data)
            if request is not None:
                self._answer(request)
                return
        self._feed_parser(data)

    def _feed_parser(self, data: bytes) -> None:
        parser = self._parser
        was_idle, was_in_body, queued = parser.is_idle, parser.in_body, len(parser.requests)
        parser.feed(data)
        self._hold(parser.body_bytes + parser.queued_bytes + self._answering_bytes())
        is_new = was_idle or len(parser.requests) > queued
        if self._answering is None:
            self._answer_next()
        if parser.requests:
            if parser.is_full:
                self._transport.pause_reading()
        elif self._answering is not None:
            pass  # `_done` sets the next timeout
        elif parser.refusal is not None:
            self._refuse(parser.refusal)
        elif parser.in_body:
            if is_new or not was_in_body or parser.body_bytes >= self._due_bytes:
                self._await_body()
            if len(data) >= _YIELD_BYTES and not self._awaits_room:
                self._transport.pause_reading()
                self._server.read_turns.add(self._resume_reading)
        elif is_new and not parser.is_idle:
            self._wait_at_most(self._server.settings.header_timeout_s)

    def _resume_reading(self) -> None:
        """Go on with a body, after other connections have had their turn."""
        may_read = self.writable and not self._parser.is_full and not self._awaits_room
        if may_read and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """Answer what was asked if that is soon: the client sends no more.

        A client that has gone away looks the same until something is written to it, so it is not waited for.
        """
        self._keep_alive = False
        self._wait_at_most(_LINGER_S)
        return self._answering is not None and not self._closing

    def pause_writing(self) -> None:
        """Stop writing and reading: the client does not keep up."""
        self.writable = False
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Continue: the client has caught up."""
        self.writable = True
        self._resume_reading()
        if self._feed is not None:
            self._feed.pump()
        elif self._pieces is not None:
            self._send_piece()
        else:
            self._answer_next()

    # -- Answering -------------------------------------------------------------------------------

    def _answer(self, request: Request) -> None:
        server = self._server
        if server.draining or not request.keep_alive:
            self._keep_alive = False
        self._answering = request
        latencies = server.latencies
        if latencies.skip:  # as `sample` does, without a call
            latencies.skip -= 1
        else:
            self._timing = latencies.begin()
        self._deadline_s = 0.0
        answer = server.routes.handle(request)
        if isinstance(answer, Reply):
            self._reply(answer)
        elif isinstance(answer, Pending):
            self._waiting = answer
            answer.then(self._finish)
        else:
            self._start_feed(answer)

    def _finish(self, answer: Reply | EventFeed) -> None:
        self._waiting = None
        if isinstance(answer, Reply):
            self._reply(answer)
        else:
            self._start_feed(answer)

    def _reply(self, reply: Reply) -> None:
        request = self._answering
        if request is None or self._closing:
            return
        server = self._server
        if self._timing is not None:
            self._timing.end(request, reply.status)
            self._timing = None
        if reply.status >= 400:
            server.routes.metrics.count(reply.status)
        has_body = request.method != b"HEAD"
        origin = request.headers.get(b"origin")
        common = server.common if origin is None else server.common_headers(origin)
        head = encode_head(reply, common, has_body=has_body, keep_alive=self._keep_alive)
        body = reply.body if has_body else b""
        if not isinstance(body, bytes):
            self._start_pieces(head, body)
            return
        if len(body) < _JOIN_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        self._done()

    def _start_pieces(self, head: bytes, body: Body) -> None:
        transport = self._transport
        is_in_file = isinstance(body, LongBody) and body.begins_in_file
        send_file = file_sender(transport) if is_in_file and self._server.settings.sendfile else None
        if isinstance(body, LongBody) and send_file is not None:
            transport.set_write_buffer_limits(high=0)  # then it calls back when it is empty
            self._pieces = body.pieces(send_file)
        else:
            self._pieces = body.pieces()
        transport.write(head)
        self._send_piece()

    def _send_piece(self) -> None:
        """Send the next piece of a long response if the client has room, then yield to other connections."""
        if self._pieces is None or self._closing or not self.writable or self._transport.is_closing():
            return
        self._wait_at_most(self._server.settings.idle_timeout_s)
        self._unsent = 0  # the next piece is progress, even if as many bytes of it are unsent
        try:
            piece = next(self._pieces, None)
        except StreamLostError:
            self._transport.abort()  # the promised bytes are gone: better a cut response than a wrong one
            return
        if piece is None:
            self._pieces = None
            self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
            self._done()
            return
        if piece:
            self._transport.write(piece)
        if self.writable:
            self._loop.call_soon(self._send_piece)

    def _done(self) -> None:
        """Continue after a response, with the next request or waiting for one."""
        self._answering = None
        parser, settings = self._parser, self._server.settings
        if self._held_bytes:
            self._hold(parser.body_bytes + parser.queued_bytes)
        timeout_s = settings.idle_timeout_s
        if not self._keep_alive:
            self._close()
            return
        if parser.requests:  # answered next turn; the timeout is for the client to take this response
            self._loop.call_soon(self._answer_next)
        elif parser.refusal is not None:
            self._refuse(parser.refusal)
            return
        elif parser.in_body:
            self._await_body()
            return
        elif not parser.is_idle:
            timeout_s = settings.header_timeout_s
        self._deadline_s = self._server.now_s + timeout_s

    def _answer_next(self) -> None:
        parser = self._parser
        if parser.requests and self._answering is None and self.writable and not self._closing:
            was_full = parser.is_full
            request = parser.take()
            if was_full:
                self._resume_reading()
            self._answer(request)

    def _await_body(self) -> None:
        """Give the body time, until as many bytes have come as the minimum rate demands in that time."""
        settings = self._server.settings
        self._wait_at_most(settings.body_timeout_s)
        self._due_bytes = due_bytes(self._parser.body_bytes, settings)
        if not self._awaits_room and self._parser.claim_continue():
            self._transport.write(CONTINUE)

    def _answering_bytes(self) -> int:
        return len(self._answering.body) if self._answering is not None else 0

    def _hold(self, held_bytes: int) -> None:
        """Report how many bytes of bodies this connection holds, and claim room for a large one."""
        before, self._held_bytes = self._held_bytes, held_bytes
        bodies = self._server.bodies
        if self._parser.large_body_bytes:
            self._claims_room = True
            bodies.report(held_bytes - before)
            if size := self._parser.large_body_bytes:  # otherwise it was just refused, for others
                bodies.claim(self, self._parser.body_bytes, size)
        elif self._claims_room:
            self._claims_room = self._awaits_room = False
            bodies.forget(self)
            bodies.report(held_bytes - before)
            self._resume_reading()
        elif held_bytes != before:
            bodies.report(held_bytes - before)

    def await_room(self, *, is_slow: bool) -> None:
        """Stop reading the body that is arriving."""
        self._awaits_room = True
        self._transport.pause_reading()
        if not is_slow and self._answering is None:
            self._wait_at_most(self._server.settings.body_timeout_s)

    def resume_body(self, *, is_slow: bool) -> None:
        """Read the body that is arriving: there is room for it."""
        self._awaits_room = False
        if not is_slow and self._answering is None:
            self._await_body()
        self._resume_reading()

    def refuse_body(self) -> None:
        """Give up the body that is arriving: others need the room."""
        self._parser.refuse(problems.BODIES_FULL)
        self._hold(self._parser.queued_bytes + self._answering_bytes())
        if self._answering is None and not self._parser.requests:
            self._refuse(problems.BODIES_FULL)

    # -- Feeding events --------------------------------------------------------------------------

    def _start_feed(self, feed: EventFeed) -> None:
        request = self._answering
        if request is None or self._closing:
            return
        self._timing = None  # how long a feed stays open is no latency
        self._chunked = request.takes_chunks
        common = self._server.common_headers(request.headers.get(b"origin"))
        self._transport.write(encode_stream_head(feed.head, common, chunked=self._chunked))
        self._answering = _FEED_REQUEST
        self._feed = feed
        feed.start(self)

    def write(self, frame: Frame) -> None:
        """Send a frame of the feed."""
        self._transport.write(frame.as_chunk if self._chunked else frame.events)

    def finish(self) -> None:
        """End the feed's response."""
        self._feed = None
        if self._chunked:
            self._transport.write(LAST_CHUNK)
            self._done()
        else:
            self._close()

    # -- Ending ----------------------------------------------------------------------------------

    def _wait_at_most(self, timeout_s: float) -> None:
        self._deadline_s = self._server.now_s + timeout_s

    def tick(self, now_s: float) -> None:
        """End the connection if its client has taken too long."""
        if not self._deadline_s or now_s < self._deadline_s:
            return
        if self._closing:
            self._drop()
        elif self._answering is None and not self._parser.is_idle:
            self._refuse(problems.BODIES_FULL if self._awaits_room else problems.REQUEST_TIMEOUT)
        elif (unsent := self._transport.get_write_buffer_size()) != self._unsent:
            self._unsent = unsent  # the client is still taking its response
            self._deadline_s = now_s + self._server.settings.idle_timeout_s
        elif self._answering is not None:
            self._drop()
        else:
            self._close()

    def _drop(self) -> None:
        self._deadline_s = 0.0  # dropped, and counted, only once
        self._server.routes.metrics.dropped += self._transport.get_write_buffer_size() > 0
        self._transport.abort()

    def drain(self) -> None:
        """End once everything is answered; at once if nothing is open."""
        self._keep_alive = False
        if self._answering is None and not self._parser.requests and self._parser.is_idle:
            self._close()

    def _refuse(self, reply: Reply) -> None:
        """Answer a request that is not read to its end, then close."""
        if self._closing:
            return  # it was refused behind a request that has just been answered
        self._parser.refuse(reply)
        self._hold(self._parser.queued_bytes)
        self._server.routes.refused(self._address, reply)
        common = self._server.common_headers(self._parser.headers.get(b"origin"))
        assert isinstance(reply.body, bytes)  # a refusal is short
        self._transport.write(encode_head(reply, common, has_body=True, keep_alive=False) + reply.body)
        self._close(lingers=True)

    def _close(self, *, lingers: bool = False) -> None:
        """Close so that the response arrives: shut down writing, drop further input, then close."""
        if self._closing:
            return
        self._closing = True
        self._wait_at_most(_LINGER_S)
        if self._transport.can_write_eof() and (lingers or not self._parser.is_idle):
            self._transport.write_eof()
        else:
            self._transport.close()
