"""The native server: HTTP/1.1 connections on uvloop and llhttp, nothing in between.

A connection is a small machine. Its incoming side makes requests of bytes; a whole request goes to
the routes; its answer is written at once, or when it is there:

        READING --whole request--> ANSWERING --reply written--> READING
           |                           |
           | too large, malformed      | events (SSE): FEEDING until the stream or the client ends
           v                           v
        CLOSING  (the reply is written, what still comes in is dropped)

Requests that arrive while one is being answered wait in a queue, so that answers keep their order.
A client that does not read its answers is not read from either.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from millstream.protocol import problems
from millstream.protocol.http import Body, Reply
from millstream.server.access.cors import Cors
from millstream.server.http.heads import END, Head, Heads, Shortcut
from millstream.server.http.local_peers import send_unpaced_if_local
from millstream.server.http.parser import Incoming
from millstream.server.http.sendfile import file_sender
from millstream.server.http.wire import (
    CONTINUE,
    LAST_CHUNK,
    date_line,
    encode_head,
    encode_headers,
    encode_stream_head,
)
from millstream.server.live.frames import Frame
from millstream.server.live.readers import EventFeed
from millstream.server.long_answers import LongBody, StreamLostError
from millstream.server.request import Answer, Request
from millstream.server.settings import Settings
from millstream.server.telemetry.metrics import Metrics
from millstream.store.pending import Pending

_WRITE_BUFFER_BYTES = 256 * 1024
_JOIN_BYTES = 16 * 1024  # below this, one write of a copy is cheaper than two writes
_LINGER_S = 2.0
_LINGER_BYTES = 4 * 2**20


class Routing(Protocol):
    """Who answers the requests."""

    cors: Cors
    metrics: Metrics

    @property
    def settings(self) -> Settings:
        """How the server runs."""
        ...

    def handle(self, request: Request) -> Answer:
        """Answer a request."""
        ...

    def refused(self, client: bytes, reply: Reply) -> None:
        """Take note of an answer to what never became a whole request."""
        ...


class NativeServer:
    """What all connections of a server share."""

    def __init__(
        self,
        routes: Routing,
        *,
        scheme: bytes,
        find_shortcut: Callable[[Head], Shortcut | None] = lambda _head: None,
    ) -> None:
        self.routes = routes
        self.settings = routes.settings
        self.scheme = scheme
        self.heads = Heads(find_shortcut)
        self.connections: set[Connection] = set()
        self._by_address: Counter[bytes] = Counter()
        self.draining = False
        self.now_s = 0.0  # good to a second, which is good enough for timeouts
        self._common: dict[bytes | None, bytes] = {}

    def adopt(self, settings: Settings) -> None:
        """Go on with other settings."""
        self.settings = settings
        self.heads.clear()

    def admit(self, connection: "Connection", address: bytes) -> Reply | None:
        """Take in a connection; or say why it is one too many."""
        settings = self.settings
        refusal = None
        if len(self.connections) >= settings.max_connections:
            refusal = problems.SERVER_FULL
        elif 0 < settings.max_connections_per_address <= self._by_address[address]:
            refusal = problems.too_many_connections(settings.max_connections_per_address)
        self.connections.add(connection)
        self._by_address[address] += 1
        return refusal

    def dismiss(self, connection: "Connection", address: bytes) -> None:
        """Let go of a connection that has ended."""
        self.connections.discard(connection)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def common_headers(self, headers: dict[bytes, bytes]) -> bytes:
        """Give the encoded headers that every answer to this request has."""
        key = self.routes.cors.key(headers[b"origin"]) if b"origin" in headers else None
        common = self._common.get(key)
        if common is None:
            fields = encode_headers(self.routes.cors.common_headers(key))
            common = self._common[key] = fields + date_line(time.time())
        return common

    def tick(self, now_s: float) -> None:
        """Move the clock and end connections that have been waited for too long; about once a second."""
        self.now_s = now_s
        self._common.clear()  # it holds the date
        for connection in list(self.connections):
            connection.tick(now_s)

    def drain(self) -> None:
        """End connections as soon as they have nothing left to answer."""
        self.draining = True
        for connection in list(self.connections):
            connection.drain()


class Connection(asyncio.Protocol):
    """One client's connection."""

    __slots__ = (
        "_address",
        "_answering",
        "_chunked",
        "_closing",
        "_deadline_s",
        "_feed",
        "_incoming",
        "_keep_alive",
        "_lingered",
        "_loop",
        "_pieces",
        "_server",
        "_transport",
        "_unsent",
        "_waiting",
        "writable",
    )

    _transport: asyncio.Transport
    _address: bytes

    def __init__(self, server: NativeServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._incoming = Incoming(server.settings, server.heads)
        self._answering: Head | None = None
        self._waiting: Pending[Any] | None = None
        self._feed: EventFeed | None = None
        self._pieces: Iterator[bytes] | None = None
        self._chunked = True
        self._keep_alive = True
        self._closing = False
        self._lingered = 0
        self._unsent = 0
        self._deadline_s = 0.0
        self.writable = True

    # -- The transport calls these ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: a client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        send_unpaced_if_local(transport)
        self._wait_at_most(self._server.settings.header_timeout_s)
        self._address = str((transport.get_extra_info("peername") or ("",))[0]).encode()
        refusal = self._server.admit(self, self._address)
        if refusal is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up: the client is gone."""
        self._closing = True
        self._server.dismiss(self, self._address)
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
        incoming = self._incoming
        if incoming.between and self._answering is None and not incoming.whole and self.writable:
            end = data.find(END) + len(END)
            head = self._server.heads.find(data[:end])
            if head is not None and len(data) - end == head.length:
                self._answer(head, data[end:])
                return
        self._feed_parser(data)

    def _feed_parser(self, data: bytes) -> None:
        incoming = self._incoming
        queued, body_bytes = len(incoming.whole), incoming.body_bytes
        was_between, was_in_body = incoming.between, incoming.in_body
        incoming.feed(data)
        is_new = was_between or len(incoming.whole) > queued
        if self._answering is None:
            self._answer_next()
        if incoming.crowded:
            self._transport.pause_reading()
        if self._answering is not None or incoming.whole:
            return
        if incoming.refusal is not None:
            self._refuse(incoming.refusal)
        elif incoming.in_body:
            if is_new or incoming.body_bytes != body_bytes or not was_in_body:
                self._await_body()
        elif is_new and not incoming.between:
            self._wait_at_most(self._server.settings.header_timeout_s)

    def eof_received(self) -> bool:
        """Take note that the client sends no more; what it asked for is answered, if that is soon.

        A client that has hung up looks the same until it is written to, so it is not waited for.
        """
        self._keep_alive = False
        self._wait_at_most(_LINGER_S)
        return self._answering is not None and not self._closing

    def pause_writing(self) -> None:
        """Stop producing: the client does not keep up."""
        self.writable = False
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on: the client has caught up."""
        self.writable = True
        if not self._incoming.crowded:
            self._transport.resume_reading()
        if self._feed is not None:
            self._feed.pump()
        elif self._pieces is not None:
            self._send_piece()
        else:
            self._answer_next()

    # -- Answering -------------------------------------------------------------------------------

    def _answer(self, head: Head, body: bytes) -> None:
        server = self._server
        self._answering = head
        self._keep_alive = self._keep_alive and head.keep_alive and not server.draining
        self._deadline_s = 0.0
        answer = head.shortcut(body) if head.shortcut is not None else None
        if answer is None:
            answer = server.routes.handle(
                Request(
                    head.method, head.path, head.query, head.headers, body, server.scheme, "", self._address
                )
            )
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
        if reply.status >= 400:
            self._server.routes.metrics.count(reply.status)
        has_body = request.method != b"HEAD"
        common = self._server.common_headers(request.headers)
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
            transport.set_write_buffer_limits(high=0)  # so that it tells when it is empty
            self._pieces = body.pieces(send_file)
        else:
            self._pieces = body.pieces()
        transport.write(head)
        self._send_piece()

    def _send_piece(self) -> None:
        """Send the next piece of a long answer if the client has room, then let others have their turn."""
        if self._pieces is None or self._closing or not self.writable or self._transport.is_closing():
            return
        self._wait_at_most(self._server.settings.idle_timeout_s)
        self._unsent = 0  # what is left of the next piece is news, even if it is as much
        try:
            piece = next(self._pieces, None)
        except StreamLostError:
            self._transport.abort()  # what was promised cannot be given: better cut than wrong
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
        self._answering = None
        incoming, settings = self._incoming, self._server.settings
        if not self._keep_alive:
            self._close()
        elif incoming.whole:
            self._wait_at_most(settings.idle_timeout_s)  # for the client to take this answer first
            self._loop.call_soon(self._answer_next)
        elif incoming.refusal is not None:
            self._refuse(incoming.refusal)
        elif incoming.in_body:
            self._await_body()
        else:
            self._wait_at_most(settings.idle_timeout_s if incoming.between else settings.header_timeout_s)

    def _answer_next(self) -> None:
        incoming = self._incoming
        if incoming.whole and self._answering is None and self.writable and not self._closing:
            was_crowded = incoming.crowded
            head, body = incoming.take()
            if was_crowded and not incoming.crowded:
                self._transport.resume_reading()
            self._answer(head, body)

    def _await_body(self) -> None:
        self._wait_at_most(self._server.settings.body_timeout_s)
        if self._incoming.claim_continue():
            self._transport.write(CONTINUE)

    # -- Feeding events --------------------------------------------------------------------------

    def _start_feed(self, feed: EventFeed) -> None:
        request = self._answering
        if request is None or self._closing:
            return
        self._chunked = request.takes_chunks
        common = self._server.common_headers(request.headers)
        self._transport.write(encode_stream_head(feed.head, common, chunked=self._chunked))
        self._feed = feed
        feed.start(self)

    def write(self, frame: Frame) -> None:
        """Send a frame of the feed."""
        self._transport.write(frame.as_chunk if self._chunked else frame.events)

    def finish(self) -> None:
        """End the feed's answer."""
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
        """End a connection that has kept us waiting for too long."""
        if not self._deadline_s or now_s < self._deadline_s:
            return
        if self._closing:
            self._drop()
        elif self._answering is None and not self._incoming.between:
            self._refuse(problems.REQUEST_TIMEOUT)
        elif (unsent := self._transport.get_write_buffer_size()) != self._unsent:
            self._unsent = unsent  # the client is still taking its answer
            self._deadline_s = now_s + self._server.settings.idle_timeout_s
        elif self._answering is not None:
            self._drop()
        else:
            self._close()

    def _drop(self) -> None:
        self._server.routes.metrics.dropped += self._transport.get_write_buffer_size() > 0
        self._transport.abort()

    def drain(self) -> None:
        """End when what was begun is answered; at once if nothing was."""
        self._keep_alive = False
        if self._answering is None and not self._incoming.whole and self._incoming.between:
            self._close()

    def _refuse(self, reply: Reply) -> None:
        """Answer a request that is not read to its end, and close."""
        self._server.routes.refused(self._address, reply)
        common = self._server.common_headers(self._incoming.headers)
        assert isinstance(reply.body, bytes)  # a refusal is short
        self._transport.write(encode_head(reply, common, has_body=True, keep_alive=False) + reply.body)
        self._close(lingers=True)

    def _close(self, *, lingers: bool = False) -> None:
        """Close so that the reply arrives: say that we are done, drop what still comes in, then hang up."""
        if self._closing:
            return
        self._closing = True
        self._wait_at_most(_LINGER_S)
        if self._transport.can_write_eof() and (lingers or not self._incoming.between):
            self._transport.write_eof()
        else:
            self._transport.close()
