"""Streams behind TLS: a relay with its own certificate in front of the server."""

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream
import millstream.aio
from certificates import issue
from python_client.shells import Async
from running import Server

SOON_S = 15.0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secure_url(server: Server, certificate: tuple[Path, Path]) -> Iterator[str]:
    cert, key = certificate
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    host, port = server.url.removeprefix("http://").split(":")

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            upstream_reader, upstream = await asyncio.open_connection(host, int(port))
            await asyncio.gather(pump(reader, upstream), pump(upstream_reader, writer))

    started, loop = threading.Event(), asyncio.new_event_loop()
    found: list[str] = []

    def run() -> None:
        asyncio.set_event_loop(loop)
        relaying = loop.run_until_complete(asyncio.start_server(relay, "127.0.0.1", 0, ssl=tls))
        found.append(f"https://localhost:{relaying.sockets[0].getsockname()[1]}")
        started.set()
        loop.run_forever()
        relaying.close()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(60)
    yield found[0]
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)


@pytest.fixture
def client(shell: Any, certificate: tuple[Path, Path]) -> Iterator[Any]:
    """A client of the shell under test that trusts the certificate."""
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    if isinstance(shell, Async):
        made = millstream.aio.HttpClient(tls=trusting)
        yield made
        shell.run(made.close())
    else:
        with millstream.HttpClient(tls=trusting) as made_sync:
            yield made_sync


@pytest.mark.parametrize("live", [False, True, "sse"])
def test_everything_works_behind_tls(shell: Any, client: Any, secure_url: str, live: Any) -> None:
    url = f"{secure_url}/tls/{time.time_ns()}"
    stream = shell.DurableStream.create(url, content_type="application/json", client=client)
    for number in range(20):
        stream.append(number)
    with shell.IdempotentProducer(stream, "p") as producer:
        for number in range(20, 1000):
            producer.append(number)
    stream.close()
    with stream.stream(live=live) as response:
        assert response.read_json() == list(range(1000))


def test_a_read_behind_tls_is_cancelled(certificate: tuple[Path, Path], secure_url: str) -> None:
    url = f"{secure_url}/tls/{time.time_ns()}"
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with millstream.HttpClient(tls=trusting) as client:
        stream = millstream.DurableStream.create(
            url, content_type="application/json", body=[1], client=client
        )
        response = stream.stream(live="sse")
        timer = threading.Timer(0.2, response.cancel)
        timer.start()
        started = time.monotonic()
        assert list(response.iter_json()) == [1]
        assert time.monotonic() - started < SOON_S
        timer.join()


def test_a_certificate_that_is_not_trusted_is_refused_at_once(shell: Any, secure_url: str) -> None:
    started = time.monotonic()
    with pytest.raises(millstream.TransportError, match="certificate") as caught:
        shell.DurableStream(f"{secure_url}/x").head()
    assert (caught.value.code, caught.value.unsent) == ("UNTRUSTED", True)
    assert time.monotonic() - started < SOON_S
