"""The same routes as an ASGI application: for FastAPI and Starlette, uvicorn, Granian and Hypercorn.

        from millstream.asgi import MillstreamApp

        api = FastAPI(lifespan=...)
        api.mount("/streams", MillstreamApp())

Most frameworks send no lifespan events to mounted applications, so the first request opens the store if
it is not open yet.
"""

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from millstream.client.aio.deletions import delete_all
from millstream.client.aio.following import Following, follow_many
from millstream.client.aio.streams import DurableStream
from millstream.client.core.errors import MillstreamError
from millstream.client.core.plans.following import Streams
from millstream.protocol import problems
from millstream.protocol.http import Header, Reply
from millstream.server.access.auth import open_auth
from millstream.server.asgi.access import AsgiScope, Authorize, Gate
from millstream.server.asgi.bodies import ArrivingBody, Message, Receive
from millstream.server.asgi.frame_queue import FrameQueue
from millstream.server.asgi.in_process import ORIGIN, InProcessClient
from millstream.server.asgi.stopping import StopWatch
from millstream.server.http.bodies import Bodies
from millstream.server.live.feeds import EventFeed
from millstream.server.request import Request
from millstream.server.routes.dispatch import Routes
from millstream.server.run import clock_ms, open_store, running_routes
from millstream.server.settings import Settings, SettingsError, fields, load
from millstream.store.base import StoreError
from millstream.store.listening import Listening, StreamEvent
from millstream.store.pending import Pending

Send = Callable[[Message], Awaitable[None]]


