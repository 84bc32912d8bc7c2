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
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from millstream.protocol import problems
from millstream.protocol.http import Header, Reply
from millstream.server.access.auth import open_auth
from millstream.server.http.asgi_access import AsgiScope, Authorize, Gate
from millstream.server.http.asgi_bodies import ArrivingBody, Message, Receive
from millstream.server.http.asgi_stopping import StopWatch
from millstream.server.http.bodies import Bodies
from millstream.server.live.feeds import EventFeed
from millstream.server.live.frames import Frame
from millstream.server.request import Request
from millstream.server.routes.dispatch import Routes
from millstream.server.run import open_store, running_routes
from millstream.server.settings import Settings, fields, load
from millstream.store.pending import Pending

Send = Callable[[Message], Awaitable[None]]


class MillstreamApp:
    """Durable streams as an ASGI application.

    Settings are given by name (`MillstreamApp(data="streams")`), or come from the `MILLSTREAM_*` variables.
    Without tokens only clients on this machine are answered, unless `authorize(scope, path, action)` decides
    or `insecure=True` is given (`asgi_access`).
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

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI server: a request, or its lifespan."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(await self.open(), scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def open(self) -> Routes:
        """Open the store if it is not open yet."""
        async with self._opening:
            if self._routes is None:
                auth = open_auth(self.settings, by_application=self._authorize is not None)
                running = running_routes(self.settings, open_store(self.settings), auth)
                self._routes = await self._resources.enter_async_context(running)
                watch = StopWatch(self.begin_stop)
                watch.start()
                self._resources.callback(watch.stop)
        return self._routes

    def begin_stop(self) -> None:
        """End live reads, now and from now on: the server is about to stop.

        Signals do this by themselves (`asgi_stopping`).
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
        """End live reads and close the store."""
        self._routes = None
        await self._resources.aclose()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.open()
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
                await _Outlet(found, send, gone).run(common)
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone


class _Outlet:
    """Carries a feed's frames to an ASGI `send`, which has to be awaited."""

    def __init__(self, feed: EventFeed, send: Send, gone: "asyncio.Task[None]") -> None:
        self._feed = feed
        self._send = send
        self._gone = gone
        self._frames: deque[Frame] = deque()
        self._something = asyncio.Event()
        self._finished = False
        self.writable = True

    def write(self, frame: Frame) -> None:
        """Take a frame; no more until it is sent."""
        self._frames.append(frame)
        self.writable = False
        self._something.set()

    def finish(self) -> None:
        """End the feed: no more frames come."""
        self._finished = True
        self._something.set()

    async def run(self, common: list[Header]) -> None:
        """Send until the feed ends or the client is gone."""
        self._gone.add_done_callback(lambda _: self._something.set())
        head = self._feed.head
        await self._send(
            {"type": "http.response.start", "status": head.status, "headers": [*common, *head.headers]}
        )
        try:
            self._feed.start(self)
            while not self._gone.done():
                while self._frames:
                    frame = self._frames.popleft()
                    await self._send({"type": "http.response.body", "body": frame.events, "more_body": True})
                if self._finished:
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                    return
                self.writable = True
                self._something.clear()
                self._feed.pump()
                await self._something.wait()
        finally:
            self._feed.leave()


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
