"""Connections: at most one whole response for each request, and never a 500.

An input is what a client sends on one connection. It goes into a `Connection` without a network, with a
server of its own, so that the outcome depends on nothing else.
"""

import asyncio
import itertools
import zlib
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, cast

from hardening.fuzz import requests, responses
from hardening.fuzz.fuzzing import Check, Target
from millstream.server.access.auth import open_auth
from millstream.server.http.connection import Connection
from millstream.server.http.server import NativeServer
from millstream.server.routes.dispatch import Routes
from millstream.server.run import clock_ms, open_store
from millstream.server.settings import Settings
from unit.server.http.llhttp_only import LlhttpOnly

SETTINGS = Settings(store="memory", allowed_hosts=("*",), long_poll_timeout_ms=1, max_body_bytes=100_000)
PATIENCE_S = 60.0
_TURNS = 3  # of the event loop, after which a connection that does not wait has answered


class _Client:
    """A transport whose client takes everything; it keeps what was sent."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_paused = self.is_closed = self.has_ended = False

    def write(self, data: bytes) -> None:
        assert not self.has_ended, "written behind the end"
        self.received += data

    def writelines(self, pieces: tuple[bytes, ...]) -> None:
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = self.has_ended = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return ("192.0.2.1", 1) if name == "peername" else None


async def check(data: bytes) -> Hashable:
    """Send bytes in a few segments, and look at all that comes back."""
    loop = asyncio.get_running_loop()
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context))
    store = open_store(SETTINGS)
    await store.open()
    routes = Routes(store, SETTINGS, open_auth(SETTINGS), clock_ms)
    client = _Client()
    connection = Connection(NativeServer(routes, scheme=b"http"), loop)
    connection.connection_made(cast(asyncio.Transport, client))
    for segment in _segments(data):
        await _settle(connection, client)
        if not client.is_closed:
            connection.data_received(segment)
    await _settle(connection, client)
    connection.connection_lost(None)
    await asyncio.sleep(0)
    await routes.close()
    await store.close()
    assert not failures, failures
    return judge(data, bytes(client.received), ended=False)


def judge(data: bytes, received: bytes, *, ended: bool) -> Hashable:
    """Compare what was received with the requests that were sent; `ended` when the client sends no more."""
    asked, refusal, is_idle = requests.read(LlhttpOnly, [data])
    found = responses.split(received, [request.method for request in asked])
    assert 500 not in found.statuses, "an internal error"
    most = len(asked) + (refusal is not None or not is_idle)  # one that is not whole may be refused
    assert len(found.statuses) <= most, f"{found.statuses} for {most} requests"
    if not ended and not found.is_last:
        assert len(found.statuses) == len(asked), f"{len(asked)} requests have the responses {found.statuses}"
    return tuple(found.statuses[:2]), found.is_last


def _segments(data: bytes) -> list[bytes]:
    dice = Random(zlib.crc32(data))
    places = sorted(dice.randint(0, len(data)) for _ in range(dice.choice((0, 0, 1, 3))))
    return [data[start:end] for start, end in itertools.pairwise([0, *places, len(data)]) if end > start]


async def _settle(connection: Connection, client: _Client) -> None:
    """Wait until the connection has answered, or feeds events, or waits for the client."""
    loop = asyncio.get_running_loop()
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    give_up_s = loop.time() + PATIENCE_S
    while not client.is_closed and connection._feed is None:
        if connection._answering is None and not client.is_paused and not connection._parser.requests:
            return
        assert loop.time() < give_up_s, "no response"
        await asyncio.sleep(0.0005 if connection._waiting is not None else 0)


@contextmanager
def _opened() -> Iterator[Check]:
    with asyncio.Runner() as runner:
        yield lambda data: runner.run(check(data))


TARGET = Target("connections", _opened, requests.generate, requests.TOKENS, corpus="requests")
