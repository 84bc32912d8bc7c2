"""HTTP over blocking sockets: the transport of the sync shell.

Connections are kept for a few seconds and shared between threads, one request at a time on each.
A process that forks starts with none: a connection has two ends, and one of them stayed with the
parent.
"""

import atexit
import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from typing import Final

from millstream.client.core.transport import (
    Answer,
    CancelScope,
    Closing,
    Origin,
    Request,
    broken,
    not_connected,
)
from millstream.client.http.http1 import Incoming, ProtocolError, default_tls, locate, render

SMALL_BYTES: Final = 16 * 1024
LARGE_BYTES: Final = 1024 * 1024
"""How much to receive at once. Python allocates it first, and above 128 KiB that means new pages."""

IDLE_S: Final = 4.0
"""Servers close idle connections, Node's after 5 s; a request that crosses that is lost."""

_OneSocket = socket.socket | ssl.SSLSocket


class ClientConnection:
    """One connection, and at most one request on it."""

    __slots__ = ("_incoming", "_is_cut", "_socket", "_timeout_s", "idle_since", "origin")

    def __init__(self, origin: Origin, connected: _OneSocket) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._socket = connected
        self._timeout_s = 0.0
        self._incoming: Incoming | None = None
        self._is_cut = False

    @property
    def reusable(self) -> bool:
        """Tell whether another request may follow on this connection."""
        incoming = self._incoming
        return incoming is not None and incoming.complete and incoming.keeps_alive and not self._is_cut

    def is_alive(self) -> bool:
        """Tell whether the server has left an idle connection open."""
        try:
            if isinstance(self._socket, ssl.SSLSocket):
                self._timeout_s = 0.0
                self._socket.settimeout(0)
                self._socket.recv(1)
            else:
                self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False  # closed, or it said something that nobody asked for

    def start(self, request: Request, host: bytes, target: bytes) -> Incoming:
        """Write a request."""
        self._incoming = Incoming(request.method)
        if request.timeout_s != self._timeout_s:
            self._set_timeout(request.timeout_s)
        try:
            for piece in render(request, host, target):
                self._socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            self._is_cut = True  # a server that refuses a body does not read it: its answer may be here
        return self._incoming

    def _set_timeout(self, timeout_s: float) -> None:
        """Limit how long the server may be silent.

        The kernel's own timeouts spare a `poll` before each send and receive, which Python's need;
        that is a third of an append's system calls. TLS does its own waiting.
        """
        self._timeout_s = timeout_s
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(timeout_s)
            return
        self._socket.setblocking(True)
        limit = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1_000_000))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def receive(self) -> bytes:
        """Wait for bytes, and give what they complete of the body; none when that is nothing."""
        incoming = self._incoming
        assert incoming is not None
        received = self._socket.recv(max(SMALL_BYTES, min(incoming.missing, LARGE_BYTES)))
        if not received:
            incoming.end()
            return b""
        return incoming.feed(received)

    def abort(self) -> None:
        """Break the connection, so that whoever waits on it wakes up; may be called from any thread."""
        with contextlib.suppress(OSError):  # it is broken already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()


class HttpClient(Closing):
    """Connections for streams: shared by threads, reused, reopened after a fork.

    Streams share one by default. Make your own for other TLS settings or to close its connections
    at a time of your choice, and pass it as `client`.

    >>> with HttpClient(connect_timeout_s=2) as client, stream(url, live=False, client=client) as response:
    ...     response.read_json()
    []
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, connect_timeout_s: float = 10.0) -> None:
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: dict[Origin, list[ClientConnection]] = {}

    def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and give its whole answer."""
        connection, incoming = self._begin(request, scope)
        pieces: list[bytes] = []
        try:
            while not incoming.complete:
                pieces.append(connection.receive())
        except (OSError, ProtocolError) as error:
            raise broken(request, error) from None
        finally:
            self._release(connection, scope)
        return Answer(incoming.status, incoming.headers, b"".join(pieces))

    def open(self, request: Request, scope: CancelScope | None = None) -> "SocketDownload":
        """Send a request and give its answer once the headers are here."""
        connection, incoming = self._begin(request, scope)
        try:
            first = b""
            while not incoming.has_head:
                first = connection.receive()
        except BaseException as error:
            self._release(connection, scope)
            if isinstance(error, OSError | ProtocolError):
                raise broken(request, error) from None
            raise
        return SocketDownload(self, connection, incoming, request, scope, first)

    def close(self) -> None:
        """Close the connections that are idle; the client can still be used."""
        with self._lock:
            connections = [one for ones in self._idle.values() for one in ones]
            self._idle.clear()
        for connection in connections:
            connection.close()

    def _begin(self, request: Request, scope: CancelScope | None) -> tuple[ClientConnection, Incoming]:
        origin, host, target = locate(request.url)
        connection = self._take(origin) or self._connect(origin, request)
        try:
            if scope is not None:
                scope.holds(connection.abort)
            return connection, connection.start(request, host, target)
        except BaseException as error:
            self._release(connection, scope)
            if isinstance(error, OSError):
                raise broken(request, error) from None
            raise

    def _take(self, origin: Origin) -> ClientConnection | None:
        if self._process != os.getpid():
            self._start()  # what the parent had is the parent's
        while True:
            with self._lock:
                idle = self._idle.get(origin)
                if not idle:
                    return None
                connection = idle.pop()
            if time.monotonic() - connection.idle_since < IDLE_S and connection.is_alive():
                return connection
            connection.close()

    def _connect(self, origin: Origin, request: Request) -> ClientConnection:
        try:
            connected = socket.create_connection((origin.host, origin.port), self._connect_timeout_s)
        except OSError as error:
            raise not_connected(request, origin, error) from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not origin.tls:
            return ClientConnection(origin, connected)
        try:
            secured = (self._tls or default_tls()).wrap_socket(connected, server_hostname=origin.host)
        except OSError as error:
            connected.close()
            raise not_connected(request, origin, error) from None
        return ClientConnection(origin, secured)

    def _release(self, connection: ClientConnection, scope: CancelScope | None) -> None:
        if scope is not None:
            scope.holds(None)
        if not connection.reusable or (scope is not None and scope.cancelled.is_set()):
            connection.close()
            return
        connection.idle_since = time.monotonic()
        with self._lock:
            self._idle.setdefault(connection.origin, []).append(connection)


class SocketDownload:
    """An answer whose body arrives piece by piece."""

    def __init__(
        self,
        client: HttpClient,
        connection: ClientConnection,
        incoming: Incoming,
        request: Request,
        scope: CancelScope | None,
        first: bytes,
    ) -> None:
        self._client = client
        self._connection: ClientConnection | None = connection
        self._incoming = incoming
        self._request = request
        self._scope = scope
        self._first = first

    @property
    def answer(self) -> Answer:
        """Give the answer's status and headers."""
        return self._incoming.answer

    def read(self) -> bytes:
        """Give the next bytes of the body, none at its end."""
        piece, self._first = self._first, b""
        try:
            while not piece and not self._incoming.complete and self._connection is not None:
                piece = self._connection.receive()
        except (OSError, ProtocolError) as error:
            raise broken(self._request, error) from None
        return piece

    def close(self) -> None:
        """Let go of the connection, wherever the body is."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client._release(connection, self._scope)


_shared: HttpClient | None = None


def shared_client() -> HttpClient:
    """Give the process's own client."""
    global _shared
    if _shared is None:
        _shared = HttpClient()
        atexit.register(_shared.close)
    return _shared
