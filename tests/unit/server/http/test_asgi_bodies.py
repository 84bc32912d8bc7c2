"""Bodies of ASGI requests: the minimum rate, the budget, and that what ends gives its room back (rule H4)."""

import asyncio
from typing import Any, cast

import pytest

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.asgi.bodies import ArrivingBody, Message
from millstream.server.http.bodies import Bodies
from millstream.server.request import Request
from millstream.server.settings import Settings

LARGE = 100_000
SETTINGS = Settings(max_body_bytes=3 * LARGE, body_timeout_s=0.2)


class Heads:
    """Routes that are only asked whether a large body may come."""

    def __init__(self, settings: Settings = SETTINGS, refusal: Reply | None = None) -> None:
        self.settings = settings
        self.refusal = refusal

    def refuse_head(self, _request: Request) -> Reply | None:
        return self.refusal


class Client:
    """Sends pieces of a body, then stalls."""

    def __init__(self, *pieces: bytes | None, pause_s: float = 0.0, is_whole: bool = False) -> None:
        self._pieces = list(pieces)
        self._pause_s = pause_s
        self._is_whole = is_whole

    async def receive(self) -> Message:
        await asyncio.sleep(self._pause_s if self._pieces else 60)
        piece = self._pieces.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        more = bool(self._pieces) or not self._is_whole
        return {"type": "http.request", "body": piece, "more_body": more}


def arriving(client: Client, bodies: Bodies, heads: Heads | None = None) -> ArrivingBody:
    routes: Any = heads or Heads()
    return ArrivingBody(client.receive, routes, Request(b"POST", b"/s", b"", {}, b""), bodies)


ENDS: dict[str, tuple[Client, Heads, bytes | Reply | None]] = {
    "whole": (Client(b"a", b"b" * LARGE, is_whole=True), Heads(), b"a" + b"b" * LARGE),
    "gone": (Client(b"b" * LARGE, None), Heads(), None),
    "stalled": (Client(b"b" * LARGE), Heads(), problems.REQUEST_TIMEOUT),
    "never begun": (Client(), Heads(), problems.REQUEST_TIMEOUT),
    "too large": (Client(b"b" * 4 * LARGE), Heads(), problems.body_too_large(3 * LARGE)),
    "not allowed": (Client(b"b" * LARGE), Heads(refusal=problems.OVERLOADED), problems.OVERLOADED),
    "dripping": (
        Client(*[b"b"] * 100, pause_s=0.05),
        Heads(Settings(body_timeout_s=0.4, min_body_bytes_per_s=100)),
        problems.REQUEST_TIMEOUT,
    ),
}


@pytest.mark.parametrize("which", ENDS)
def test_every_end_of_a_body_frees_the_budget(which: str) -> None:
    client, heads, end = ENDS[which]

    async def main() -> None:
        bodies = Bodies(10 * LARGE)
        body = arriving(client, bodies, heads)
        assert await body.read() == end
        body.release()
        assert bodies.held_bytes == 0
        assert not bodies._arriving

    asyncio.run(main())


def test_a_body_counts_until_its_request_is_answered() -> None:
    async def main() -> None:
        bodies = Bodies(10 * LARGE)
        body = arriving(Client(b"b" * LARGE, is_whole=True), bodies)
        assert await body.read() == b"b" * LARGE
        assert bodies.held_bytes == LARGE
        body.release()
        assert bodies.held_bytes == 0

    asyncio.run(main())


def test_a_slow_body_that_keeps_the_minimum_rate_is_read() -> None:
    async def main() -> None:
        heads = Heads(Settings(body_timeout_s=0.5, min_body_bytes_per_s=100))
        slow = Client(*[b"b" * 100] * 10, pause_s=0.1, is_whole=True)
        assert await arriving(slow, Bodies(LARGE), heads).read() == b"b" * 1000

    asyncio.run(main())


def test_a_body_waits_until_there_is_room_for_it() -> None:
    async def main() -> None:
        bodies = Bodies(4 * LARGE)
        heads = Heads(Settings(body_timeout_s=60, max_body_bytes=3 * LARGE))
        first = arriving(Client(b"b" * LARGE, b"b", is_whole=True), bodies, heads)
        assert await first.read() == b"b" * (LARGE + 1)
        second = arriving(Client(b"b" * LARGE, b"b" * LARGE, is_whole=True), bodies, heads)
        waiting = asyncio.create_task(second.read())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        first.release()
        assert await asyncio.wait_for(waiting, 60) == b"b" * 2 * LARGE

    asyncio.run(main())


def test_a_body_that_waits_too_long_is_refused() -> None:
    async def main() -> None:
        bodies = Bodies(3 * LARGE)
        heads = Heads(Settings(body_timeout_s=0.2, max_body_bytes=3 * LARGE))
        first = arriving(Client(b"b" * 3 * LARGE, is_whole=True), bodies, heads)
        assert isinstance(await first.read(), bytes)
        headers = {b"content-length": b"200000"}
        request, routes = Request(b"POST", b"/s", b"", headers, b""), cast(Any, heads)
        second = ArrivingBody(Client(b"b").receive, routes, request, bodies)
        assert await second.read() is problems.BODIES_FULL
        second.release()
        assert not bodies._waiting
        assert bodies.held_bytes == 3 * LARGE

    asyncio.run(main())


def test_a_body_that_alone_exceeds_the_budget_is_given_up() -> None:
    async def main() -> None:
        bodies = Bodies(LARGE)
        assert await arriving(Client(b"b" * LARGE, b"b"), bodies).read() is problems.BODIES_FULL
        assert bodies.held_bytes == 0

    asyncio.run(main())
