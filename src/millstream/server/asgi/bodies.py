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
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._timeout = asyncio.timeout(routes.settings.body_timeout_s)

    async def read(self) -> bytes | Reply | None:
        """Return the whole body, or why it is refused; None when the client is gone."""
        try:
            async with self._timeout:
                return await self._read()
        except TimeoutError:
            if not self._timeout.expired():
                raise
            waits = not self._has_room.is_set()
            return self._refusal or (problems.BODIES_FULL if waits else problems.REQUEST_TIMEOUT)

    async def _read(self) -> bytes | Reply | None:
        settings, request = self._routes.settings, self._request
        length = request.headers.get(b"content-length", b"")
        is_checked = length.isdigit() and int(length) > SMALL_BODY_BYTES
        refusal = self._routes.refuse_head(request) if is_checked else None
        due = due_bytes(0, settings)
        while refusal is None:
            if is_checked and (refusal := await self._claim(length)) is not None:
                break
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
            if is_whole:
                self._bodies.forget(self)
            self._hold(size)
            refusal = refusal or self._refusal
            if is_whole and refusal is None:
                body, self._received = bytes(self._received), bytearray()
                return body
            if size >= due:
                due = due_bytes(size, settings)
                self._give_time()
        return refusal

    async def _claim(self, length: bytes) -> Reply | None:
        """Wait until there is room for the whole body; return why it is refused, if it is."""
        size = int(length) if length.isdigit() else self._routes.settings.max_body_bytes
        self._bodies.claim(self, len(self._received), size)
        await self._has_room.wait()
        return self._refusal

    def _give_time(self) -> None:
        if not self._timeout.expired():
            now_s = asyncio.get_running_loop().time()
            self._timeout.reschedule(now_s + self._routes.settings.body_timeout_s)

    def await_room(self, *, is_slow: bool) -> None:
        """Read no further message."""
        self._has_room.clear()
        if not is_slow:
            self._give_time()

    def resume_body(self, *, is_slow: bool) -> None:
        """Read on: there is room for the body."""
        self._has_room.set()
        if not is_slow:
            self._give_time()

    def refuse_body(self) -> None:
        """Give up the body: others need the room."""
        self._refusal = problems.BODIES_FULL
        self.release()
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())  # ends the wait for a message

    def release(self) -> None:
        """Drop what has arrived; called when the request is answered, and again when that is done already."""
        self._received = bytearray()
        self._bodies.forget(self)
        self._hold(0)

    def _hold(self, held_bytes: int) -> None:
        before, self._held_bytes = self._held_bytes, held_bytes
        self._bodies.report(held_bytes - before)
