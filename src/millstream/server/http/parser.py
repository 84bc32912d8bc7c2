"""Requests from a connection's bytes, within limits.

Whole requests with plain heads are parsed in one pass (`heads`). llhttp parses everything else, and decides
what is malformed.

        IDLE --first byte--> HEAD --blank line--> BODY --last byte--> IDLE
                               |                    |
                               v too large,         v too large
                             refusal: nothing after it is a request
"""

from collections import deque
from typing import Any

import httptools

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.http.heads import END, parse_head
from millstream.server.http.wire import encode_headers
from millstream.server.request import Request
from millstream.server.settings import Settings

_MAX_HEADERS = 128
_MAX_QUEUED = 64


class RequestParser:
    """The reading side of a connection: takes bytes, queues `requests`."""

    __slots__ = (
        "_body",
        "_client",
        "_expects_continue",
        "_expects_plain",
        "_field_bytes",
        "_headers",
        "_llhttp",
        "_max_body_bytes",
        "_max_plain_bytes",
        "_queued_bytes",
        "_request",
        "_scheme",
        "_settings",
        "_url",
        "body_bytes",
        "head_bytes",
        "in_body",
        "is_idle",
        "refusal",
        "requests",
    )

    def __init__(self, settings: Settings, scheme: bytes, client: bytes) -> None:
        self._settings = settings
        self._scheme = scheme
        self._client = client
        self._max_body_bytes = settings.max_body_bytes
        self._max_plain_bytes = min(settings.max_header_bytes, settings.max_url_bytes)
        self._llhttp: Any = httptools.HttpRequestParser(self)
        self.requests: deque[Request] = deque()
        self._queued_bytes = 0
        self.refusal: Reply | None = None
        self._begin()

    def _begin(self) -> None:
        self.is_idle = True
        self._expects_plain = True  # False while llhttp reads a request, and after a last or refused one
        self.in_body = False
        self.head_bytes = 0  # received of a head that is not whole, or since the last byte of a body
        self.body_bytes = 0
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._request: Request | None = None
        self._body: list[bytes] = []
        self._field_bytes = 0
        self._expects_continue = False

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The headers so far of the request that is arriving."""
        return self._headers

    @property
    def is_full(self) -> bool:
        """Whether as many requests are queued as one client may have."""
        return len(self.requests) >= _MAX_QUEUED or self._queued_bytes > self._max_body_bytes

    def take(self) -> Request:
        """Take the next request from the queue."""
        request = self.requests.popleft()
        self._queued_bytes -= len(request.body)
        return request

    def claim_continue(self) -> bool:
        """Tell, once, whether the client waits for `100 Continue` before it sends its body."""
        expects, self._expects_continue = self._expects_continue, False
        return expects and not self.body_bytes

    def parse_whole(self, data: bytes) -> Request | None:
        """Parse a segment that is exactly one plain request, as most are; None leaves it to `feed`."""
        if not self._expects_plain:
            return None
        head, end, body = data.partition(END)
        if not end or len(head) > self._max_plain_bytes:
            return None
        parsed = parse_head(head, self._scheme, self._client)
        if parsed is None or parsed[1] > len(body):
            self._expects_plain = False  # this one is for llhttp: `feed` need not try again
            return None
        request, length = parsed
        if length != len(body) or length > self._max_body_bytes or len(request.headers) > _MAX_HEADERS:
            return None
        request.body = body
        return request

    def feed(self, data: bytes) -> None:
        """Take bytes, and queue the requests that are complete."""
        if self._expects_plain:
            data = self._queue_plain(data)
        self.head_bytes += len(data)
        self._feed_llhttp(data)
        settings = self._settings
        if self.head_bytes > settings.max_header_bytes or len(self._url) > settings.max_url_bytes:
            self._refuse_head()

    def _queue_plain(self, data: bytes) -> bytes:
        """Queue the plain requests at the beginning of a segment that are whole, and return the rest."""
        start = 0
        while 0 < (end := data.find(END, start)) - start <= self._max_plain_bytes:
            parsed = parse_head(data[start:end], self._scheme, self._client)
            if parsed is None:
                break
            request, length = parsed
            end += len(END)
            is_whole = end + length <= len(data)
            if not is_whole or length > self._max_body_bytes or len(request.headers) > _MAX_HEADERS:
                break
            request.body = data[end : end + length]
            self._queue(request)
            start = end + length
        return data[start:]

    def _queue(self, request: Request) -> None:
        self.requests.append(request)
        self._queued_bytes += len(request.body)

    def _feed_llhttp(self, data: bytes) -> None:
        while data:
            try:
                self._llhttp.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._without_upgrade() + data[upgrade.args[0] :]
            except httptools.HttpParserError:
                self._refuse(problems.MALFORMED_HTTP)
                return
            else:
                return

    def _without_upgrade(self) -> bytes:
        """Write the head of an upgrade request again, without `Upgrade`, to be parsed again: we decline it.

        curl and Java ask for HTTP/2 with every request, and llhttp would leave out the body.
        """
        if self.refusal is not None or b"upgrade" not in self._headers:
            return b""
        version = self._llhttp.get_http_version().encode()
        fields = [field for field in self._headers.items() if field[0] != b"upgrade"]
        head = b"%b %b HTTP/%b\r\n" % (self._llhttp.get_method(), self._url, version)
        self._begin()
        self._llhttp = httptools.HttpRequestParser(self)
        return head + encode_headers(fields) + b"\r\n"

    def _refuse(self, reply: Reply) -> None:
        self._expects_plain = False
        if self.refusal is None:
            self.refusal = reply

    def _refuse_head(self) -> None:
        too_long_url = len(self._url) > self._settings.max_url_bytes
        self._refuse(problems.URL_TOO_LONG if too_long_url else problems.HEADERS_TOO_LARGE)

    def _refuse_body(self) -> None:
        self._refuse(problems.body_too_large(self._settings.max_body_bytes))

    # -- llhttp calls these ----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request has begun."""
        self.is_idle = self._expects_plain = False

    def on_url(self, url: bytes) -> None:
        """Take a part of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a repeated one is joined, which is only valid for lists."""
        if self.in_body:
            return  # a trailer: it was not there when the request was checked
        name = name.lower()
        self._field_bytes += len(name) + len(value) + 4  # as it came: with ": " and CRLF
        value = value.strip(b" \t")  # RFC 9110, 5.5: space around a value is not part of it
        headers = self._headers
        if name in headers:
            value = headers[name] + b", " + value
        headers[name] = value

    def on_headers_complete(self) -> None:
        """Check the head before the body comes: some requests are refused without it."""
        self.in_body = True
        self.head_bytes = 0
        headers, llhttp = self._headers, self._llhttp
        url_bytes, settings = len(self._url), self._settings
        too_much = url_bytes + self._field_bytes > settings.max_header_bytes
        if too_much or len(headers) > _MAX_HEADERS or url_bytes > settings.max_url_bytes:
            self._refuse_head()
        if self.refusal is not None or self._is_upgrade():
            return
        host = headers.get(b"host")
        takes_chunks = llhttp.get_http_version() != "1.0"
        if (host is None and takes_chunks) or (host is not None and b"," in host):
            self._refuse(problems.INVALID_HOST)
            return
        if int(headers.get(b"content-length", b"0")) > settings.max_body_bytes:
            self._refuse_body()
            return
        path, _, query = self._url.partition(b"?")
        if not path.startswith(b"/"):
            path = _path_of(path)
        self._expects_continue = headers.get(b"expect", b"").lower() == b"100-continue"
        self._request = Request(
            llhttp.get_method(),
            path,
            query,
            headers,
            b"",
            self._scheme,
            "",
            self._client,
            llhttp.should_keep_alive(),
            takes_chunks,
        )

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self.body_bytes += len(body)
        if self.body_bytes > self._max_body_bytes:
            self._body.clear()
            self._refuse_body()
        else:
            self._body.append(body)
            self.head_bytes = 0

    def on_message_complete(self) -> None:
        """Queue the request."""
        if self.refusal is not None or self._is_upgrade():
            return  # an upgrade request is parsed again, without `Upgrade`
        request = self._request
        assert request is not None
        request.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._queue(request)
        self._begin()
        self._expects_plain = request.keep_alive

    def _is_upgrade(self) -> bool:
        return b"upgrade" in self._headers and bool(self._llhttp.should_upgrade())


def _path_of(target: bytes) -> bytes:
    """Cut the path out of an absolute target (`http://host/path`), as proxies send it."""
    _, separator, rest = target.partition(b"://")
    _, slash, path = rest.partition(b"/")
    return slash + path if separator and slash else target