class MillstreamApp:
    """Durable streams as an ASGI application.

    Settings are given by name (`MillstreamApp(data="streams")`), or come from the `MILLSTREAM_*` variables.
    Without tokens only clients on this machine are answered, unless `authorize(scope, path, action)` decides
    or `insecure=True` is given (`access`).
    """

    def __init__(
        self, settings: Settings | None = None, *, authorize: Authorize | None = None, **changes: Any
    ) -> None:
        self.settings = _settings(settings, changes)
        self._authorize = authorize
        self._gate = Gate(authorize, insecure=self.settings.insecure)
        self._resources = contextlib.AsyncExitStack()
        self._routes: Routes | None = None
        self._bodies = Bodies(self.settings.max_bodies_bytes)
        self._opening = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self.client = InProcessClient(self._entered)
        """A transport for the functions of `millstream.aio` that take a `client`."""
        self._listenings: set[Listening] = set()
        self.on_open: list[Callable[[], Awaitable[None]]] = []
        """Awaited in this order when the store is open; streams can be used in them."""
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        """Awaited in reverse order before the store is closed."""

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI server: a request, or its lifespan."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            if self._is_closed:
                await _send_reply(send, problems.not_ready("closed"), [])
            else:
                await self._http(await self.open(), scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    # -- Its life ----------------------------------------------------------------------------------

    async def open(self) -> Routes:
        """Open the store if it is not open yet."""
        async with self._opening:
            if self._routes is not None:
                self._check_loop()
                return self._routes
            self._loop = asyncio.get_running_loop()
            auth = open_auth(self.settings, by_application=self._authorize is not None)
            running = running_routes(self.settings, open_store(self.settings), auth)
            self._routes = await self._resources.enter_async_context(running)
            watch = StopWatch(self.begin_stop)
            watch.start()
            self._resources.callback(watch.stop)
            self._is_closed = False
            try:
                for begin in self.on_open:
                    await begin()
            except BaseException:
                await self._end()
                raise
            return self._routes

    async def _entered(self) -> Routes:
        """Return the routes for a request, which opens the store unless that was closed."""
        if self._routes is not None and asyncio.get_running_loop() is self._loop:
            return self._routes
        if self._is_closed:
            raise MillstreamError("The streams of this application are closed", code="CLOSED")
        return await self.open()

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "These streams were opened on another event loop, and are used on that one only. From a "
                "thread, use asyncio.run_coroutine_threadsafe or HTTP. In tests, write "
                "`with TestClient(app) as client`: without `with`, each request has a loop of its own."
            )

    def begin_stop(self) -> None:
        """End live reads, now and from now on: the server is about to stop.

        Signals do this by themselves (`stopping`).
        """
        if self._routes is not None:
            self._routes.live.drain()

    @contextlib.asynccontextmanager
    async def lifespan(self, _application: object = None) -> AsyncIterator[None]:
        """Keep the store open; for `FastAPI(lifespan=streams.lifespan)`, or inside a lifespan of your own."""
        await self.open()
        try:
            yield
        finally:
            await self.close()

    async def close(self) -> None:
        """End live reads and close the store. `open` opens it again."""
        async with self._opening:
            if self._routes is None:
                return
            self._check_loop()
            self.begin_stop()
            try:
                for end in reversed(self.on_close):
                    await end()
            finally:
                await self._end()

    async def _end(self) -> None:
        self._routes, self._is_closed = None, True
        for listening in list(self._listenings):
            listening.close()
        await self._resources.aclose()

    # -- Its own streams ---------------------------------------------------------------------------

    def url(self, path: str) -> str:
        """Return the URL of a stream for `client`: `aio.stream(app.url("/a"), client=app.client)`."""
        if not path.startswith("/"):
            raise ValueError(f"a stream's path begins with a slash, not {path!r}")
        return ORIGIN + quote(self.settings.path + path)

    def stream(self, path: str, **options: Any) -> DurableStream:
        """Return a handle on a stream of this application, which uses no network.

        It is a `millstream.aio.DurableStream`, and takes the same options.
        """
        return DurableStream(self.url(path), client=self.client, **options)

    async def create(self, path: str, **options: Any) -> DurableStream:
        """Create a stream of this application; with the options of `millstream.aio.DurableStream.create`."""
        return await DurableStream.create(self.url(path), client=self.client, **options)

    async def delete_all(self, prefix: str | None = None, **options: Any) -> int:
        """Delete the streams of this application below a prefix; with the options of `aio.delete_all`."""
        return await delete_all(ORIGIN + quote(self.settings.path), prefix, client=self.client, **options)

    def follow_many(self, streams: Streams = (), **options: Any) -> Following:
        """Follow streams of this application together; with the options of `aio.follow_many`."""
        return follow_many(ORIGIN + quote(self.settings.path), streams, client=self.client, **options)

    def listen(self, glob: str = "/**") -> AsyncIterator[StreamEvent]:
        """Give events of this application's streams, those that a glob matches, from now on.

        An event says that a stream was appended to, closed or deleted, and where it ends, once that is
        durable; it has no content. Changes that come faster than they are asked for are one event for each
        stream. `missed` says that more streams have changed than there is room for (10,000), or that the
        database could not tell what other servers have changed: look at them yourself. If the store is not
        open yet, the first event opens it.
        """
        return self._listen(glob, self._begin_listening(self._routes, glob) if self._routes else None)

    def _begin_listening(self, routes: Routes, glob: str) -> Listening:
        listening = routes.store.listen(glob, clock_ms)
        self._listenings.add(listening)
        return listening

    async def _listen(self, glob: str, begun: Listening | None) -> AsyncIterator[StreamEvent]:
        listening = begun or self._begin_listening(await self._entered(), glob)
        try:
            async for event in listening:
                yield event
        finally:
            listening.close()
            self._listenings.discard(listening)

    # -- Requests ----------------------------------------------------------------------------------

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.open()
                except (SettingsError, StoreError) as error:  # uvicorn goes on after an exception
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, routes: Routes, scope: AsgiScope, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        common = routes.cors.common_headers(headers.get(b"origin"))
        request = _request(scope, headers)
        refusal = _oversized(scope, headers, self.settings) or await self._gate.refuse(routes, scope, request)
        arriving = ArrivingBody(receive, routes, request, self._bodies)
        try:
            body = refusal if refusal is not None else await arriving.read()
            if isinstance(body, Reply):
                arriving.release()
                routes.refused(request.client, body)
                await _send_reply(send, body, [*common, *_closing(body, scope)])
            elif body is not None:
                request.body = body
                await self._answer(routes, request, receive, send, common)
        finally:
            arriving.release()

    async def _answer(
        self, routes: Routes, request: Request, receive: Receive, send: Send, common: list[Header]
    ) -> None:
        timing = routes.metrics.latencies.sample()
        answer = routes.handle(request)
        gone = asyncio.create_task(_disconnected(receive))
        try:
            if isinstance(answer, Pending):
                found = await _settled_or_gone(answer, gone)
                if found is None:
                    return
            else:
                found = answer
            if isinstance(found, Reply):
                routes.metrics.count(found.status)
                if timing is not None:
                    timing.end(request, found.status)
                await _send_reply(send, found, common, has_body=request.method != b"HEAD")
            else:
                await _send_feed(send, found, common, gone)
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone


