"""HTTP as bytes on a socket: for what a decent client library would never send, or hides.

with Wire(server.url) as wire:
    wire.send(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
    assert wire.answer().status == 404
"""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from millstream.protocol.sse import Event, Parser

PATIENCE_S = 60.0


class HungUpError(Exception):
    """The server closed the connection before its answer was whole."""


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """One connection to a server."""

    def __init__(self, url: str, trust: ssl.SSLContext | None = None) -> None:
        """Connect; `trust` is for servers with TLS whose certificate names localhost."""
        self.url = url
        address = urlsplit(url)
        self.host = address.netloc
        self.socket = socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S)
        if trust is not None:
            self.socket = trust.wrap_socket(self.socket, server_hostname="localhost")
        self._unread = b""

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    # -- Sending ---------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, method: str, target: str, body: bytes | None = None, **headers: str) -> None:
        """Send a well-formed request; underscores in header names stand for dashes."""
        self.send(request(method, target, body, **headers))

    def ask(self, method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
        self.request(method, target, body, **headers)
        return self.answer(has_body=method != "HEAD")

    # -- Receiving -------------------------------------------------------------------------------

    def answer(self, *, has_body: bool = True) -> Answer:
        """Read one whole response, leaving what follows it for the next call."""
        status, headers = self.head()
        if not has_body or status in (204, 304) or status < 200:
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, b"".join(self.chunks()))
        if "content-length" in headers:
            return Answer(status, headers, self._exactly(int(headers["content-length"])))
        return Answer(status, headers, self.rest())

    def head(self) -> tuple[int, dict[str, str]]:
        """Read a response up to its body."""
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")[:-2]
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        headers: dict[str, str] = {}
        for line in lines:
            name, value = line.split(": ", 1)
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return int(status), headers

    def chunks(self) -> Iterator[bytes]:
        """Read a chunked body piece by piece; a missing last chunk is an error."""
        while size := int(self._until(b"\r\n"), 16):
            yield self._exactly(size)
            assert self._exactly(2) == b"\r\n"
        assert self._exactly(2) == b"\r\n"

    def events(self) -> Iterator[Event]:
        """Read a chunked body as server-sent events."""
        parser = Parser()
        for chunk in self.chunks():
            yield from parser.feed(chunk)

    def rest(self) -> bytes:
        """Read everything until the server hangs up."""
        pieces = [self._unread]
        self._unread = b""
        while piece := self._receive():
            pieces.append(piece)
        return b"".join(pieces)

    def is_closed(self) -> bool:
        """Wait for the server to hang up; False when it sends something instead."""
        return not self._unread and not self._receive()

    def _until(self, end: bytes) -> bytes:
        while end not in self._unread:
            self._more()
        found, _, self._unread = self._unread.partition(end)
        return found + end

    def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._more()
        found, self._unread = self._unread[:size], self._unread[size:]
        return found

    def _more(self) -> None:
        piece = self._receive()
        if not piece:
            raise HungUpError(self._unread)
        self._unread += piece

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            return b""


def request(method: str, target: str, body: bytes | None = None, **headers: str) -> bytes:
    """Write a well-formed request; underscores in header names stand for dashes."""
    fields = {"Host": "localhost"} | {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        fields = {"Content-Type": "text/plain", "Content-Length": str(len(body))} | fields
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (body or b"")


def chunked(*pieces: bytes) -> bytes:
    """Write a body as chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))
