"""The async client inside an application under uvicorn, with uvicorn's default loop."""

import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from running import Server, free_port, listening_on, started

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def application(server: Server) -> Iterator[httpx.Client]:
    """An application of a user, under uvicorn as it comes."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "python_client.fast_application:app", "--app-dir", str(TESTS)]
    command += ["--port", str(port), "--log-level", "warning"]
    environment = {"STREAMS_URL": server.url}
    with (
        started(command, listening_on(port), environment) as running,
        httpx.Client(base_url=running.url, timeout=30) as client,
    ):
        yield client
        assert "Traceback" not in running.output()


def test_uvicorn_chooses_uvloop_here(application: httpx.Client) -> None:
    """Otherwise the other tests would not show what they are for."""
    assert application.get("/loop").json() == "uvloop"


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_handler_writes_and_another_follows(application: httpx.Client, live: str) -> None:
    name = str(uuid.uuid4())
    assert application.post(f"/chats/{name}").raise_for_status().json()["offset"]
    assert application.get(f"/chats/{name}", params={"live": live}).text == "Hello, world."


def test_many_requests_share_the_loops_connections(application: httpx.Client) -> None:
    names = [str(uuid.uuid4()) for _ in range(40)]

    def use(name: str) -> str:
        application.post(f"/chats/{name}").raise_for_status()
        return application.get(f"/chats/{name}").text

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(use, names)) == {"Hello, world."}
