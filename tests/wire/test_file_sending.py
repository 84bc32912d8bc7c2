"""Long answers that are sent from files: byte by byte what the stream is, whatever happens meanwhile."""

import json
import os
import random
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from millstream.server.run import running_routes
from millstream.server.settings import Settings
from millstream.store.log.engine import LogEngine
from millstream.store.log.opening import folder_store
from millstream.store.table import Table
from running import Server, millstream
from wire.inprocess import Client, Served, run, serving_routes, until
from wire.raw_connection import HungUpError, Wire, request

ANSWER_BYTES = 8 * 2**20
APPEND_BYTES = 500_000
CONTENT = random.Random(1).randbytes(24_000_000)
ROWS = [{"row": row, "text": "x" * (row % 700)} for row in range(30_000)]
IDLE_S = 75.0


@contextmanager
def restarted(folder: str) -> Iterator[Server]:
    """A server whose streams were all written by one before it, which has put them into files."""
    with millstream("--store", "log", "--data", folder) as server, Wire(server.url) as wire:
        wire.ask("PUT", "/bytes", Content_Type="application/octet-stream")
        for start in range(0, len(CONTENT), APPEND_BYTES):
            wire.ask(
                "POST",
                "/bytes",
                CONTENT[start : start + APPEND_BYTES],
                Content_Type="application/octet-stream",
            )
        wire.ask("PUT", "/json", Content_Type="application/json")
        for start in range(0, len(ROWS), 1000):
            wire.ask(
                "POST",
                "/json",
                json.dumps(ROWS[start : start + 1000]).encode(),
                Content_Type="application/json",
            )
    with millstream("--store", "log", "--data", folder) as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder, restarted(folder) as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


def fork(wire: Wire, source: str = "/bytes") -> str:
    """A stream of a test's own that begins with all of the source's bytes, which are in files."""
    path = f"/fork/{time.monotonic_ns()}"
    assert wire.ask("PUT", path, Stream_Forked_From=source).status == 201
    return path


def catch_up(wire: Wire, path: str) -> bytes:
    content, offset = b"", "-1"
    while True:
        answer = wire.ask("GET", f"{path}?offset={offset}")
        content, offset = content + answer.body, answer.headers["stream-next-offset"]
        if "stream-up-to-date" in answer.headers:
            return content


def slow(server: Server) -> Wire:
    """A connection whose buffers hold little, so that most of an answer is yet to be sent."""
    wire = Wire(server.url)
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    return wire


def test_many_clients_get_the_stream_at_once(server: Server) -> None:
    def read(_: int) -> bytes:
        with Wire(server.url) as wire:
            return catch_up(wire, "/bytes")

    with ThreadPoolExecutor(6) as clients:
        assert all(content == CONTENT for content in clients.map(read, range(6)))


def test_json_from_files_is_one_array(wire: Wire) -> None:
    rows: list[Any] = []
    offset = "-1"
    while len(rows) < len(ROWS):
        answer = wire.ask("GET", f"/json?offset={offset}")
        assert len(answer.body) > 2**20
        rows += json.loads(answer.body)
        offset = answer.headers["stream-next-offset"]
    assert rows == ROWS


def test_a_slow_client_gets_it_all_and_others_do_not_wait(server: Server, wire: Wire) -> None:
    with slow(server) as reader:
        reader.request("GET", "/bytes?offset=-1")
        assert reader.head()[1]["content-length"] == str(ANSWER_BYTES)
        content = b""
        while len(content) < ANSWER_BYTES:
            content += reader._exactly(min(300_000, ANSWER_BYTES - len(content)))
            assert wire.ask("HEAD", "/bytes").status == 200
            time.sleep(0.01)
        assert content == CONTENT[:ANSWER_BYTES]


@pytest.mark.parametrize("lingers", [True, False], ids=["closed", "reset"])
def test_a_client_that_hangs_up_hurts_nobody(server: Server, wire: Wire, lingers: bool) -> None:
    for _ in range(5):
        with slow(server) as reader:
            reader.request("GET", "/bytes?offset=-1")
            reader._exactly(1_000_000)
            if not lingers:
                reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert wire.ask("GET", "/bytes?offset=-1").body == CONTENT[:ANSWER_BYTES]


def test_requests_behind_it_are_answered_after_it(server: Server) -> None:
    with slow(server) as wire:
        for target in ("/bytes?offset=-1", "/bytes?offset=-1&limit=3000000", "/bytes?offset=-1&limit=7"):
            wire.request("GET", target)
        wire.request("GET", "/json?offset=-1")
        wire.request("GET", "/nowhere")
        for size in (ANSWER_BYTES, 3_000_000, 7):
            assert wire.answer().body == CONTENT[:size]
        rows = json.loads(wire.answer().body)
        assert rows == ROWS[: len(rows)]
        assert wire.answer().status == 404


