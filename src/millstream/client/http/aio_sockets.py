"""HTTP over asyncio: the transport of the async shell.

Each event loop has its own connections, which are closed with it. An asynchronous generator does that,
because `asyncio.run` finalizes those before it closes the loop.
"""

import asyncio
import contextlib
import ssl
import time
import weakref
from collections.abc import AsyncGenerator
from typing import Final, cast

from millstream.client.core.transport import Answer, CancelScope, Origin, Request, broken, not_connected
from millstream.client.http.http1 import Incoming, ProtocolError, default_tls, locate, render
from millstream.client.http.sync_sockets import IDLE_S

HIGH_WATER_BYTES: Final = 1024 * 1024
"""Pause receiving when this much of a body is unread."""


class ClientConnection(asyncio.Protocol):
    """One connection, with at most one request at a time."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._incoming: Incoming | None = None
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._paused = False
        self._streams = False
        self._error: Exception | None = None
        self._lost = False
        self._waiter: asyncio.Future[None] | None = None

    # -- Called by the loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, whichever class the loop has for it: uvloop's does not inherit asyncio's."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        incoming = self._incoming
        if incoming is None or incoming.complete:
            self.abort()  # data without a request
            return
        try:
            piece = incoming.feed(data)
        except ProtocolError as error:
            self._error = error
        else:
            if piece:
                self._pieces.append(piece)
                self._waiting_bytes += len(piece)
        if incoming.complete or self._error is not None or self._streams:
            self._wake()
        if self._streams and self._waiting_bytes > HIGH_WATER_BYTES and not self._paused:
            assert self._transport is not None
            self._transport.pause_reading()
            self._paused = True

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response, or fail it if it is incomplete."""
        self._lost = True
        incoming = self._incoming
        if incoming is not None and not incoming.complete and self._error is None:
            try:
                incoming.end()
            except ProtocolError as error:
                self._error = exc or error
        self._wake()

    # -- Called by the client --------------------------------------------------------------------

    @property
    def reusable(self) -> bool:
        """Whether another request may use this connection."""
        incoming = self._incoming
        return (
            not self._lost
            and not self._paused
            and incoming is not None
            and incoming.complete
            and incoming.keeps_alive
            and self._transport is not None
            and not self._transport.is_closing()
        )

    def start(self, request: Request, host: bytes, target: bytes, *, streams: bool) -> Incoming:
        """Write a request."""
        assert self._transport is not None
        rendered = render(request, host, target)
        self._incoming = Incoming(request.method)
        self._pieces.clear()
        self._waiting_bytes = 0
        self._streams = streams
        self._transport.writelines(rendered)
        return self._incoming

    async def changed(self, timeout_s: float) -> None:
        """Wait until the response is complete; if it is streamed, until more has arrived."""
        if self._error is None and not self._lost:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout_s, self._time_out)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        if self._error is not None:
            raise self._error

    def take(self) -> bytes:
        """Return the part of the body that has arrived."""
        piece = b"".join(self._pieces) if len(self._pieces) != 1 else self._pieces[0]
        self._pieces.clear()
        self._waiting_bytes = 0
        if self._paused and not self._lost:
            assert self._transport is not None
            self._transport.resume_reading()
            self._paused = False
        return piece

    def abort(self) -> None:
        """Abort the connection, which wakes a task that waits on it."""
        if self._transport is not None:
            self._transport.abort()

    def _time_out(self) -> None:
        self._error = TimeoutError()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class HttpClient:
    """A pool of connections on the event loop that uses it.

    Streams of a loop share one by default. Create your own for other TLS settings or to control
    when connections are closed, and pass it as `client`.

    >>> async def describe():
    ...     async with HttpClient(connect_timeout_s=2) as client:
    ...         return await DurableStream.head(url, client=client)
    >>> asyncio.run(describe()).content_type
    'application/json'
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, connect_timeout_s: float = 10.0) -> None:
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: dict[Origin, list[ClientConnection]] = {}
        self._until_loop_ends: AsyncGenerator[None, None] | None = None

    async def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and return the complete response."""
        connection, incoming = await self._begin(request, scope, streams=False)
        try:
            while not incoming.complete:
                await connection.changed(request.timeout_s)
            return Answer(incoming.status, incoming.headers, connection.take())
        except (OSError, ProtocolError) as error:
            raise broken(request, error) from None
        finally:
            self._release(connection, scope)

    async def open(self, request: Request, scope: CancelScope | None = None) -> "SocketDownload":
        """Send a request and return when the response's headers have arrived."""
        connection, incoming = await self._begin(request, scope, streams=True)
        try:
            while not incoming.has_head:
                await connection.changed(request.timeout_s)
        except BaseException as error:
            self._release(connection, scope)
            if isinstance(error, OSError | ProtocolError):
                raise broken(request, error) from None
            raise
        return SocketDownload(self, connection, incoming, request, scope)

    async def close(self) -> None:
        """Close idle connections. The client can still be used."""
        self._drop()
        if self._until_loop_ends is not None:
            waiting, self._until_loop_ends = self._until_loop_ends, None
            await waiting.aclose()

    async def __aenter__(self) -> "HttpClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _begin(
        self, request: Request, scope: CancelScope | None, *, streams: bool
    ) -> tuple[ClientConnection, Incoming]:
        origin, host, target = locate(request.url)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            await self._move_to(loop)
        connection = self._take(origin) or await self._connect(loop, origin, request)
        try:
            if scope is not None:
                scope.holds(connection.abort)
            return connection, connection.start(request, host, target, streams=streams)
        except BaseException:
            self._release(connection, scope)
            raise

    async def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        self._idle.clear()  # connections of another loop are closed with it
        self._loop = loop
        self._until_loop_ends = _at_loop_end(weakref.ref(self))
        await anext(self._until_loop_ends)

    def _take(self, origin: Origin) -> ClientConnection | None:
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if connection.reusable and time.monotonic() - connection.idle_since < IDLE_S:
                return connection
            connection.abort()
        return None

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, origin: Origin, request: Request
    ) -> ClientConnection:
        tls = (self._tls or default_tls()) if origin.tls else None
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: ClientConnection(origin), origin.host, origin.port, ssl=tls
                )
        except OSError as error:
            raise not_connected(request, origin, error) from None
        return connection

    def _release(self, connection: ClientConnection, scope: CancelScope | None) -> None:
        if scope is not None:
            scope.holds(None)
        if not connection.reusable or (scope is not None and scope.cancelled.is_set()):
            connection.abort()
            return
        connection.idle_since = time.monotonic()
        self._idle.setdefault(connection.origin, []).append(connection)

    def _drop(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()


async def _at_loop_end(client: "weakref.ref[HttpClient]") -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        found = client()
        if found is not None:
            found._drop()
        await asyncio.sleep(0)  # the loop closes sockets in its next iteration


class SocketDownload:
    """A response whose body is read as it arrives."""

    def __init__(
        self,
        client: HttpClient,
        connection: ClientConnection,
        incoming: Incoming,
        request: Request,
        scope: CancelScope | None,
    ) -> None:
        self._client = client
        self._connection: ClientConnection | None = connection
        self._incoming = incoming
        self._request = request
        self._scope = scope

    @property
    def answer(self) -> Answer:
        """The status and headers."""
        return self._incoming.answer

    async def read(self) -> bytes:
        """Return the next bytes of the body; b"" at its end."""
        connection = self._connection
        if connection is None:
            return b""
        piece = connection.take()
        try:
            while not piece and not self._incoming.complete:
                await connection.changed(self._request.timeout_s)
                piece = connection.take()
        except (OSError, ProtocolError) as error:
            raise broken(self._request, error) from None
        return piece

    def close(self) -> None:
        """Release the connection, even if the body is incomplete."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the socket with it
                self._client._release(connection, self._scope)


_shared: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, HttpClient]" = weakref.WeakKeyDictionary()


def shared_client() -> HttpClient:
    """Return the client that the running loop shares."""
    loop = asyncio.get_running_loop()
    client = _shared.get(loop)
    if client is None:
        client = _shared[loop] = HttpClient()
    return client
