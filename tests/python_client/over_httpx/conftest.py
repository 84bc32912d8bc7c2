"""The client's tests once more, with httpx under the client instead of its own sockets.

Each test has an httpx client of its own, which the shell closes. Our server answers: what the reference
server answers does not depend on the transport.
"""

import asyncio
import inspect
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest

import millstream
import millstream.aio
from millstream import subscriptions
from millstream.aio import subscriptions as aio_subscriptions
from millstream.httpx import AsyncHttpxTransport, HttpxTransport
from python_client.shells import Async, Blocking, Sync
from running import Server


class SyncOverHttpx(Sync):
    """The sync shell, whose streams use an httpx client."""

    def __init__(self) -> None:
        self._http = httpx.Client(trust_env=False)
        transport = HttpxTransport(self._http)
        self.DurableStream = _with(millstream.DurableStream, transport)
        self.stream = partial(millstream.stream, client=transport)
        self.Subscriptions = _with(subscriptions.Subscriptions, transport)
        self.PullWorker = partial(subscriptions.PullWorker, client=transport)
        self.WebhookVerifier = _with(subscriptions.WebhookVerifier, transport)
        self.call_back = partial(subscriptions.call_back, client=transport)

    def close(self) -> None:
        self._http.close()


class AsyncOverHttpx(Async):
    """The async shell, whose streams use an httpx client."""

    def __init__(self) -> None:
        super().__init__()
        self._http = httpx.AsyncClient(trust_env=False)
        transport = AsyncHttpxTransport(self._http)
        self.DurableStream = Blocking(self, _with(millstream.aio.DurableStream, transport))
        self.stream = Blocking(self, partial(millstream.aio.stream, client=transport))
        self.Subscriptions = Blocking(self, _with(aio_subscriptions.Subscriptions, transport))
        self.PullWorker = Blocking(self, partial(aio_subscriptions.PullWorker, client=transport))
        self.WebhookVerifier = Blocking(self, _with(aio_subscriptions.WebhookVerifier, transport))
        self.call_back = Blocking(self, partial(aio_subscriptions.call_back, client=transport))

    def close(self) -> None:
        self.run(self._closed())
        super().close()

    async def _closed(self) -> None:
        """Close the client. httpx closes responses in tasks, and iterators when they are collected."""
        await self._http.aclose()
        quiet_turns = 0
        async with asyncio.timeout(10):
            while quiet_turns < 5:
                await asyncio.sleep(0)
                quiet_turns = 0 if len(asyncio.all_tasks()) > 1 else quiet_turns + 1


def _with(kind: Any, transport: Any) -> Any:
    """A class of handles that use this transport."""

    class Own(kind):
        def __init__(self, url: str, *, client: Any = None, **options: Any) -> None:
            super().__init__(url, client=client or transport, **options)

    Own.__module__ = kind.__module__  # by which the shell knows what to wrap
    return Own


SHELLS: dict[str, Callable[[], Sync | Async]] = {"sync": SyncOverHttpx, "async": AsyncOverHttpx}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Iterator[Sync | Async]:
    made = SHELLS[request.param]()
    yield made
    made.close()


@pytest.fixture
def any_server(server: Server) -> Server:
    return server


@pytest.fixture
def any_url(server: Server) -> str:
    return f"{server.url}/v1/stream/{uuid.uuid4()}"


@pytest.fixture
def cut_url(any_url: str) -> str:
    return any_url


NOT_OVER_HTTPX = {
    "test_an_unchanged_stream_is_not_sent_again",  # compares tags; httpx asks for compression
    "test_the_refusal_of_a_body_that_the_server_does_not_read_is_heard",  # not by httpx's async client
    "test_retry_after_is_respected",  # by the core
    "test_heartbeats_keep_a_lease_that_is_shorter_than_the_work",  # likewise
    "test_everything_works_behind_tls",  # has a client of its own, as in test_httpx
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests that do not use the shell, and those of what httpx decides."""
    for item in list(items):
        if not isinstance(item, pytest.Function) or "over_httpx" not in item.path.parts:
            continue
        has_shell = "shell" in inspect.signature(item.function).parameters
        if not has_shell or item.originalname in NOT_OVER_HTTPX:
            items.remove(item)
