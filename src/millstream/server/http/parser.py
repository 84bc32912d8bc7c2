"""Requests from a connection's bytes, within limits.

Whole requests with plain heads are parsed in one pass (`heads`). llhttp parses everything else, and decides
what is malformed.

        IDLE --first byte--> HEAD --blank line--> BODY --last byte--> IDLE
                               |                    |
                               v too large,         v too large, or not allowed
                             refusal: nothing after it is a request

Most connections wait, and most requests are plain. So llhttp, and what one request needs, are made when there
is a request for them: they would be most of what a connection holds.

A body of more than `SMALL_BODY_BYTES` is only read after `check_head` has seen the head of its request: who
may not send it is refused before it fills memory.
"""

from collections.abc import Callable
from typing import Any, Final

import httptools

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.access.cors import METHODS
from millstream.server.http.heads import END, MAX_HEADERS, parse_head
from millstream.server.http.hosts import is_host
from millstream.server.http.wire import encode_headers
from millstream.server.request import SMALL_BODY_BYTES, Request
from millstream.server.settings import Settings

_MAX_QUEUED = 64
_NO_HEADERS: Final[dict[bytes, bytes]] = {}  # shared: nothing is added to it
_NO_BODY: Final = bytearray()  # shared, too

CheckHead = Callable[[Request], Reply | None]
"""Refuses a request with a large body by its head."""


