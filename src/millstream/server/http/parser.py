"""Requests out of a connection's bytes: what llhttp says, within limits.

BETWEEN --first byte--> HEAD --blank line--> BODY --last byte--> BETWEEN
                          |                    |
                          v too large,         v too large
                        refusal: nothing after it is a request
"""

from collections import deque
from typing import Any

import httptools

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.http.heads import END, Head, Heads
from millstream.server.http.wire import encode_headers
from millstream.server.settings import Settings

_MAX_HEADERS = 128
_MAX_QUEUED = 64


class Incoming:
    """The reading side of a connection: give it bytes, take requests from `whole`."""

    __slots__ = (
        "_body",
        "_expects_continue",
        "_field_bytes",
        "_head",
        "_headers",
        "_heads",
        "_parser",
        "_queued_bytes",
        "_settings",
        "_url",
        "between",
        "body_bytes",
        "head_bytes",
        "in_body",
        "refusal",
        "whole",
    )

    def __init__(self, settings: Settings, heads: Heads) -> None:
        self._settings = settings
        self._heads = heads
        self._parser: Any = httptools.HttpRequestParser(self)
        self.whole: deque[tuple[Head, bytes]] = deque()
        self._queued_bytes = 0
        self.refusal: Reply | None = None
        self._begin()

    def _begin(self) -> None:
        self.between = True
        self.in_body = False
        self.head_bytes = 0  # received of a head that is not whole, or since the last byte of a body
        self.body_bytes = 0
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._head: Head | None = None
        self._body: list[bytes] = []
        self._field_bytes = 0
        self._expects_continue = False

    @property
    def headers(self) -> dict[bytes, bytes]:
        """What is there of the headers of the request that is arriving."""
        return self._headers

    @property
    def crowded(self) -> bool:
        """Whether as many requests wait as one client may have waiting."""
        return len(self.whole) >= _MAX_QUEUED or self._queued_bytes > self._settings.max_body_bytes

    def take(self) -> tuple[Head, bytes]:
        """Give the next whole request."""
        head, body = self.whole.popleft()
        self._queued_bytes -= len(body)
        return head, body

    def claim_continue(self) -> bool:
        """Tell, once, whether the client waits for leave to send its body."""
        expects, self._expects_continue = self._expects_continue, False
        return expects and not self.body_bytes

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        could_be_known = self.between and not self.whole
        self.head_bytes += len(data)
        self._parse(data)
        if self.head_bytes > self._settings.max_header_bytes or len(self._url) > self._settings.max_url_bytes:
            self._refuse_head()
        if could_be_known and len(self.whole) == 1 and self.between:
            self._learn(data, *self.whole[0])

    def _learn(self, data: bytes, head: Head, body: bytes) -> None:
        end = data.find(END) + len(END)
        if len(data) - end == len(body) == head.length:
            self._heads.learn(data[:end], head)

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = self._without_offer() + data[offer.args[0] :]
            except httptools.HttpParserError:
                self._refuse(problems.MALFORMED_HTTP)
                return
            else:
                return

    def _without_offer(self) -> bytes:
        """Write a request that offers another protocol once more, without the offer: we decline it.

        curl and Java offer HTTP/2 with every request, and the parser would leave out its body.
        """
        if self.refusal is not None or b"upgrade" not in self._headers:
            return b""
        version = self._parser.get_http_version().encode()
        fields = [field for field in self._headers.items() if field[0] != b"upgrade"]
        head = b"%b %b HTTP/%b\r\n" % (self._parser.get_method(), self._url, version)
        self._begin()
        self._parser = httptools.HttpRequestParser(self)
        return head + encode_headers(fields) + b"\r\n"

    def _refuse(self, reply: Reply) -> None:
        if self.refusal is None:
            self.refusal = reply

    def _refuse_head(self) -> None:
        too_long_url = len(self._url) > self._settings.max_url_bytes
        self._refuse(problems.URL_TOO_LONG if too_long_url else problems.HEADERS_TOO_LARGE)

    def _refuse_body(self) -> None:
        self._refuse(problems.body_too_large(self._settings.max_body_bytes))

    # -- The parser calls these ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Take note that a request has begun."""
        self.between = False

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a repeated one is joined, which only lists survive."""
        if self.in_body:
            return  # a trailer: it was not there when the request was checked
        name = name.lower()
        self._field_bytes += len(name) + len(value) + 4  # as it came: with ": " and CRLF
        headers = self._headers
        if name in headers:
            value = headers[name] + b", " + value
        headers[name] = value

    def on_headers_complete(self) -> None:
        """Look at the headers before the body comes: some requests are refused without it."""
        self.in_body = True
        self.head_bytes = 0
        headers, parser = self._headers, self._parser
        url_bytes, settings = len(self._url), self._settings
        too_much = url_bytes + self._field_bytes > settings.max_header_bytes
        if too_much or len(headers) > _MAX_HEADERS or url_bytes > settings.max_url_bytes:
            self._refuse_head()
        if self.refusal is not None or self._is_offer():
            return
        host = headers.get(b"host")
        takes_chunks = parser.get_http_version() != "1.0"
        if (host is None and takes_chunks) or (host is not None and b"," in host):
            self._refuse(problems.INVALID_HOST)
            return
        length = int(headers.get(b"content-length", b"0"))
        if length > self._settings.max_body_bytes:
            self._refuse_body()
            return
        path, _, query = self._url.partition(b"?")
        if not path.startswith(b"/"):
            path = _path_of(path)
        keep_alive = parser.should_keep_alive()
        self._expects_continue = headers.get(b"expect", b"").lower() == b"100-continue"
        self._head = Head(parser.get_method(), path, query, headers, keep_alive, takes_chunks, length)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self.body_bytes += len(body)
        if self.body_bytes > self._settings.max_body_bytes:
            self._body.clear()
            self._refuse_body()
        else:
            self._body.append(body)
            self.head_bytes = 0

    def on_message_complete(self) -> None:
        """Put a whole request where it is taken from."""
        if self.refusal is not None or self._is_offer():
            return  # an offer comes once more, without what it offers
        head = self._head
        assert head is not None
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self.whole.append((head, body))
        self._queued_bytes += len(body)
        self._begin()

    def _is_offer(self) -> bool:
        return b"upgrade" in self._headers and bool(self._parser.should_upgrade())


def _path_of(target: bytes) -> bytes:
    """Cut the path out of an absolute target (`http://host/path`), as proxies send it."""
    _, separator, rest = target.partition(b"://")
    _, slash, path = rest.partition(b"/")
    return slash + path if separator and slash else target
