"""HTTP over blocking sockets: the transport of the sync shell.

Idle connections are kept for a few seconds and reused by any thread, for one request at a time. A
forked process starts with none, because its connections belong to the parent.
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
from millstream.client.http.http1 import (
    Incoming,
    ProtocolError,
    check_tunnel,
    default_tls,
    locate,
    render,
)
from millstream.client.http.proxies import Proxy, environment_proxy

SMALL_BYTES: Final = 16 * 1024
LARGE_BYTES: Final = 1024 * 1024
"""How much to receive at once. Python allocates the buffer first; above 128 KiB that maps new pages."""

IDLE_S: Final = 4.0
"""Servers close idle connections (Node's after 5 s), and a request sent at that moment is lost."""

_OneSocket = socket.socket | ssl.SSLSocket


class ClientConnection:
    """One connection, with at most one request at a time."""

    __slots__ = ("_incoming", "_is_cut", "_proxy", "_socket", "_timeout_s", "idle_since", "origin")

    def __init__(self, origin: Origin, connected: _OneSocket, proxy: Proxy | None = None) -> None:
        self.origin = origin
        self._proxy = proxy  # which gets complete URLs; None also in a tunnel
        self.idle_since = 0.0
        self._socket = connected
        self._timeout_s = 0.0
        self._incoming: Incoming | None = None
        self._is_cut = False

    @property
    def reusable(self) -> bool:
        """Whether another request may use this connection."""
        incoming = self._incoming
        return incoming is not None and incoming.complete and incoming.keeps_alive and not self._is_cut

    def is_alive(self) -> bool:
        """Whether an idle connection is still open."""
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
        return False  # closed, or it sent data without a request

    def start(self, request: Request, host: bytes, target: bytes) -> Incoming:
        """Write a request."""
        self._incoming = Incoming(request.method)
        if request.timeout_s != self._timeout_s:
            self._set_timeout(request.timeout_s)
        try:
            for piece in render(request, host, target, self._proxy):
                self._socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            self._is_cut = True  # a server that refuses a body stops reading; its response may have arrived
        return self._incoming

    def _set_timeout(self, timeout_s: float) -> None:
        """Limit how long the server may stay silent.

        Kernel timeouts save the `poll` that Python's timeouts need before each send and receive: a third
        of an append's system calls. TLS sockets need Python's.
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
        """Wait for bytes and return the part of the body in them, possibly b""."""
        incoming = self._incoming
        assert incoming is not None
        received = self._socket.recv(max(SMALL_BYTES, min(incoming.missing, LARGE_BYTES)))
        if not received:
            incoming.end()
            return b""
        return incoming.feed(received)

    def abort(self) -> None:
        """Abort the connection, which wakes a thread that waits on it. Safe from any thread."""
        with contextlib.suppress(OSError):  # already disconnected
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class HttpClient(Closing):
    """A pool of connections: shared by threads, reset after a fork.

    Streams share one by default. Create your own for other TLS settings or to control when
    connections are closed, and pass it as `client`. `trust_env=False` ignores the environment's proxies.

    >>> with HttpClient(connect_timeout_s=2) as client, stream(url, live=False, client=client) as response:
    ...     response.read_json()
    []
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        connect_timeout_s: float = 10.0,
        trust_env: bool = True,
    ) -> None:
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._trust_env = trust_env
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: dict[Origin, list[ClientConnection]] = {}

    def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and return the complete response."""
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
        """Send a request and return when the response's headers have arrived."""
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
        """Close idle connections. The client can still be used."""
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
            self._start()  # the parent's connections are not ours
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
        proxy = environment_proxy(origin) if self._trust_env else None
        place = (proxy.host, proxy.port) if proxy is not None else (origin.host, origin.port)
        try:
            connected = socket.create_connection(place, self._connect_timeout_s)
        except OSError as error:
            raise not_connected(request, origin, error, proxy is not None) from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not origin.tls:
            return ClientConnection(origin, connected, proxy)
        try:
            if proxy is not None:
                _open_tunnel(connected, proxy, origin)
            secured = (self._tls or default_tls()).wrap_socket(connected, server_hostname=origin.host)
        except (OSError, ProtocolError) as error:
            connected.close()
            raise not_connected(request, origin, error, proxy is not None) from None
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


def _open_tunnel(connected: socket.socket, proxy: Proxy, origin: Origin) -> None:
    connected.sendall(proxy.tunnel_request(origin))
    incoming = Incoming(b"HEAD")  # like the response to HEAD, that to CONNECT has no body
    while not incoming.has_head:
        received = connected.recv(SMALL_BYTES)
        if not received:
            incoming.end()
        incoming.feed(received)
    check_tunnel(incoming.status)


class SocketDownload:
    """A response whose body is read as it arrives."""

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
        """The status and headers."""
        return self._incoming.answer

    def read(self) -> bytes:
        """Return the next bytes of the body; b"" at its end."""
        piece, self._first = self._first, b""
        try:
            while not piece and not self._incoming.complete and self._connection is not None:
                piece = self._connection.receive()
        except (OSError, ProtocolError) as error:
            raise broken(self._request, error) from None
        return piece

    def close(self) -> None:
        """Release the connection, even if the body is incomplete."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client._release(connection, self._scope)


_shared: HttpClient | None = None


def shared_client() -> HttpClient:
    """Return the client that the process shares."""
    global _shared
    if _shared is None:
        _shared = HttpClient()
        atexit.register(_shared.close)
    return _shared
