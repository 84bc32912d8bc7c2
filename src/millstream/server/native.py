"""The native server: HTTP/1.1 connections on uvloop and llhttp, nothing in between.

A connection is a small machine. Bytes go to the parser, whose callbacks collect a request; a whole
request goes to the routes; its answer is written at once, or when it is there:

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
from collections import Counter, deque
from typing import Any, cast

import httptools

from millstream.protocol.replies import Reply, problem
from millstream.server.frames import Frame
from millstream.server.http import Request
from millstream.server.live import EventFeed
from millstream.server.routes import Routes
from millstream.server.wire import (
    CONTINUE,
    LAST_CHUNK,
    date_line,
    encode_head,
    encode_headers,
    encode_stream_head,
)
from millstream.store.pending import Pending

_MAX_QUEUED = 64
_MAX_HEADERS = 128
_WRITE_BUFFER_BYTES = 256 * 1024
_JOIN_BYTES = 16 * 1024  # below this, one write of a copy is cheaper than two writes
_LINGER_S = 2.0
_LINGER_BYTES = 4 * 2**20


class NativeServer:
    """What all connections of a server share."""

    def __init__(self, routes: Routes, *, scheme: bytes) -> None:
        self.routes = routes
        self.settings = routes.settings
        self.scheme = scheme
        self.connections: set[Connection] = set()
        self._by_address: Counter[bytes] = Counter()
        self.draining = False
        self.now_s = 0.0  # good to a second, which is good enough for timeouts
        self._common: dict[bytes | None, bytes] = {}

    def admit(self, connection: "Connection", address: bytes) -> Reply | None:
        """Take in a connection; or say why it is one too many."""
        settings = self.settings
        refusal = None
        if len(self.connections) >= settings.max_connections:
            refusal = problem(503, "TOO_MANY_CONNECTIONS", "The server is full.", [(b"retry-after", b"1")])
        elif 0 < settings.max_connections_per_address <= self._by_address[address]:
            detail = f"More than {settings.max_connections_per_address} connections from one address."
            refusal = problem(429, "TOO_MANY_CONNECTIONS", detail, [(b"retry-after", b"1")])
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
        key = self.routes.cors.key(headers.get(b"origin"))
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
        "_body",
        "_body_bytes",
        "_chunked",
        "_closing",
        "_deadline_s",
        "_feed",
        "_field_bytes",
        "_head_bytes",
        "_headers",
        "_in_body",
        "_keep_alive",
        "_lingered",
        "_loop",
        "_parser",
        "_queue",
        "_queued_bytes",
        "_refusal",
        "_server",
        "_transport",
        "_unsent",
        "_url",
        "_waiting",
        "writable",
    )

    _transport: asyncio.Transport
    _address: bytes

    def __init__(self, server: NativeServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._parser: Any = httptools.HttpRequestParser(self)
        self._queue: deque[tuple[Request, bool]] = deque()
        self._answering: Request | None = None
        self._waiting: Pending[Any] | None = None
        self._feed: EventFeed | None = None
        self._refusal: Reply | None = None
        self._chunked = True
        self._keep_alive = True
        self._closing = False
        self._lingered = 0
        self._queued_bytes = 0
        self._unsent = 0
        self._deadline_s = 0.0
        self.writable = True
        self._begin()

    def _begin(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._head_bytes = 0  # received of a head that is not whole, or since the last byte of a body
        self._field_bytes = 0
        self._in_body = False

    # -- The transport calls these ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: a client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self._deadline_s = self._server.now_s + self._server.settings.header_timeout_s
        self._address = str((transport.get_extra_info("peername") or ("",))[0]).encode()
        self._refusal = self._server.admit(self, self._address)
        if self._refusal is not None:
            self._refuse(self._refusal)

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
        self._head_bytes += len(data)
        self._parse(data)
        if self._head_bytes:
            self._more_to_come(len(data))
        if self._refusal is not None and self._answering is None and not self._queue:
            self._refuse(self._refusal)

    def _more_to_come(self, received: int) -> None:
        """Limit what is not whole, in size and in time from its first byte on."""
        if self._head_bytes > self._server.settings.max_header_bytes:
            self._refuse_head()
        elif self._head_bytes == received and not self._in_body and self._answering is None:
            self._deadline_s = self._server.now_s + self._server.settings.header_timeout_s

    def _refuse_head(self) -> None:
        if self._refusal is None:
            too_long_url = 2 * len(self._url) > self._server.settings.max_header_bytes
            self._refusal = _URL_TOO_LONG if too_long_url else _HEADERS_TOO_LARGE

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = self._without_offer() + data[offer.args[0] :]
            except httptools.HttpParserError:
                if self._refusal is None:
                    self._refusal = problem(400, "MALFORMED_HTTP", "The request is not valid HTTP/1.1.")
                return
            else:
                return

    def _without_offer(self) -> bytes:
        """Write a request that offers another protocol once more, without the offer: we decline it.

        curl and Java offer HTTP/2 with every request, and the parser would leave out its body.
        """
        if self._refusal is not None or b"upgrade" not in self._headers:
            return b""
        version = self._parser.get_http_version().encode()
        fields = [field for field in self._headers.items() if field[0] != b"upgrade"]
        head = b"%b %b HTTP/%b\r\n" % (self._parser.get_method(), self._url, version)
        self._begin()
        self._parser = httptools.HttpRequestParser(self)
        return head + encode_headers(fields) + b"\r\n"

    def eof_received(self) -> bool:
        """Take note that the client sends no more; what it asked for is answered, if that is soon.

        A client that has hung up looks the same until it is written to, so it is not waited for.
        """
        self._keep_alive = False
        self._deadline_s = self._server.now_s + _LINGER_S
        return self._answering is not None and not self._closing

    def pause_writing(self) -> None:
        """Stop producing: the client does not keep up."""
        self.writable = False
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on: the client has caught up."""
        self.writable = True
        if not self._crowded():
            self._transport.resume_reading()
        if self._feed is not None:
            self._feed.pump()
        else:
            self._answer_next()

    # -- The parser calls these ------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a repeated one is joined, which only lists survive."""
        if self._in_body:
            return  # a trailer: it was not there when the request was checked
        name = name.lower()
        self._field_bytes += len(name) + len(value) + 4  # as it came: with ": " and CRLF
        headers = self._headers
        if name in headers:
            value = headers[name] + b", " + value
        headers[name] = value

    def on_headers_complete(self) -> None:
        """Look at the headers before the body comes: some requests are refused without it."""
        self._in_body = True
        self._head_bytes = 0
        headers = self._headers
        size = len(self._url) + self._field_bytes
        if len(headers) > _MAX_HEADERS or size > self._server.settings.max_header_bytes:
            self._refuse_head()
        if self._refusal is not None or (b"upgrade" in headers and self._parser.should_upgrade()):
            return
        host = headers.get(b"host")
        if (host is None and self._parser.get_http_version() != "1.0") or (host is not None and b"," in host):
            self._refusal = problem(400, "INVALID_HOST", "A request has one Host header.")
        length = headers.get(b"content-length", b"0")
        if int(length) > self._server.settings.max_body_bytes:
            self._refusal = self._body_too_large()
        if self._refusal is not None:
            return
        if self._answering is None and (length != b"0" or b"transfer-encoding" in headers):
            self._await_body()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body_bytes += len(body)
        if self._body_bytes > self._server.settings.max_body_bytes:
            self._body.clear()
            self._refusal = self._body_too_large()
        else:
            self._body.append(body)
            self._head_bytes = 0
            if self._answering is None:
                self._deadline_s = self._server.now_s + self._server.settings.body_timeout_s

    def _await_body(self) -> None:
        self._deadline_s = self._server.now_s + self._server.settings.body_timeout_s
        if not self._body_bytes and self._headers.get(b"expect", b"").lower() == b"100-continue":
            self._transport.write(CONTINUE)

    def on_message_complete(self) -> None:
        """Answer a whole request, now or in its turn."""
        if self._refusal is not None or self._closing:
            return
        if b"upgrade" in self._headers and self._parser.should_upgrade():
            return  # it comes once more, without the offer
        path, _, query = self._url.partition(b"?")
        if not path.startswith(b"/"):
            path = _path_of(path)
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        parser = self._parser
        scheme, method = self._server.scheme, parser.get_method()
        request = Request(method, path, query, self._headers, body, scheme, "", self._address)
        keep_alive = parser.should_keep_alive()
        self._begin()
        if self._answering is None and self.writable:
            self._answer(request, keep_alive)
        else:
            self._queue.append((request, keep_alive))
            self._queued_bytes += len(body)
            if self._crowded():
                self._transport.pause_reading()

    # -- Answering -------------------------------------------------------------------------------

    def _answer(self, request: Request, keep_alive: bool) -> None:
        self._answering = request
        self._keep_alive = self._keep_alive and keep_alive and not self._server.draining
        self._deadline_s = 0.0
        answer = self._server.routes.handle(request)
        if isinstance(answer, Pending):
            self._waiting = answer
            answer.then(self._finish)
        else:
            self._finish(answer)

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
        if len(body) < _JOIN_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        self._done()

    def _done(self) -> None:
        self._answering = None
        if not self._keep_alive:
            self._close()
        elif self._queue:
            self._loop.call_soon(self._answer_next)
        elif self._refusal is not None:
            self._refuse(self._refusal)
        elif self._in_body:
            self._await_body()
        else:
            settings = self._server.settings
            timeout_s = settings.header_timeout_s if self._head_bytes else settings.idle_timeout_s
            self._deadline_s = self._server.now_s + timeout_s

    def _answer_next(self) -> None:
        if self._queue and self._answering is None and self.writable and not self._closing:
            request, keep_alive = self._queue.popleft()
            self._queued_bytes -= len(request.body)
            if not self._crowded():
                self._transport.resume_reading()
            self._answer(request, keep_alive)

    def _crowded(self) -> bool:
        """Tell whether as many requests wait as one client may have waiting."""
        return len(self._queue) >= _MAX_QUEUED or self._queued_bytes > self._server.settings.max_body_bytes

    # -- Feeding events --------------------------------------------------------------------------

    def _start_feed(self, feed: EventFeed) -> None:
        request = self._answering
        if request is None or self._closing:
            return
        self._chunked = self._parser.get_http_version() != "1.0"
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

    def tick(self, now_s: float) -> None:
        """End a connection that has kept us waiting for too long."""
        if not self._deadline_s or now_s < self._deadline_s:
            return
        if self._closing or self._answering is not None:
            self._transport.abort()
        elif self._in_body or self._head_bytes:
            self._refuse(problem(408, "TIMEOUT", "The request took too long to arrive."))
        elif (unsent := self._transport.get_write_buffer_size()) != self._unsent:
            self._unsent = unsent  # the client is still taking its answer
            self._deadline_s = now_s + self._server.settings.idle_timeout_s
        else:
            self._close()

    def drain(self) -> None:
        """End when what was begun is answered; at once if nothing was."""
        self._keep_alive = False
        if self._answering is None and not self._queue and not self._in_body and not self._head_bytes:
            self._close()

    def _refuse(self, reply: Reply) -> None:
        """Answer a request that is not read to its end, and close."""
        common = self._server.common_headers(self._headers)
        self._transport.write(encode_head(reply, common, has_body=True, keep_alive=False) + reply.body)
        self._close()

    def _close(self) -> None:
        """Close so that the reply arrives: say that we are done, drop what still comes in, then hang up."""
        if self._closing:
            return
        self._closing = True
        self._deadline_s = self._server.now_s + _LINGER_S
        if self._transport.can_write_eof() and (self._in_body or self._head_bytes or self._refusal):
            self._transport.write_eof()
        else:
            self._transport.close()

    def _body_too_large(self) -> Reply:
        limit = self._server.settings.max_body_bytes
        return problem(413, "BODY_TOO_LARGE", f"A request body is at most {limit} bytes.")


_URL_TOO_LONG = problem(414, "URL_TOO_LONG", "The URL is too long.")
_HEADERS_TOO_LARGE = problem(431, "HEADERS_TOO_LARGE", "The headers are too large or too many.")


def _path_of(target: bytes) -> bytes:
    """Cut the path out of an absolute target (`http://host/path`), as proxies send it."""
    _, separator, rest = target.partition(b"://")
    _, slash, path = rest.partition(b"/")
    return slash + path if separator and slash else target
