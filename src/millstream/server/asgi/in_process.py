"""The async client's transport to the streams of the same process.

`millstream.aio` hands its requests to a transport. This one passes them to the routes that answer HTTP
requests, without a socket. So everything that the client does (retries, producers, multipart appends, live
reads) works on an application's own streams, with the same results and errors.

Requests of the application itself need no token and are not counted towards rate limits. They run on the
event loop that has opened the store. When the server stops, live reads end with an error (code CLOSING):
a reader in the same process would otherwise hold the server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

from millstream.client.core.errors import MillstreamError
from millstream.client.core.transport import Answer, CancelScope, broken
from millstream.client.core.transport import Request as ClientRequest
from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.asgi.frame_queue import FrameQueue
from millstream.server.live.feeds import EventFeed
from millstream.server.long_answers import StreamLostError
from millstream.server.request import Request
from millstream.server.routes.dispatch import Routes
from millstream.store.pending import Pending

ORIGIN: Final = "http://in-process"
"""What the URLs of an application's own streams begin with."""


class InProcessClient:
    """A transport of the async client; pass it as `client`."""

    def __init__(self, routes: Callable[[], Awaitable[Routes]]) -> None:
        self._routes = routes

    async def ready(self) -> None:
        """Open the store if it is not open yet."""
        await self._routes()

    async def send(self, request: ClientRequest, scope: CancelScope | None = None) -> Answer:
        """Let the routes answer a request, and return the complete response."""
        download = await self.open(request, scope)
        try:
            pieces = []
            while piece := await download.read():
                pieces.append(piece)
        finally:
            download.close()
        head = download.answer
        return Answer(head.status, head.headers, b"".join(pieces))

    async def open(self, request: ClientRequest, scope: CancelScope | None = None) -> "InProcessDownload":
        """Let the routes answer a request, and return when the response begins."""
        routes = await self._routes()
        asked = _asked(request)
        _check(request, scope)
        if _is_live(asked) and routes.live.draining:
            raise MillstreamError("The server stops, and live reads end", url=request.url, code="CLOSING")
        limit = routes.settings.max_body_bytes
        if len(request.body) > limit:
            return InProcessDownload(problems.body_too_large(limit), request, scope)
        found = routes.handle(asked)
        if isinstance(found, Pending):
            found = await _settled(found, request, scope)
        routes.metrics.count(found.status if isinstance(found, Reply) else found.head.status)
        return InProcessDownload(found, request, scope)


class InProcessDownload:
    """A response whose body is read piece by piece."""

    def __init__(self, found: Reply | EventFeed, request: ClientRequest, scope: CancelScope | None) -> None:
        self._request = request
        self._scope = scope
        self._queue: FrameQueue | None = None
        self._pieces: Iterator[bytes] = iter(())
        head = found if isinstance(found, Reply) else found.head
        self.answer = Answer(head.status, dict(head.headers))
        if isinstance(found, EventFeed):
            self._queue = FrameQueue(found)
            self._queue.start()
            if scope is not None:
                scope.holds(self.close)
        elif request.method != b"HEAD":
            body = found.body
            self._pieces = iter((body,) if body else ()) if isinstance(body, bytes) else body.pieces()

    async def read(self) -> bytes:
        """Return the next bytes of the body; b"" at its end."""
        try:
            if self._queue is not None:
                async with asyncio.timeout(self._request.timeout_s):
                    events = await self._queue.next()
                if not events:
                    _check(self._request, self._scope)
                return events
            piece = next(self._pieces, b"")
        except (TimeoutError, StreamLostError) as error:
            raise broken(self._request, error) from None
        await asyncio.sleep(0)  # a long body is fetched from the disk: others have their turn
        return piece

    def close(self) -> None:
        """Stop reading, even if the body is incomplete."""
        if self._scope is not None:
            self._scope.holds(None)
        self._pieces = iter(())
        if self._queue is not None:
            self._queue.leave()


def _check(request: ClientRequest, scope: CancelScope | None) -> None:
    """Raise what a cancelled connection raises."""
    if scope is not None and scope.cancelled.is_set():
        raise broken(request, ConnectionAbortedError("cancelled"))


def _is_live(asked: Request) -> bool:
    return b"live=" in asked.query or asked.path.endswith(b"/__ds/events")


def _asked(request: ClientRequest) -> Request:
    """Turn a request of the client into one of the server."""
    parts = urlsplit(request.url)
    if f"{parts.scheme}://{parts.netloc}" != ORIGIN:
        raise ValueError(f"{request.url} is not a stream of this application; its own begin with {ORIGIN}/.")
    return Request(
        request.method,
        parts.path.encode() or b"/",
        parts.query.encode(),
        request.headers,
        request.body,
        is_identified=True,
    )


async def _settled(
    pending: Pending[Reply | EventFeed], request: ClientRequest, scope: CancelScope | None
) -> Reply | EventFeed:
    """Wait for an answer, until the client gives up."""
    arrived: asyncio.Future[Reply | EventFeed] = asyncio.get_running_loop().create_future()
    pending.then(lambda found: None if arrived.done() else arrived.set_result(found))
    if scope is not None:
        aborted = ConnectionAbortedError("cancelled")
        scope.holds(lambda: None if arrived.done() else arrived.set_exception(aborted))
    try:
        async with asyncio.timeout(request.timeout_s):
            return await arrived
    except (TimeoutError, ConnectionAbortedError) as error:
        raise broken(request, error) from None
    finally:
        if scope is not None:
            scope.holds(None)
        if not arrived.done() or arrived.cancelled() or arrived.exception() is not None:
            pending.abandon()
