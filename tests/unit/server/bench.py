"""Routes without a server: requests go in, answers come out, and the clock stands still."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from millstream.protocol.http import Reply
from millstream.protocol.sse import Event, Parser
from millstream.server.access.auth import open_auth
from millstream.server.live.feeds import EventFeed
from millstream.server.live.frames import Frame
from millstream.server.request import Answer, Request
from millstream.server.routes.dispatch import Routes
from millstream.server.settings import Settings
from millstream.store.base import Store
from millstream.store.memory import memory_store
from millstream.store.pending import Pending

NEW_YEAR_2030_MS = 1_893_456_000_000


class Sink:
    """A client's connection that keeps what it is sent."""

    def __init__(self) -> None:
        self.writable = True
        self.frames: list[Frame] = []
        self.finished = False

    def write(self, frame: Frame) -> None:
        assert not self.finished
        self.frames.append(frame)

    def finish(self) -> None:
        assert not self.finished
        self.finished = True

    def take(self) -> list[Event]:
        """Give the events since the last time."""
        frames, self.frames = self.frames, []
        return list(Parser().feed(b"".join(frame.events for frame in frames)))

    def data(self) -> list[str]:
        return [event.data for event in self.take() if event.type == "data"]


class Bench:
    """Routes on a store, with a clock of their own. Make it inside of an event loop."""

    def __init__(self, store: Store | None = None, **settings: Any) -> None:
        self.now_ms = NEW_YEAR_2030_MS
        chosen = Settings(**{"store": "memory", "allowed_hosts": ("*",)} | settings)
        self.routes = Routes(store or memory_store(), chosen, open_auth(chosen), lambda: self.now_ms)
        self.live = self.routes.live

    def ask(self, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
        path, _, query = target.partition("?")
        fields = {"host": "h"} | ({"content_type": "text/plain"} if body else {}) | headers
        encoded = {name.replace("_", "-").lower().encode(): value.encode() for name, value in fields.items()}
        return self.routes.handle(Request(method.encode(), path.encode(), query.encode(), encoded, body))

    def reply(self, method: str, target: str, body: bytes = b"", **headers: str) -> Reply:
        """Ask what is answered at once."""
        answer = self.ask(method, target, body, **headers)
        assert isinstance(answer, Reply), answer
        return answer

    def wait(self, target: str, **headers: str) -> Pending[Any]:
        """Ask what has to wait."""
        answer = self.ask("GET", target, **headers)
        assert isinstance(answer, Pending), answer
        return answer

    def watch(self, target: str, sink: Sink | None = None) -> Sink:
        """Open an event stream."""
        feed = self.ask("GET", target)
        assert isinstance(feed, EventFeed), feed
        sink = sink if sink is not None else Sink()
        feed.start(sink)
        return sink


def bench_with_stream(**settings: Any) -> Bench:
    """Make a bench with an empty stream of text at `/s`."""
    bench = Bench(**settings)
    assert bench.reply("PUT", "/s", content_type="text/plain").status == 201
    return bench


async def turn() -> None:
    """Let the loop do what is due."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def until(is_done: Callable[[], bool]) -> None:
    """Let the loop do what takes several turns."""
    async with asyncio.timeout(20):
        while not is_done():  # noqa: ASYNC110  turns are what it waits for
            await asyncio.sleep(0)


def header(reply: Reply, name: str) -> str | None:
    value = dict(reply.headers).get(name.encode())
    return value.decode() if value is not None else None


def code(reply: Reply) -> str:
    found: str = json.loads(reply.body)["code"]
    return found
