"""What one request costs the server's Python, without a network: bytes go into `Connection.data_received`.

        python -m bench.in_process
        python -m bench.in_process --against ../before/src

Every request is a segment of its own and is answered from memory, into a transport that drops what it is
given. So this measures parsing, routing, deciding and encoding, and nothing else. Some rows repeat what they
ask for, which a cache may help; those with "another" in their name never do, and show what a cache costs.
Those of readers that wait are the time from an append to the last of 100 answers, for each answer. Synced
appends are sent on 64 connections and wait for the disk; their time is that of the event loop alone.

`--against` measures a second source tree in the same run: each tree has its own process, and rounds
alternate, so that both meet the same noise. Compare ratios; the microseconds are those of one machine.
"""

import argparse
import asyncio
import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

_ROUNDS = 100
_REQUESTS = 200  # of each case in a round, in one turn of the event loop
_HEADERS = b"Host: localhost:4437\r\nUser-Agent: bench/1\r\nAccept: */*\r\n"
_TEXT = b"Content-Type: text/plain\r\n"
_GZIP = b"Accept-Encoding: gzip\r\n"
_BODY = b"x" * 200
_MANY = 20_000  # streams, and appends of a stream: more than any cache holds
_READERS = 100
_WAKES = 10  # in a round

_OURS = Path(__file__).resolve().parent.parent / "src"


class Client:
    """A transport whose client takes everything; it counts answers by how they begin."""

    def __init__(self, status: bytes) -> None:
        self._begins = b"HTTP/1.1 " + status
        self.answers = 0

    def write(self, data: bytes) -> None:
        assert data.startswith(self._begins), data
        self.answers += 1

    def writelines(self, data: tuple[bytes, ...]) -> None:
        self.write(data[0])

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("192.0.2.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def is_closing(self) -> bool:
        return False


class LiveClient(Client):
    """A transport of many connections; it counts what they are sent."""

    _awaited = 0
    _reached: "asyncio.Future[None] | None" = None

    def write(self, data: bytes) -> None:
        self.answers += 1
        if self.answers == self._awaited and self._reached is not None:
            self._reached.set_result(None)

    async def reach(self, answers: int) -> None:
        """Wait for so many answers in all, without a turn of the loop that only waits."""
        if self.answers < answers:
            self._awaited, self._reached = answers, asyncio.get_running_loop().create_future()
            await self._reached


def _post(headers: bytes, body: bytes, path: bytes = b"/chat/1") -> bytes:
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    return b"POST " + path + b" HTTP/1.1\r\n" + _HEADERS + _TEXT + headers + length + body


def _get(path: bytes, headers: bytes = b"", method: bytes = b"GET") -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\n" + _HEADERS + headers + b"\r\n"


def _varied(n: int) -> bytes:
    return b"X-Varies: %032x\r\n" % (n * 0x9E3779B97F4A7C15)


def _stamped(n: int) -> bytes:
    return b"Producer-Id: writer-7\r\nProducer-Epoch: 3\r\nProducer-Seq: %d\r\n" % n


_CASES: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "append, identical": (b"204", lambda _n: _post(b"", _BODY[:100])),
    "append, header and length vary": (b"204", lambda n: _post(_varied(n), _BODY[: 50 + n % 100])),
    "append, producer's stamp": (b"200", lambda n: _post(_stamped(n), _BODY[: 50 + n % 100])),
    "GET 100 B, header varies": (b"200", lambda n: _get(b"/read/100?offset=-1", _varied(n))),
    "GET 1 KB, header varies": (b"200", lambda n: _get(b"/read/1024?offset=-1", _varied(n))),
    "GET 1 KB, gzip, header varies": (b"200", lambda n: _get(b"/read/1024?offset=-1", _GZIP + _varied(n))),
    "GET 16 KB, header varies": (b"200", lambda n: _get(b"/read/16384?offset=-1", _varied(n))),
    "GET 1 KB, another offset": (
        b"200",
        lambda n: _get(b"/long?offset=0000000000000000_%016d&limit=1000" % (n % _MANY * 100), _varied(n)),
    ),
    "GET 100 B, another stream": (b"200", lambda n: _get(b"/many/%d?offset=-1" % (n % _MANY), _varied(n))),
    "HEAD, header varies": (b"200", lambda n: _get(b"/read/100", _varied(n), b"HEAD")),
    "HEAD, another stream": (b"200", lambda n: _get(b"/many/%d" % (n % _MANY), _varied(n), b"HEAD")),
}
_SYNCED: dict[str, Callable[[int, int], bytes]] = {
    "synced append, header and length vary": lambda _connection, n: _post(_varied(n), _BODY[: 50 + n % 100]),
    "synced append, producer's stamp": lambda connection, n: _post(
        b"Producer-Id: writer-%d\r\nProducer-Epoch: 3\r\nProducer-Seq: %d\r\n" % (connection, n),
        _BODY[: 50 + n % 100],
    ),
}
_CONNECTIONS = 64
_SSE, _LONG_POLL = "SSE, 100 readers, each event", "long-poll, 100 readers, each answer"


