"""HTTP/1.1 over plain sockets.

A connection reads one answer at a time. Bytes that arrive when none are due (a body after 204,
a body longer than declared) are evidence, so a connection is inspected before it is reused.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator
from urllib.parse import urlsplit

from millstream_conformance.server.wire import Answer, Headers, Request

BODYLESS = {204, 304}


class WireError(Exception):
    """The peer violated HTTP: no answer, a truncated one, or bytes that are not HTTP."""


class HangUpError(WireError):
    """The peer closed the connection before the first byte of an answer."""


class Address:
    """The server's address, parsed from its URL; the mount prefix is separate."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"not an http(s) URL: {url!r}")
        self.scheme = parts.scheme
        self.hostname = parts.hostname
        self.port = parts.port or (443 if self.scheme == "https" else 80)
        self.host = parts.netloc.rpartition("@")[2]
        self.mount = parts.path.rstrip("/")
        self.url = f"{self.scheme}://{self.host}{self.mount}"

    def connect(self, timeout_s: float) -> socket.socket:
        """A fresh TCP (or TLS) socket without Nagle's delay."""
        sock = socket.create_connection((self.hostname, self.port), timeout=timeout_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.scheme == "https":
            return ssl.create_default_context().wrap_socket(sock, server_hostname=self.hostname)
        return sock


class Connection:
    """One socket and its read buffer."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self.sock = address.connect(timeout_s)
        self.buffer = bytearray()
        self.reusable = True
        self.used = False

    def close(self) -> None:
        """Close the socket; safe to call twice."""
        self.sock.close()

    def stray(self) -> bytes | None:
        """None when idle and open; b"" when the peer closed it; else unexpected bytes."""
        if self.buffer:
            return bytes(self.buffer)
        if not select.select([self.sock], [], [], 0)[0]:
            return None
        try:
            return self.sock.recv(4096)
        except OSError:
            return b""

    def send(self, data: bytes) -> None:
        """Send all bytes; a peer that closes early is not an error until we read."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.reusable = False

    def exchange(self, request: Request, timeout_s: float) -> Answer:
        """Send a request and read its whole answer."""
        started = time.perf_counter()
        self.used = True
        self.sock.settimeout(timeout_s)
        self.send(request.encode(self.address.host))
        status, reason, headers = self.read_head()
        body = b"".join(self.body_pieces(request.method, status, headers))
        return Answer(request, status, reason, headers, body, time.perf_counter() - started)

    def read_head(self) -> tuple[int, str, Headers]:
        """Read one status line and its header fields, skipping 1xx answers."""
        while True:
            head = self._read_until(b"\r\n\r\n").decode("latin-1")
            status_line, *lines = head[:-4].split("\r\n")
            version, _, rest = status_line.partition(" ")
            code, _, reason = rest.partition(" ")
            if not version.startswith("HTTP/1.") or not code.isdigit():
                raise WireError(f"not a status line: {status_line!r}")
            headers = Headers([_field(line) for line in lines])
            if int(code) >= 200:
                if "close" in headers.tokens("Connection") or version == "HTTP/1.0":
                    self.reusable = False
                return int(code), reason, headers

    def body_pieces(self, method: str, status: int, headers: Headers) -> Iterator[bytes]:
        """The body as it arrives: one piece per chunk, or per read when it is not chunked."""
        if method == "HEAD" or status in BODYLESS:
            return
        if "chunked" in headers.tokens("Transfer-Encoding"):
            yield from self._chunked_pieces()
            return
        length = headers.get("Content-Length")
        if length is not None:
            yield self._read_exactly(int(length))
            return
        self.reusable = False
        yield bytes(self._take(len(self.buffer)))
        while piece := self._receive():
            yield piece

    def _chunked_pieces(self) -> Iterator[bytes]:
        while size := int(self._read_until(b"\r\n").partition(b";")[0].strip(), 16):
            yield self._read_exactly(size)
            if self._read_exactly(2) != b"\r\n":
                raise WireError("a chunk is longer than it says")
        while self._read_until(b"\r\n") != b"\r\n":
            pass

    def _receive(self) -> bytes:
        try:
            return self.sock.recv(65536)
        except TimeoutError:
            raise
        except OSError:
            return b""

    def _fill(self) -> None:
        data = self._receive()
        if not data:
            error = WireError if self.buffer else HangUpError
            raise error(f"connection closed after {bytes(self.buffer[:200])!r}")
        self.buffer += data

    def _take(self, count: int) -> bytearray:
        taken = self.buffer[:count]
        del self.buffer[:count]
        return taken

    def _read_until(self, mark: bytes) -> bytes:
        while (at := self.buffer.find(mark)) < 0:
            self._fill()
        return bytes(self._take(at + len(mark)))

    def _read_exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            self._fill()
        return bytes(self._take(count))


def _field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or name != name.strip():
        raise WireError(f"not a header field: {line!r}")
    return name, value.strip(" \t")


class Pool:
    """Idle connections to one server, shared by every test (and thread) of a run."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.stray_bytes: list[bytes] = []
        self._idle: deque[Connection] = deque()
        self._is_closed = False

    def acquire(self, timeout_s: float) -> Connection:
        """An open connection without unread bytes, a new one if necessary."""
        while self._idle:
            try:
                connection = self._idle.popleft()
            except IndexError:  # another thread was faster
                break
            stray = connection.stray()
            if stray is None:
                return connection
            if stray:
                self.stray_bytes.append(stray)
            connection.close()
        return Connection(self.address, timeout_s)

    def release(self, connection: Connection) -> None:
        """Keep a connection for the next request, or close it when it cannot be reused."""
        if connection.reusable and not self._is_closed:
            self._idle.append(connection)
        else:
            connection.close()

    def inspect(self) -> list[bytes]:
        """All unexpected bytes on the connections used so far."""
        for connection in list(self._idle):
            if stray := connection.stray():
                connection.reusable = False
                self.stray_bytes.append(stray)
        return self.stray_bytes

    def drain(self) -> None:
        """Close every idle connection."""
        while self._idle:
            self._idle.popleft().close()

    def close(self) -> None:
        """Close every idle connection, and those that come back later."""
        self._is_closed = True
        self.drain()
