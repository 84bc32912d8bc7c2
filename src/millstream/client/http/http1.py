r"""The part of HTTP/1.1 that a client needs, without I/O.

`render` serializes a request; `Incoming` parses its response from bytes in chunks of any size:

        HTTP/1.1 200 OK\r\n
        content-length: 5\r\n          body framing, in this order: none (HEAD, 204, 304),
        \r\n                           chunked, content-length, until the connection closes
        Hello

Why not a library: a client that survives forks, cancels reads and must know whether a request was sent
has to own the socket. `docs/http-client.md` has the measurements.

RFC 9112.
"""

import re
import ssl
import zlib
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

from millstream.client.core.transport import Answer, Headers, Origin, Request
from millstream.client.http.proxies import Proxy

MAX_HEAD_BYTES: Final = 256 * 1024
_NO_BODY = frozenset((204, 304))
_FIELD = re.compile(rb"([^:\s]+):[ \t]*([^\r\n]*)(?:\r\n|\Z)")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;|\Z)")  # `int` alone takes signs, 0x and _
_SAFE = "!#$%&'()*+,/:;=?@[]~"  # what `quote` leaves alone, including `%`: existing escapes stay


class ProtocolError(Exception):
    """What arrived is not HTTP/1.1, or ended too early."""


@lru_cache(maxsize=1024)
def locate(url: str) -> tuple[Origin, bytes, bytes]:
    """Split a URL into the origin to connect to, the Host header and the request target."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"a stream's URL begins with http:// or https://, not {url!r}")
    tls = parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    host = parts.hostname.encode("idna").decode() if not parts.hostname.isascii() else parts.hostname
    name = f"[{host}]" if ":" in host else host
    shown = name if port == (443 if tls else 80) else f"{name}:{port}"
    target = quote(parts.path or "/", safe=_SAFE) + (
        f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    )
    return Origin(host, port, tls), shown.encode(), target.encode()


LARGE_BODY_BYTES: Final = 64 * 1024
"""Bodies of at least this size are sent separately: copying costs more than a second system call."""


def render(request: Request, host: bytes, target: bytes, proxy: Proxy | None = None) -> list[bytes]:
    """Serialize a request, as buffers to send in order; for a proxy, with the complete URL."""
    if proxy is not None:
        target = b"http://%b%b" % (host, target)
    lines = [b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (request.method, target, host)]
    if proxy is not None and proxy.authorization:
        lines.append(proxy.credentials)
    lines += [b"%b: %b\r\n" % field for field in request.headers.items()]
    if request.body or request.method in (b"POST", b"PUT"):
        lines.append(b"content-length: %d\r\n" % len(request.body))
    head = b"".join(lines)
    if head.count(b"\n") != len(lines) + 1 or head.count(b"\r") != len(lines) + 1 or b"\0" in head:
        raise ValueError("a header must not contain line breaks")
    if len(request.body) >= LARGE_BODY_BYTES:
        return [head + b"\r\n", request.body]
    return [b"%b\r\n%b" % (head, request.body)]


class _Decoder(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


class Incoming:
    """One response, as far as it has arrived."""

    __slots__ = (
        "_buffer", "_chunked", "_decoder", "_left", "_method", "complete", "has_head", "headers",
        "keeps_alive", "status",
    )  # fmt: skip

    def __init__(self, method: bytes) -> None:
        self._method = method
        self._buffer = b""
        self._chunked = False
        self._left: int | None = 0  # bytes of body or chunk to come; None: until the connection closes
        self._decoder: _Decoder | None = None
        self.status = 0
        self.headers: Headers = {}
        self.has_head = False
        self.complete = False
        self.keeps_alive = False

    @property
    def answer(self) -> Answer:
        """The status and headers."""
        return Answer(self.status, self.headers)

    @property
    def missing(self) -> int:
        """The bytes of body still to come, 0 if unknown."""
        return 0 if self._chunked else self._left or 0

    def feed(self, data: bytes) -> bytes:
        """Parse bytes; return the part of the body in them."""
        if not self.has_head:
            data = self._buffer + data if self._buffer else data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > MAX_HEAD_BYTES:
                    raise ProtocolError("the response's header is too long")
                self._buffer = data
                return b""
            self._buffer = b""
            self._read_head(data[:end])
            data = data[end + 4 :]
            if not self.has_head:  # an interim response, such as 100 Continue
                return self.feed(data)
        if self.complete:
            if data:
                self.keeps_alive = False  # more than one response: do not reuse this connection
            return b""
        body = self._chunks(data) if self._chunked else self._counted(data)
        return self._decode(body) if self._decoder is not None else body

    def end(self) -> None:
        """Handle the end of the connection: it ends some bodies and cuts off others."""
        if not self.has_head:
            raise ProtocolError("the connection was closed before an answer came")
        if not self.complete and (self._chunked or self._left is not None):
            raise ProtocolError("the connection was closed in the middle of an answer")
        self.complete = True
        self.keeps_alive = False

    def _read_head(self, head: bytes) -> None:
        first, _, lines = head.partition(b"\r\n")
        if not first.startswith(b"HTTP/1.") or not first[9:12].isdigit():
            raise ProtocolError("the answer is not HTTP/1.1")
        self.status = int(first[9:12])
        if 100 <= self.status < 200:
            return
        fields = _FIELD.findall(lines)
        if len(fields) != (lines.count(b"\n") + 1 if lines else 0):
            raise ProtocolError("the answer has a malformed header")
        headers: Headers = {name.lower(): value.rstrip() for name, value in fields}
        if len(headers) != len(fields):
            headers = _joined(fields)
        self.headers = headers
        self.has_head = True
        connection = headers.get(b"connection", b"").lower()
        self.keeps_alive = b"close" not in connection and (first[7:8] == b"1" or b"keep-alive" in connection)
        self._frame(headers)

    def _frame(self, headers: Headers) -> None:
        length = headers.get(b"content-length")
        if self._method == b"HEAD" or self.status in _NO_BODY:
            self.complete = True
        elif b"chunked" in headers.get(b"transfer-encoding", b"").lower():
            self._chunked = True
        elif length is not None:
            if not length.isdigit():
                raise ProtocolError("the answer has a malformed Content-Length")
            self._left = int(length)
            self.complete = not self._left
        else:
            self._left = None
        if headers.get(b"content-encoding", b"identity").lower() in (b"gzip", b"deflate"):
            self._decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)

    def _counted(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        if len(data) > self._left:
            data = data[: self._left]
            self.keeps_alive = False
        self._left -= len(data)
        self.complete = not self._left
        return data

    def _chunks(self, data: bytes) -> bytes:
        r"""Parse chunks: `5\r\nHello\r\n` ... `0\r\n\r\n`; `_left` includes the chunk's CRLF."""
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        pieces = []
        position, size = 0, len(data)
        while position < size and not self.complete:
            if self._left:
                taken = min(self._left, size - position)
                payload = min(taken, max(0, self._left - 2))
                pieces.append(data[position : position + payload])
                self._left -= taken
                position += taken
                continue
            line_end = data.find(b"\r\n", position)
            if line_end < 0:
                break
            line = data[position:line_end]
            if self._left is None:  # the trailer
                self.complete = not line
            else:
                size_text = _CHUNK_SIZE.match(line)
                if size_text is None:
                    raise ProtocolError("the answer has a malformed chunk")
                length = int(size_text[1], 16)
                self._left = length + 2 if length else None
            position = line_end + 2
        if position < size:
            self._buffer = data[position:]
            if self.complete:
                self.keeps_alive = False
            elif len(self._buffer) > MAX_HEAD_BYTES:
                raise ProtocolError("the answer has a malformed chunk")
        return b"".join(pieces)

    def _decode(self, body: bytes) -> bytes:
        assert self._decoder is not None
        try:
            return self._decoder.decompress(body)
        except zlib.error as error:
            raise ProtocolError(f"the body is not compressed as its header says: {error}") from None


def _joined(fields: list[tuple[bytes, bytes]]) -> Headers:
    headers: Headers = {}
    for name, value in fields:
        name, value = name.lower(), value.rstrip()
        headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value
    return headers


def check_tunnel(status: int) -> None:
    """Refuse a proxy's answer that is not a tunnel."""
    if status == 407:
        raise ProtocolError("the proxy wants other credentials, as http://user:password@host:port")
    if not 200 <= status < 300:
        raise ProtocolError(f"the proxy answered {status}")


@lru_cache(maxsize=1)
def default_tls() -> ssl.SSLContext:
    """Make a TLS context with the system's certificates; cached, because loading takes milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
