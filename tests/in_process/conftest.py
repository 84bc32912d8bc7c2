"""The async client on the streams of its own process: the tests of the client over HTTP, run once more.

One application runs under uvicorn in a thread. The shell of these tests uses its streams in process; what
else a test uses, such as a sync client in another thread, reaches the same streams over HTTP.
"""

import asyncio
import inspect
import threading
import uuid
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
import uvicorn

import millstream.aio
from millstream.asgi import MillstreamApp
from python_client.shells import Blocking
from running import PATIENT_MS, free_port
from wire.inprocess import until


class Application:
    """An application with streams, on an event loop in a thread."""

    def __init__(self) -> None:
        self.streams = MillstreamApp(
            store="memory", max_chunk_bytes=2**20, long_poll_timeout_ms=PATIENT_MS, sse_ttl_s=60
        )
        self.port = free_port()
        self._server = uvicorn.Server(uvicorn.Config(self.streams, port=self.port, log_level="error"))
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._serving = asyncio.run_coroutine_threadsafe(self._server.serve(), self.loop)
        self.run(until(lambda: self._server.started))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self) -> None:
        self._server.should_exit = True
        self._serving.result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class InProcess:
    """The names of the async client, made to block; its URLs are those of the application over HTTP."""

    name = "in process"

    def __init__(self, application: Application) -> None:
        self._run = application.run
        streams = application.streams
        over_http = f"http://127.0.0.1:{application.port}"
        local = streams.url("/").rstrip("/")

        class Own(millstream.aio.DurableStream):
            def __init__(self, url: str, *, client: Any = None, **options: Any) -> None:
                super().__init__(url.replace(over_http, local), client=client or streams.client, **options)

        def stream(url: str, **options: Any) -> Any:
            return millstream.aio.stream(url.replace(over_http, local), client=streams.client, **options)

        def delete_all(_url: str, prefix: str | None = None, **options: Any) -> Any:
            return streams.delete_all(prefix, **options)

        def follow_many(_url: str, *args: Any, **options: Any) -> Any:
            return streams.follow_many(*args, **options)

        Own.__module__ = millstream.aio.DurableStream.__module__  # by which the shell knows what to wrap
        self.DurableStream: Any = Blocking(self, Own)  # type: ignore[arg-type]
        self.IdempotentProducer: Any = Blocking(self, millstream.aio.IdempotentProducer)  # type: ignore[arg-type]
        self.stream: Any = Blocking(self, stream)  # type: ignore[arg-type]
        self.delete_all: Any = Blocking(self, delete_all)  # type: ignore[arg-type]
        self.follow_many: Any = Blocking(self, follow_many)  # type: ignore[arg-type]

    def run(self, work: Any) -> Any:
        async def wait() -> Any:
            return await work

        return self._run(wait())

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        async def go() -> Any:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return self._run(go())


@pytest.fixture(scope="package")
def application() -> Iterator[Application]:
    made = Application()
    yield made
    made.stop()


@pytest.fixture
def shell(application: Application) -> InProcess:
    return InProcess(application)


@pytest.fixture
def any_url(application: Application) -> str:
    return f"http://127.0.0.1:{application.port}/v1/stream/{uuid.uuid4()}"


@pytest.fixture
def cut_url(any_url: str) -> str:
    return any_url


@pytest.fixture
def url(any_url: str) -> str:
    return any_url


NOT_IN_PROCESS = {
    "test_a_server_that_is_not_there_is_a_transport_error",  # it is always there
    "test_silence_is_a_timeout",
    "test_compressed_answers_are_read",  # nothing is compressed
    "test_too_much_is_refused",  # starts a server of its own
    "test_a_server_without_parts_is_not_written_to",
    "test_an_exception_drops_what_was_staged",  # through a proxy
    "test_on_error_may_repair_and_go_on",  # a blocking client on the application's own loop
    "test_subscribers_hold_back_what_follows",
    "test_conflicts_end_after_a_while",
    "test_a_server_that_would_not_look_is_not_asked",  # starts a server of its own
    "test_a_stream_that_remembers_no_more_producers_can_be_updated",
    "test_append_to_closed_stream_fails",  # compares URLs
    "test_a_response_tells_where_it_is",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests that are not about this shell, and those of a network that fails."""
    for item in list(items):
        if not isinstance(item, pytest.Function) or "in_process" not in item.path.parts:
            continue
        if "python_client" not in item.function.__module__:
            continue
        wanted = inspect.signature(item.function).parameters
        if "shell" not in wanted or "server" in wanted or item.originalname in NOT_IN_PROCESS:
            items.remove(item)