async def _send_feed(send: Send, feed: EventFeed, common: list[Header], gone: "asyncio.Task[None]") -> None:
    """Send events until the feed ends or the client is gone."""
    head = feed.head
    await send({"type": "http.response.start", "status": head.status, "headers": [*common, *head.headers]})
    queue = FrameQueue(feed)
    try:
        queue.start()
        gone.add_done_callback(lambda _: queue.leave())
        while events := await queue.next():
            await send({"type": "http.response.body", "body": events, "more_body": True})
        if not gone.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        queue.leave()


def _settings(given: Settings | None, changes: dict[str, Any]) -> Settings:
    unknown = changes.keys() - {name for name, *_ in fields()}
    if unknown:
        raise TypeError(f"MillstreamApp: there is no setting {', '.join(sorted(unknown))}.")
    if given is None:
        return load(changes, os.environ)
    checked = load(changes, {})
    return dataclasses.replace(given, **{name: getattr(checked, name) for name in changes})


def _headers(scope: AsgiScope) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, raw in scope["headers"]:
        value = raw.strip(b" \t")  # space around a value is not part of it; not every server removes it
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def _request(scope: AsgiScope, headers: dict[bytes, bytes]) -> Request:
    mount = scope.get("root_path", "")
    path = scope.get("raw_path") or scope["path"].encode()
    path = path.partition(b"?")[0]
    if mount and not unquote_to_bytes(path).startswith(mount.encode() + b"/"):
        path = quote(mount).encode() + path  # servers differ in whether the path includes the mount
    method, query = scope["method"].encode(), scope.get("query_string", b"")
    scheme, client = scope.get("scheme", "http").encode(), scope.get("client") or ("",)
    return Request(method, path, query, headers, b"", scheme, mount, client[0].encode())


def _oversized(scope: AsgiScope, headers: dict[bytes, bytes], settings: Settings) -> Reply | None:
    """Refuse a request that is too large before its body is read; not every ASGI server does."""
    path = scope.get("raw_path") or scope["path"].encode()
    if len(path) + len(scope.get("query_string", b"")) > settings.max_url_bytes:
        return problems.URL_TOO_LONG
    if sum(len(name) + len(value) + 4 for name, value in headers.items()) > settings.max_header_bytes:
        return problems.HEADERS_TOO_LARGE
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > settings.max_body_bytes:
        return problems.body_too_large(settings.max_body_bytes)
    return None


def _closing(refusal: Reply, scope: AsgiScope) -> list[Header]:
    """Return what makes the ASGI server close a connection whose client is too slow (RFC 9110, 15.5.9)."""
    is_http1 = scope.get("http_version", "1.1").startswith("1")  # HTTP/2 has no such header
    return [(b"connection", b"close")] if refusal is problems.REQUEST_TIMEOUT and is_http1 else []


async def _send_reply(send: Send, reply: Reply, common: list[Header], *, has_body: bool = True) -> None:
    headers = [*common, *reply.headers]
    if has_body and reply.status not in (204, 304):
        headers.append((b"content-length", b"%d" % len(reply.body)))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    body = reply.body if has_body else b""
    if not isinstance(body, bytes):
        for piece in body.pieces():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _settled_or_gone(answer: Pending[Any], gone: "asyncio.Task[None]") -> Reply | EventFeed | None:
    arrived = asyncio.ensure_future(answer)
    await asyncio.wait({arrived, gone}, return_when=asyncio.FIRST_COMPLETED)
    if arrived.done():
        found: Reply | EventFeed = arrived.result()
        return found
    arrived.cancel()
    answer.abandon()
    return None
