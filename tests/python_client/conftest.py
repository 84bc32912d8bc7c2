"""Both shells, our server and the public reference server, and fresh URLs on them."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from node import NodeUnavailableError, install, node
from python_client.cutting_proxy import CuttingProxy
from python_client.shells import LOOPS, SHELLS, Async, RunAsync, Sync, run_on
from running import Server, announced, millstream, started

REFERENCE = Path(__file__).parent / "reference"


@contextmanager
def reference() -> Iterator[Server]:
    try:
        install(REFERENCE)
        command = [node(), str(REFERENCE / "serve.mjs")]
    except NodeUnavailableError as reason:
        pytest.skip(f"the reference server needs Node: {reason}")
    with started(command, announced) as server:
        yield server


def ours() -> AbstractContextManager[Server]:
    """Our server, with answers that are short enough for a test to need several."""
    return millstream("--max-chunk-bytes", str(2**20))


SERVERS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "ours": ours,
    "reference": reference,
}


@pytest.fixture(
    scope="package", params=[pytest.param("ours"), pytest.param("reference", marks=pytest.mark.node)]
)
def any_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Our server, and the one that the protocol's authors wrote."""
    with SERVERS[request.param]() as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the reference server on uvloop: what it answers does not depend on the client's loop."""
    for item in list(items):
        params = (
            item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        )
        if (params.get("any_server"), params.get("shell")) == ("reference", "async-uvloop"):
            items.remove(item)


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """Our server."""
    with ours() as server:
        yield server


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Iterator[Sync | Async]:
    made: Sync | Async = SHELLS[request.param]()
    yield made
    made.close()


@pytest.fixture(params=LOOPS)
def run_async(request: pytest.FixtureRequest) -> RunAsync:
    """`asyncio.run`, and the same on uvloop."""
    return partial(run_on, request.param)


@pytest.fixture
def any_url(any_server: Server) -> str:
    return f"{any_server.url}/v1/stream/{uuid.uuid4()}"


@pytest.fixture
def cut_url(request: pytest.FixtureRequest, any_server: Server) -> Iterator[str]:
    """A stream whose content comes in several answers: ours cuts them, a proxy does it for the reference."""
    if request.node.callspec.params["any_server"] == "ours":
        yield f"{any_server.url}/v1/stream/{uuid.uuid4()}"
        return
    with CuttingProxy(any_server.url) as proxy:
        yield f"{proxy.url}/v1/stream/{uuid.uuid4()}"
        assert proxy.cuts > 0, "the proxy had nothing to cut: this test shows nothing"


@pytest.fixture
def url(server: Server) -> str:
    return f"{server.url}/client/{uuid.uuid4()}"