class RequestParser:
    """The reading side of a connection: takes bytes, queues `requests`."""

    __slots__ = (
        "_body",
        "_check_head",
        "_client",
        "_expects_continue",
        "_expects_plain",
        "_field_bytes",
        "_headers",
        "_llhttp",
        "_max_body_bytes",
        "_max_plain_bytes",
        "_request",
        "_scheme",
        "_settings",
        "_url",
        "body_bytes",
        "head_bytes",
        "in_body",
        "is_idle",
        "queued_bytes",
        "refusal",
        "requests",
    )

    def __init__(
        self, settings: Settings, scheme: bytes, client: bytes, check_head: CheckHead = lambda _request: None
    ) -> None:
        self._settings = settings
        self._check_head = check_head
        self._scheme = scheme
        self._client = client
        self._max_body_bytes = settings.max_body_bytes
        self._max_plain_bytes = min(settings.max_header_bytes, settings.max_url_bytes)
        self._llhttp: Any = None  # until there is something for it to parse
        self.requests: list[Request] = []  # few: a deque takes ten times the room of an empty list
        self.queued_bytes = 0
        self.refusal: Reply | None = None
        self._begin()

    def _begin(self) -> None:
        self.is_idle = True
        self._expects_plain = True  # False while llhttp reads a request, and after a last or refused one
        self.in_body = False
        self.head_bytes = 0  # received of a head that is not whole, or since the last byte of a body
        self.body_bytes = 0  # received of a body that is not whole
        self._url = b""
        self._headers = _NO_HEADERS
        self._request: Request | None = None
        self._body = _NO_BODY
        self._field_bytes = 0
        self._expects_continue = False

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The headers so far of the request that is arriving."""
        return self._headers

    @property
    def is_full(self) -> bool:
        """Whether as many requests are queued as one client may have."""
        return len(self.requests) >= _MAX_QUEUED or self.queued_bytes > self._max_body_bytes

    @property
    def large_body_bytes(self) -> int:
        """The size that the body that is arriving has, or may get; 0 if it is small or not read."""
        if not self.in_body or self.refusal is not None:
            return 0
        length = self._headers.get(b"content-length")
        if length is None:  # in chunks
            return self._max_body_bytes if self.body_bytes > SMALL_BODY_BYTES else 0
        return size if (size := int(length)) > SMALL_BODY_BYTES else 0

    def take(self) -> Request:
        """Take the next request from the queue."""
        request = self.requests.pop(0)
        self.queued_bytes -= len(request.body)
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
        if length != len(body) or length > self._max_body_bytes:
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
            if end + length > len(data) or length > self._max_body_bytes:
                break
            request.body = data[end : end + length]
            self._queue(request)
            start = end + length
        return data[start:]

    def _queue(self, request: Request) -> None:
        self.requests.append(request)
        self.queued_bytes += len(request.body)

    def _feed_llhttp(self, data: bytes) -> None:
        if data and self._llhttp is None:
            self._llhttp = httptools.HttpRequestParser(self)
        while data:
            try:
                self._llhttp.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._without_upgrade() + data[upgrade.args[0] :]
            except httptools.HttpParserError:
                self.refuse(problems.MALFORMED_HTTP)
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

    def refuse(self, reply: Reply) -> None:
        """Take no further request, and drop the body that is arriving."""
        self._expects_plain = False
        if self.refusal is None:
            self.refusal = reply
            self._body = _NO_BODY
            self.body_bytes = 0

    def abandon(self) -> None:
        """Drop what has arrived: the client is gone, and garbage collection may come much later."""
        self.refuse(problems.MALFORMED_HTTP)
        self.requests.clear()
        self.queued_bytes = 0

    def _refuse_head(self) -> None:
        too_long_url = len(self._url) > self._settings.max_url_bytes
        self.refuse(problems.URL_TOO_LONG if too_long_url else problems.HEADERS_TOO_LARGE)

    # -- llhttp calls these ----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request has begun."""
        self.is_idle = self._expects_plain = False
        self._headers, self._body = {}, bytearray()

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
        if too_much or len(headers) > MAX_HEADERS or url_bytes > settings.max_url_bytes:
            self._refuse_head()
        if self.refusal is not None or self._is_upgrade():
            return
        refusal = self._refuse_unusual()
        if refusal is not None:
            self.refuse(refusal)
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
            llhttp.get_http_version() != "1.0",
        )
        if self._expects_continue or int(headers.get(b"content-length", b"0")) > SMALL_BODY_BYTES:
            self._check()

    def _refuse_unusual(self) -> Reply | None:
        """Refuse what llhttp lets pass, and heads that promise a body that is too large."""
        headers, llhttp = self._headers, self._llhttp
        version = llhttp.get_http_version()
        if version not in ("1.0", "1.1"):
            return problems.UNSUPPORTED_VERSION if version == "2.0" else problems.MALFORMED_HTTP
        if llhttp.get_method() == b"CONNECT":  # what follows it would be a tunnel, not a request
            return problems.method_not_allowed(METHODS)
        host = headers.get(b"host")
        if not is_host(host) and (host is not None or version == "1.1"):
            return problems.INVALID_HOST
        codings = headers.get(b"transfer-encoding", b"").lower()
        if codings and version == "1.0":
            return problems.MALFORMED_HTTP
        if codings.endswith(b"chunked") and codings.count(b"chunked") == 1 and b"," in codings:
            return problems.UNSUPPORTED_TRANSFER_CODING
        if int(headers.get(b"content-length", b"0")) > self._max_body_bytes:
            return problems.body_too_large(self._max_body_bytes)
        return None

    def _check(self) -> None:
        assert self._request is not None
        refusal = self._check_head(self._request)
        if refusal is not None:
            self.refuse(refusal)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self.refusal is not None:
            return
        was_small = self.body_bytes <= SMALL_BODY_BYTES
        self.body_bytes += len(body)
        self._body += body
        self.head_bytes = 0
        if self.body_bytes > self._max_body_bytes:
            self.refuse(problems.body_too_large(self._max_body_bytes))
        elif was_small and self.body_bytes > SMALL_BODY_BYTES and b"content-length" not in self._headers:
            self._check()  # chunks have no length to go by

    def on_message_complete(self) -> None:
        """Queue the request."""
        if self.refusal is not None or self._is_upgrade():
            return  # an upgrade request is parsed again, without `Upgrade`
        request = self._request
        assert request is not None
        request.body = bytes(self._body)
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
