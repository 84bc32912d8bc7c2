"""Every example in a docstring runs, on our servers. `url` is a fresh JSON stream, `log` a handle on it."""

import asyncio
import doctest
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

import millstream
import millstream.aio
import millstream.aio.subscriptions
import millstream.subscriptions
from millstream import TransportError
from millstream.client.core.transport import Answer
from running import Server, free_port
from running import millstream as serving

SHELLS: dict[str, Any] = {"millstream": millstream, "millstream.aio": millstream.aio}
SUBSCRIBING: dict[str, Any] = {
    "millstream.subscriptions": millstream.subscriptions,
    "millstream.aio.subscriptions": millstream.aio.subscriptions,
}
NAMES = [(shell, name) for shell, module in SHELLS.items() for name in module.__all__]


@pytest.fixture(scope="module")
def servers(server: Server) -> Iterator[dict[str, Any]]:
    """What some examples need beside a stream: servers that refuse, and a port without one."""
    with (
        serving("--auth-secret", "a secret of enough bytes") as guarded,
        serving("--rate-per-address", "2") as limited,
    ):
        yield {
            "server": server.url,
            "guarded_server": guarded.url,
            "limited_server": limited.url,
            "free_port": free_port(),
        }


class Refusing:
    """A transport without a network, whose message does not depend on the machine."""

    def send(self, request: Any, scope: Any = None) -> Any:
        raise TransportError("Could not connect", url=request.url)


class Plain:
    """A transport to a server that has no extension: it answers every HEAD like one."""

    def send(self, request: Any, scope: Any = None) -> Any:
        return Answer(200, {b"content-type": b"application/json", b"stream-next-offset": b"0"}, b"")


@pytest.mark.parametrize(("shell", "name"), NAMES)
def test_the_examples_of_a_name_run(
    shell: str, name: str, url: str, servers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = SHELLS[shell]
    shared = getattr(module, name) is getattr(millstream, name)
    surroundings = {key: getattr(millstream if shared else module, key) for key in module.__all__}
    log = millstream.DurableStream.create(url, content_type="application/json")
    if name == "MillstreamError":
        monkeypatch.setattr("millstream.client.core.retry.Attempts.delay_s", lambda *_: None)
    surroundings |= servers
    surroundings |= {
        "url": url,
        "path": urlsplit(url).path,
        "log": log,
        "asyncio": asyncio,
        "time": time,
        "refusing": Refusing(),
        "plain_server": Plain(),
    }
    finder = doctest.DocTestFinder(recurse=False)
    [test] = finder.find(getattr(module, name), name, globs=surroundings, module=False)
    assert test.examples, f"{shell}.{name} shows no example"
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert outcome.failed == 0, "".join(report)


@pytest.mark.parametrize("shell", SUBSCRIBING)
def test_the_examples_of_subscriptions_run(shell: str) -> None:
    module = SUBSCRIBING[shell]
    with serving() as server:
        subscriptions = millstream.subscriptions.Subscriptions(server.url)
        subscriptions.create_pull("orders", "wake/orders", pattern="orders/**")
        orders = millstream.DurableStream.create(f"{server.url}/orders/1", content_type="application/json")
        for name in module.__all__:
            kept = module if getattr(module, name).__module__.startswith("millstream.client.aio") else None
            surroundings = {one: getattr(kept or millstream.subscriptions, one) for one in module.__all__}
            surroundings |= {"server": server.url, "orders": orders, "subscriptions": subscriptions}
            surroundings |= {"asyncio": asyncio}
            finder = doctest.DocTestFinder(recurse=False)
            [test] = finder.find(getattr(module, name), name, globs=surroundings, module=False)
            report: list[str] = []
            outcome = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
            assert outcome.failed == 0, "".join(report)
