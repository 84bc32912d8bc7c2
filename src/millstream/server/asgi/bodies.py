"""The body of an ASGI request: read within the same limits as on the native server's connections.

A large body is read only after the head of its request is authorized. While it arrives it has a minimum rate,
and until its request is answered it counts towards what all requests may hold together (`bodies`). What the
ASGI server itself buffers is not counted; uvicorn holds some 64 KiB for each connection.

Rule H4.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.http.bodies import Bodies, due_bytes
from millstream.server.http.server import Routing
from millstream.server.request import SMALL_BODY_BYTES, Request

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class ArrivingBody:
    """The body of one request, from its first message until the request is answered."""

    def __init__(self, receive: Receive, routes: Routing, request: Request, bodies: Bodies) -> None:
        self._receive = receive
        self._routes = routes
        self._request = request
        self._bodies = bodies
        self._received = bytearray()
        self._held_bytes = 0
        self._refusal: Reply | None = None
        self._timeout = asyncio.timeout(routes.settings.body_timeout_s)

    async def read(self) -> bytes | Reply | None:
        """Return the whole body, or why it is refused; None when the client is gone."""
        try:
            async with self._timeout:
                return await self._read()
        except TimeoutError:
            if not self._timeout.expired():
                raise
            return self._refusal or problems.REQUEST_TIMEOUT

    async def _read(self) -> bytes | Reply | None:
        settings, request = self._routes.settings, self._request
        length = request.headers.get(b"content-length", b"")
        is_checked = length.isdigit() and int(length) > SMALL_BODY_BYTES
        refusal = self._routes.refuse_head(request) if is_checked else None
        due = due_bytes(0, settings)
        while refusal is None:
            message = await self._receive()
            if message["type"] != "http.request":
                return None
            is_whole = not message.get("more_body", False)
            self._received += message.get("body", b"")
            size = len(self._received)
            if size > settings.max_body_bytes:
                return problems.body_too_large(settings.max_body_bytes)
            if size > SMALL_BODY_BYTES and not is_checked:
                is_checked = True
                refusal = self._routes.refuse_head(request)
            self._hold(size, is_arriving=size > SMALL_BODY_BYTES and not is_whole)
            refusal = refusal or self._refusal
            if is_whole and refusal is None:
                body, self._received = bytes(self._received), bytearray()
                return body
            if size >= due:
                due = due_bytes(size, settings)
                self._timeout.reschedule(asyncio.get_running_loop().time() + settings.body_timeout_s)
        return refusal

    def refuse_body(self) -> None:
        """Give up the body: others need the room."""
        self._refusal = problems.BODIES_FULL
        self.release()
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())  # ends the wait for a message

    def release(self) -> None:
        """Drop what has arrived; called when the request is answered, and again when that is done already."""
        self._received = bytearray()
        self._hold(0, is_arriving=False)

    def _hold(self, held_bytes: int, *, is_arriving: bool) -> None:
        before, self._held_bytes = self._held_bytes, held_bytes
        self._bodies.report(self, held_bytes - before, is_arriving=is_arriving)