class Synced:
    """A server with a disk, and connections that append to it."""

    def __init__(self, run: Any, server: Any) -> None:
        self._client = LiveClient(b"")
        self._connections = [run.Connection(server, asyncio.get_running_loop()) for _ in range(_CONNECTIONS)]
        for connection in self._connections:
            connection.connection_made(self._client)
        self._numbers = dict.fromkeys(_SYNCED, 0)

    async def send(self, segments: list[bytes]) -> float:
        """Send a request on each connection, wait for all answers, and give the time for each of them."""
        answered = self._client.answers + len(segments)
        began_s = time.thread_time()
        for connection, segment in zip(self._connections, segments, strict=False):
            connection.data_received(segment)
        await self._client.reach(answered)
        return (time.thread_time() - began_s) / len(segments) * 1e6

    async def round(self, case: str) -> float:
        """Measure some batches of a case."""
        taken_us = []
        for _ in range(_REQUESTS // _CONNECTIONS + 1):
            number = self._numbers[case]
            self._numbers[case] += 1
            segments = [_SYNCED[case](index, number) for index in range(_CONNECTIONS)]
            taken_us.append(await self.send(segments))
        return statistics.mean(taken_us)


async def _work() -> None:
    """Measure a round for each line of input, and write its microseconds by case."""
    # Looked up by name: another tree may have these in other modules, and remember heads that came before.
    run: Any = importlib.import_module("millstream.server.run")
    settings = importlib.import_module("millstream.server.settings").Settings(store="memory")
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        routes = await stack.enter_async_context(run.running_routes(settings, run.open_store(settings)))
        options = (
            {"find_shortcut": partial(run.find_shortcut, routes)} if hasattr(run, "find_shortcut") else {}
        )
        server = run.NativeServer(routes, scheme=b"http", **options)

        def send(status: bytes, segments: list[bytes]) -> float:
            client = Client(status)
            connection = run.Connection(server, loop)
            connection.connection_made(client)
            receive = connection.data_received
            began_s = time.thread_time()
            for segment in segments:
                receive(segment)
            taken_s = time.thread_time() - began_s
            assert client.answers == len(segments)
            connection.connection_lost(None)
            return taken_s / len(segments) * 1e6

        def create(path: bytes, size: int) -> None:
            length = b"Content-Length: %d\r\n\r\n" % size
            send(b"201", [b"PUT " + path + b" HTTP/1.1\r\n" + _HEADERS + _TEXT + length + b"x" * size])

        def connect(client: Client) -> Any:
            connection = run.Connection(server, loop)
            connection.connection_made(client)
            return connection

        async def wake(target: bytes, *, asks_again: bool) -> float:
            """Append, wait until every live reader has it, and give the time for each of them."""
            client = LiveClient(b"")
            readers = [connect(client) for _ in range(_READERS)]
            writer, ask = connect(Client(b"204")), _get(target)
            for reader in readers:
                reader.data_received(ask)
            taken_s = 0.0
            for _ in range(_WAKES):
                before = client.answers
                began_s = time.thread_time()
                writer.data_received(_post(b"", _BODY[:100], b"/live"))
                await client.reach(before + _READERS)
                if asks_again:
                    for reader in readers:
                        reader.data_received(ask)
                taken_s += time.thread_time() - began_s
            for connection in (writer, *readers):
                connection.connection_lost(None)
            return taken_s / _WAKES / _READERS * 1e6

        for path, size in ((b"/chat/1", 0), (b"/live", 0), (b"/long", 0)):
            create(path, size)
        for size in (100, 1024, 16384):
            create(b"/read/%d" % size, size)
        for number in range(_MANY):
            create(b"/many/%d" % number, 100)
            send(b"204", [_post(b"", _BODY[:100], b"/long")])
            if number % 100 == 0:
                await asyncio.sleep(0)  # a turn that is too long is overload, and refused
        counts = {case: itertools.count() for case in _CASES}
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        on_disk = type(settings)(store="log", data=folder)
        opened = run.running_routes(on_disk, run.open_store(on_disk))
        durable = run.NativeServer(await stack.enter_async_context(opened), scheme=b"http", **options)
        synced = Synced(run, durable)
        await synced.send([b"PUT /chat/1 HTTP/1.1\r\n" + _HEADERS + _TEXT + b"Content-Length: 0\r\n\r\n"])
        while await loop.run_in_executor(None, sys.stdin.readline):
            taken_us = {}
            for case, (status, make) in _CASES.items():
                segments = [make(number) for number in itertools.islice(counts[case], _REQUESTS)]
                await asyncio.sleep(0)  # a turn that is too long is overload, and refused
                taken_us[case] = send(status, segments)
            for case in _SYNCED:
                taken_us[case] = await synced.round(case)
            taken_us[_SSE] = await wake(b"/live?offset=now&live=sse", asks_again=False)
            taken_us[_LONG_POLL] = await wake(b"/live?offset=now&live=long-poll", asks_again=True)
            print(json.dumps(taken_us), flush=True)


def _start(source: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.fspath(source)}
    command = [sys.executable, "-m", "bench.in_process", "--worker"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=_OURS.parent
    )


def _ask(worker: "subprocess.Popen[str]") -> dict[str, float]:
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    taken_us: dict[str, float] = json.loads(worker.stdout.readline())
    return taken_us


def compare(sources: list[Path], rounds: int) -> None:
    """Measure trees in alternating rounds and print minimum and median, and ratios to the last tree."""
    workers = [_start(source) for source in sources]
    try:
        for worker in workers:
            _ask(worker)  # the first round warms up
        samples = [[_ask(worker) for worker in workers] for _ in range(rounds)]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    for case in samples[0][0]:
        columns = [[sample[tree][case] for sample in samples] for tree in range(len(sources))]
        figures = [(min(column), statistics.median(column)) for column in columns]
        line = "   ".join(f"min {least:6.2f} us  median {middle:6.2f} us" for least, middle in figures)
        ratios = [own / other for own, other in zip(figures[0], figures[-1], strict=True)]
        after = f"   ratio {ratios[0]:.2f} (min) {ratios[1]:.2f} (median)" if len(sources) > 1 else ""
        print(f"{case:36} {line}{after}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.in_process", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--against", type=Path, metavar="SRC", help="the src folder of another checkout")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        uvloop.run(_work())
    else:
        compare([_OURS, *([options.against.resolve()] if options.against else [])], options.rounds)


if __name__ == "__main__":
    main()
