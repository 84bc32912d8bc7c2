"""An ASGI server that stops or reloads does not wait for live readers."""

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from millstream.asgi import MillstreamApp
from millstream.server.settings import Settings
from running import Server, free_port, listening_on, started
from wire.inprocess import until

TESTS = Path(__file__).parent.parent
TEXT = {"Content-Type": "text/plain"}
PROMPTLY_S = 15  # a reader would hold the server for 60 s; a busy machine needs some

SERVERS = {
    "uvicorn": ["uvicorn", "{app}", "--app-dir", "{folder}", "--port", "{port}", "--loop", "asyncio"],
    "uvicorn, uvloop": ["uvicorn", "{app}", "--app-dir", "{folder}", "--port", "{port}", "--loop", "uvloop"],
    "hypercorn": ["hypercorn", "{app}", "--bind", "127.0.0.1:{port}", "-w", "0"],
    "hypercorn, uvloop": ["hypercorn", "{app}", "--bind", "127.0.0.1:{port}", "-w", "0", "-k", "uvloop"],
    "granian": ["granian", "{app}", "--interface", "asgi", "--port", "{port}", "--workers", "1"],
}


@contextmanager
def serving(kind: str, app: str, folder: Path) -> Iterator[Server]:
    port = free_port()
    words = [word.format(app=app, folder=folder, port=port) for word in SERVERS[kind]]
    environment = {"PYTHONPATH": str(folder)}
    with started([sys.executable, "-m", *words], listening_on(port), environment) as server:
        yield server


@contextmanager
def reading(url: str) -> Iterator[list[threading.Thread]]:
    """An event stream and a long-poll that wait at the tail of a stream."""
    httpx.put(url, content=b"x", headers=TEXT).raise_for_status()
    waiting, ended = threading.Barrier(3), []

    def follow() -> None:
        with httpx.stream("GET", url, params={"offset": "-1", "live": "sse"}, timeout=60) as answer:
            lines = answer.iter_lines()
            while "upToDate" not in next(lines):
                pass
            waiting.wait()
            ended.append(list(lines))

    def poll() -> None:
        with socket.create_connection(httpx.URL(url).netloc.decode().split(":")) as connection:
            path = httpx.URL(url).raw_path.decode()
            head = f"GET {path}?offset=now&live=long-poll HTTP/1.1\r\nHost: localhost\r\n\r\n"
            connection.sendall(head.encode())
            waiting.wait()
            ended.append(connection.recv(65536))

    readers = [threading.Thread(target=read) for read in (follow, poll)]
    for reader in readers:
        reader.start()
    waiting.wait()
    yield readers
    for reader in readers:
        reader.join(PROMPTLY_S)
        assert not reader.is_alive()
    assert len(ended) == 2


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("uvicorn", signal.SIGTERM),
        ("uvicorn", signal.SIGINT),
        ("uvicorn, uvloop", signal.SIGTERM),
        ("uvicorn, uvloop", signal.SIGINT),
        ("hypercorn", signal.SIGTERM),
        ("hypercorn, uvloop", signal.SIGINT),
        ("granian", signal.SIGTERM),
    ],
)
def test_a_signal_ends_live_reads(kind: str, number: signal.Signals) -> None:
    """L6; its lifespan opens the store."""
    with serving(kind, "wire.patient:fast", TESTS) as server, reading(server.url + "/api/streams/s"):
        server.signal(number)
        server.wait_for_exit(PROMPTLY_S)


def test_without_a_lifespan_a_signal_ends_live_reads_too() -> None:
    """L6; the first request opens the store, while the server runs."""
    with (
        serving("uvicorn", "wire.patient:star", TESTS) as server,
        reading(server.url + "/%C3%A4%20b/s"),
    ):
        server.signal(signal.SIGTERM)
        server.wait_for_exit(PROMPTLY_S)


APPLICATION = """
from fastapi import FastAPI
from millstream.asgi import MillstreamApp

api = FastAPI()
api.mount("/streams", MillstreamApp(store="memory", long_poll_timeout_ms=60_000))

@api.get("/version")
def version():
    return {version}
"""


def test_a_reload_does_not_wait_for_readers(tmp_path: Path) -> None:
    source = tmp_path / "application.py"
    source.write_text(APPLICATION.replace("{version}", "1"))
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "application:api", "--app-dir", str(tmp_path)]
    command += ["--port", str(port), "--reload", "--reload-dir", str(tmp_path)]

    def is_answered(server: Server) -> None:
        server.url = f"http://127.0.0.1:{port}"
        server.wait_until(lambda: version(server) == "1")

    def version(server: Server) -> str:
        try:
            return httpx.get(f"{server.url}/version").text
        except httpx.TransportError:
            return ""

    with started(command, is_answered) as server, reading(server.url + "/streams/s"):
        source.write_text(APPLICATION.replace("{version}", "2  # another size"))
        server.wait_until(lambda: version(server) == "2", PROMPTLY_S)


def test_a_server_that_is_stopped_by_its_own_program_does_not_wait_either() -> None:
    async def main() -> None:
        app = MillstreamApp(Settings(store="memory"))
        port = free_port()
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
        serving = asyncio.create_task(server.serve())
        await until(lambda: server.started)
        routes = await app.open()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            await client.put("/s", headers=TEXT)
            async with client.stream("GET", "/s?offset=-1&live=sse", timeout=60) as answer:
                await until(lambda: bool(routes.live.feeds))
                server.should_exit = True
                async with asyncio.timeout(PROMPTLY_S):
                    await answer.aread()
                    await serving

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    asyncio.run(main())
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize("is_reversed", [True, False])
def test_handlers_of_the_application_are_called_and_come_back(is_reversed: bool) -> None:
    """Closed in the order of their opening, they leave a handler that only calls the one before."""
    calls: list[int] = []

    def handler(number: int, _frame: object) -> None:
        calls.append(number)

    async def main() -> None:
        apps = [MillstreamApp(store="memory"), MillstreamApp(store="memory")]
        routes = [await app.open() for app in apps]
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: all(one.live.draining for one in routes))
        for app in reversed(apps) if is_reversed else apps:
            await app.close()

    before = signal.signal(signal.SIGTERM, handler)
    try:
        asyncio.run(main())
        assert not is_reversed or signal.getsignal(signal.SIGTERM) is handler
        signal.raise_signal(signal.SIGTERM)
        assert calls == [signal.SIGTERM, signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_on_another_thread_nothing_is_installed() -> None:
    async def main() -> None:
        app = MillstreamApp(store="memory")
        await app.open()
        await app.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join()