def test_a_connection_ends_after_it_when_asked_to(server: Server) -> None:
    with slow(server) as wire:
        wire.request("GET", "/bytes?offset=-1", Connection="close")
        assert wire.answer().body == CONTENT[:ANSWER_BYTES]
        assert wire.is_closed()


def test_appends_meanwhile_are_for_the_next_answer(server: Server, wire: Wire) -> None:
    path = fork(wire)
    with slow(server) as reader:
        reader.request("GET", f"{path}?offset=-1")
        reader.head()
        start = reader._exactly(1000)
        for _ in range(10):
            assert (
                wire.ask("POST", path, b"+" * 100_000, Content_Type="application/octet-stream").status == 204
            )
        assert start + reader._exactly(ANSWER_BYTES - 1000) == CONTENT[:ANSWER_BYTES]
        assert catch_up(reader, path) == CONTENT + b"+" * 1_000_000


def test_an_answer_may_begin_in_a_file_and_end_in_memory(wire: Wire) -> None:
    path = fork(wire)
    more = random.Random(2).randbytes(2_500_000)
    assert wire.ask("POST", path, more, Content_Type="application/octet-stream").status == 204
    assert catch_up(wire, path) == CONTENT + more


def test_a_stream_that_is_deleted_meanwhile_cuts_it(server: Server, wire: Wire) -> None:
    path = fork(wire)
    with slow(server) as reader:
        reader.request("GET", f"{path}?offset=-1")
        reader.head()
        assert wire.ask("DELETE", path).status == 204
        with pytest.raises((HungUpError, ConnectionResetError)):
            reader._exactly(ANSWER_BYTES)
        assert CONTENT.startswith(reader._unread)


# -- Inside of the server ----------------------------------------------------------------------------


@asynccontextmanager
async def serving_files(folder: Path, **settings: Any) -> AsyncIterator[tuple[Served, Table]]:
    """A server in this process whose stream /bytes is in files, from the beginning to its end."""
    store = folder_store(folder, durable=False)
    async with (
        running_routes(Settings(data=str(folder), port=0, **settings), store) as routes,
        serving_routes(routes) as served,
    ):
        writer = await served.connect()
        await asked(writer, "PUT", "/bytes", b"", Content_Type="application/octet-stream")
        for start in range(0, 8_000_000, APPEND_BYTES):
            data = CONTENT[start : start + APPEND_BYTES]
            await asked(writer, "POST", "/bytes", data, Content_Type="application/octet-stream")
        await checkpointed(store)
        yield served, store


async def asked(client: Client, method: str, target: str, body: bytes, **headers: str) -> None:
    client.send(request(method, target, body, **headers))
    assert await client.status() in (201, 204)


async def checkpointed(store: Table) -> None:
    engine = store.engine
    assert isinstance(engine, LogEngine)
    await until(lambda: not engine.checkpoints.under_way)
    if engine.streams.dirty and engine.runtime.take_guard():
        engine.checkpoint()
    await until(lambda: not engine.checkpoints.under_way)


async def body_of(client: Client, size: int = 8_000_000) -> bytes:
    client.send(request("GET", "/bytes?offset=-1"))
    await client.head()
    return await client.reader.readexactly(size)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much each call has sent of a file."""
    sizes: list[int] = []
    real = os.sendfile

    def sendfile(*arguments: int) -> int:
        sizes.append(size := real(*arguments))
        return size

    monkeypatch.setattr(os, "sendfile", sendfile)
    return sizes


def test_most_bytes_do_not_pass_through_the_process(tmp_path: Path, sent: list[int]) -> None:
    async def main() -> None:
        async with serving_files(tmp_path) as (served, _):
            assert await body_of(await served.connect()) == CONTENT[:8_000_000]

    run(main())
    assert sum(sent) > 7_000_000


def test_it_can_be_switched_off(tmp_path: Path, sent: list[int]) -> None:
    async def main() -> None:
        async with serving_files(tmp_path, sendfile=False) as (served, _):
            assert await body_of(await served.connect()) == CONTENT[:8_000_000]

    run(main())
    assert not sent


def cannot(*_: int) -> int:
    raise OSError(22, "Invalid argument")


def full(*_: int) -> int:
    raise BlockingIOError


@pytest.mark.parametrize(
    "sendfile", [None, cannot, full, lambda *_: 0], ids=["none", "cannot", "full", "short"]
)
def test_without_sendfile_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sendfile: Any
) -> None:
    if sendfile is None:
        monkeypatch.delattr(os, "sendfile")
    else:
        monkeypatch.setattr(os, "sendfile", sendfile)

    async def main() -> None:
        async with serving_files(tmp_path) as (served, _):
            assert await body_of(await served.connect()) == CONTENT[:8_000_000]

    run(main())


def test_odd_amounts_make_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket takes what it takes, and now and then nothing."""
    real, dice = os.sendfile, random.Random(3)

    def sendfile(out: int, file: int, position: int, size: int) -> int:
        if dice.random() < 0.2:
            raise BlockingIOError
        return real(out, file, position, dice.randrange(1, size + 1))

    monkeypatch.setattr(os, "sendfile", sendfile)

    async def main() -> None:
        async with serving_files(tmp_path) as (served, _):
            client = await served.connect()
            for _ in range(3):
                assert await body_of(client) == CONTENT[:8_000_000]

    run(main())


