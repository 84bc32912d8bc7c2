"""The httpx transports over HTTP/1.1 and HTTP/2. `over_httpx` runs the other transports' tests over them."""

import asyncio
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import millstream
import millstream.aio
from millstream import StreamNotFoundError
from millstream.httpx import AsyncHttpxTransport, HttpxTransport
from python_client.shells import Async, RunAsync
from running import Server, hypercorn_server

JSON = "application/json"


@pytest.fixture(params=[False, True], ids=["http1", "http2"])
def is_http2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def client(shell: Any, is_http2: bool) -> Iterator[Any]:
    options: dict[str, Any] = {"http1": not is_http2, "http2": is_http2, "trust_env": False}
    if isinstance(shell, Async):
        made = httpx.AsyncClient(**options)
        yield AsyncHttpxTransport(made)
        shell.run(made.aclose())
    else:
        with httpx.Client(**options) as made_sync:
            yield HttpxTransport(made_sync)


@pytest.fixture(scope="module")
def http2_server() -> Iterator[Server]:
    """The ASGI application under Hypercorn, which speaks HTTP/2 to a client that begins with it."""
    with hypercorn_server() as server:
        yield server


@pytest.fixture
def a_url(is_http2: bool, server: Server, http2_server: Server) -> str:
    return f"{(http2_server if is_http2 else server).url}/httpx/{uuid.uuid4()}"


@pytest.mark.parametrize("live", [False, True, "long-poll", "sse"])
def test_everything_works(shell: Any, client: Any, a_url: str, live: Any) -> None:
    stream = shell.DurableStream.create(a_url, content_type=JSON, client=client)
    stream.append(1)
    with shell.IdempotentProducer(stream, "p") as producer:
        for number in range(2, 100):
            producer.append(number)
    stream.close(100)
    assert stream.head().stream_closed is True
    with stream.stream(live=live) as response:
        assert list(response.iter_json()) == list(range(1, 101))
    stream.delete()
    with pytest.raises(StreamNotFoundError):
        stream.head()


def test_a_read_that_waits_is_cancelled(server: Server, url: str) -> None:
    millstream.DurableStream.create(url, content_type=JSON, body=[1])
    with httpx.Client(trust_env=False) as http:
        response = millstream.stream(url, live="sse", client=HttpxTransport(http))
        timer = threading.Timer(0.2, response.cancel)
        timer.start()
        assert list(response.iter_json()) == [1]
        timer.join()


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_an_async_read_that_waits_is_cancelled(
    server: Server, url: str, live: Any, run_async: RunAsync
) -> None:
    millstream.DurableStream.create(url, content_type=JSON, body=[1])

    async def go() -> list[Any]:
        async with httpx.AsyncClient(trust_env=False) as http:
            response = await millstream.aio.stream(url, live=live, client=AsyncHttpxTransport(http))

            async def cancel() -> None:
                await asyncio.sleep(0.2)  # by then it waits
                await response.cancel()

            async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
                tasks.create_task(cancel())
                return [message async for message in response.iter_json()]

    assert run_async(go()) == [1]


def test_without_httpx_the_import_says_what_to_install() -> None:
    program = "import sys; sys.modules['httpx'] = None\nimport millstream.httpx"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "millstream.httpx needs httpx: pip install 'millstream[httpx]'" in ended.stderr
