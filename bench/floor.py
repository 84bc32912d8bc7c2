"""The floor: what a request costs a server on the same event loop that does nothing with it.

        python -m bench.floor
        python -m bench.floor reads
        python -m bench.floor events

An echo server on uvloop takes the bytes of a request, does not look at them, and writes an answer about as
long as ours. What it costs is spent in the kernel, in libuv and in two calls of Python; no server in Python
on this loop can cost less. The same load goes to our server in memory and on the disk, in alternating rounds.
Processor time for each request, all threads together, minimum and median.

With `reads`, how long one client's reads take while 64 others append at full speed, beside an idle server.
What the echo server shows is not ours: the queue in front of any server on this loop, and the processors that
it shares with its clients.

With `events`, how many messages 1,000 readers get from ours and from Electric's server, which writes with as
many threads as there are processors: both first with all processors, then with one for the server and another
for the readers. What is left in the second case is ours.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from statistics import median
from typing import cast

import uvloop

from bench import electric
from bench.load import Load
from bench.rounds import ELECTRIC, FULL, OURS, Start
from bench.scenarios.appends import LEAST_BYTES, MOST_BYTES
from bench.scenarios.durables import measure_disturbance
from bench.scenarios.fan_outs import throughput
from bench.scenarios.requests import CONNECTIONS, measure
from bench.scenarios.streams import PATH, create
from tests.running import Server, announced, durable_millstream, millstream, started

ROUNDS = 5
SECONDS = 2
ANSWER = (
    b"HTTP/1.1 204 No Content\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\naccess-control-allow-origin: *\r\n"
    b"access-control-expose-headers: stream-next-offset, stream-cursor, stream-up-to-date, stream-closed\r\n"
    b"x-content-type-options: nosniff\r\ncross-origin-resource-policy: cross-origin\r\n"
    b"stream-next-offset: 0000000000000000_0000000000000042\r\n\r\n"
)


class Echo(asyncio.Protocol):
    """Answers whatever comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(ANSWER)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextmanager
def echo() -> Iterator[Server]:
    """Run the echo server."""
    with started([sys.executable, "-m", "bench.floor", "--serve"], announced) as server:
        yield server


STARTS: dict[str, Start] = {"echo": echo, "in memory": millstream, "on the disk": durable_millstream}


def measure_costs() -> None:
    """Print what an append costs, a line for each server."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(start()) for name, start in STARTS.items()}
        for server in servers.values():
            create(server)
        costs: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(ROUNDS):
            for name, server in servers.items():
                load = Load(server.url + PATH, "POST", CONNECTIONS, LEAST_BYTES, MOST_BYTES)
                costs[name].append(measure(load, server, SECONDS).cpu_us or 0.0)
    for name, found in costs.items():
        print(f"{name:12} min {min(found):5.1f} us   median {median(found):5.1f} us")


def measure_reads() -> None:
    """Print how long reads take beside appends, a line for each server and round."""
    effort = replace(FULL, seconds=SECONDS)
    for _ in range(ROUNDS):
        for name, start in STARTS.items():
            with start() as server:
                found = measure_disturbance(server, effort)
            print(f"{name:12} p50 {found.p50_ms:.3f} ms   p99 {found.p99_ms:.3f} ms, {found.value:.1f}x idle")


def measure_events() -> None:
    """Print how many events readers get, a line for each server, choice of processors and round."""
    electric.install_once()
    effort, scenario = replace(FULL, seconds=SECONDS), throughput(1_000)
    everything = os.sched_getaffinity(0)
    first, *others = sorted(everything)
    choices = {"all processors": (everything, everything), "one for the server": ({first}, set(others))}
    for _ in range(ROUNDS):
        for choice, (of_server, of_readers) in choices.items():
            for name, start in {OURS: durable_millstream, ELECTRIC: electric.serving}.items():
                os.sched_setaffinity(0, of_server)  # what this process starts has the same
                try:
                    with start() as server:
                        os.sched_setaffinity(0, of_readers)
                        scenario.prepare(server, effort)
                        found = scenario.measure(server, effort)
                finally:
                    os.sched_setaffinity(0, everything)
                latency = f"p50 {found.p50_ms:5.1f} ms   p99 {found.p99_ms:5.1f} ms"
                print(
                    f"{choice:20} {name:11} {found.value:11,.0f}/s   {latency}   {found.cpu_us:.2f} us",
                    flush=True,
                )


if __name__ == "__main__":
    if "--serve" in sys.argv:
        uvloop.run(_serve())
    elif "reads" in sys.argv:
        measure_reads()
    elif "events" in sys.argv:
        measure_events()
    else:
        measure_costs()