def stalled_connection(served: Served) -> Any:
    """The one connection that waits for room."""
    return next((connection for connection in served.native.connections if not connection.writable), None)


async def stalled(served: Served) -> Client:
    """A client in the middle of an answer, which it does not read."""
    client = await served.connect()
    client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # of every stream's transport
    client.send(request("GET", "/bytes?offset=-1"))
    await until(lambda: stalled_connection(served) is not None)
    return client


def test_a_client_that_does_not_read_is_given_up_and_holds_little(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving_files(tmp_path) as (served, _):
            await stalled(served)
            connection = stalled_connection(served)
            assert 0 < connection._transport.get_write_buffer_size() <= 16 * 1024
            served.pass_time(IDLE_S + 1)  # it is seen that something is unsent
            assert connection in served.native.connections
            served.pass_time(IDLE_S + 1)
            await until(lambda: connection not in served.native.connections)
            assert served.routes.metrics.dropped == 1

    run(main())


def test_a_client_that_reads_now_and_then_is_not_given_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving_files(tmp_path) as (served, _):
            client = await stalled(served)
            connection = stalled_connection(served)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
            await client.head()
            content = b""
            while len(content) < 8_000_000:
                content += await client.reader.readexactly(100_000)
                if connection._deadline_s == served.now_s + IDLE_S:  # something was sent just now
                    served.pass_time(IDLE_S - 1)
            assert content == CONTENT[:8_000_000]
            assert served.now_s > 2 * IDLE_S

    run(main())


def test_a_checkpoint_meanwhile_changes_nothing(tmp_path: Path) -> None:
    """It takes bytes out of memory that the answer has still to send."""

    async def main() -> None:
        async with serving_files(tmp_path) as (served, store):
            writer = await served.connect()
            octets = {"Content_Type": "application/octet-stream"}
            await asked(writer, "PUT", "/both", CONTENT[:2_000_000], **octets)
            await checkpointed(store)
            for start in range(2_000_000, 8_000_000, 2_000_000):
                await asked(writer, "POST", "/both", CONTENT[start : start + 2_000_000], **octets)
            reader = await served.connect()
            reader.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            reader.send(request("GET", "/both?offset=-1"))
            await reader.head()
            content = await reader.reader.readexactly(100_000)
            await checkpointed(store)
            assert content + await reader.reader.readexactly(7_900_000) == CONTENT[:8_000_000]

    run(main())


def test_files_that_are_removed_meanwhile_cut_it(tmp_path: Path) -> None:
    """Retention takes the files away from under the reader; what it got is right."""

    async def main() -> None:
        async with serving_files(tmp_path) as (served, store):
            writer = await served.connect()
            octets = {"Content_Type": "application/octet-stream"}
            await asked(writer, "PUT", "/kept", b"", Stream_Retain_Bytes="8000000", **octets)
            for start in range(0, 8_000_000, APPEND_BYTES):
                await asked(writer, "POST", "/kept", CONTENT[start : start + APPEND_BYTES], **octets)
            await checkpointed(store)
            reader = await served.connect()
            reader.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            reader.writer.transport.pause_reading()  # type: ignore[attr-defined]  # as above
            reader.send(request("GET", "/kept?offset=-1"))
            await until(lambda: stalled_connection(served) is not None)
            for start in range(8_000_000, 16_000_000, 2_000_000):
                await asked(writer, "POST", "/kept", CONTENT[start : start + 2_000_000], **octets)
            store.expire(int(time.time() * 1000))
            await checkpointed(store)
            reader.writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
            await reader.head()
            content = await reader.rest()
            assert len(content) < 8_000_000
            assert CONTENT.startswith(content)

    run(main())


def test_what_is_encrypted_goes_the_long_way(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    context = ssl.create_default_context(cafile=str(cert))
    with restarted(str(tmp_path)):
        pass
    secured = ["--store", "log", "--data", str(tmp_path), "--tls-cert", str(cert), "--tls-key", str(key)]
    with millstream(*secured) as server, Wire(server.url) as wire:
        wire.socket = context.wrap_socket(wire.socket, server_hostname="127.0.0.1")
        assert catch_up(wire, "/bytes") == CONTENT
