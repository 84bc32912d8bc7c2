"""What an overload does: appends come at three times the rate that the server can keep up with.

    python -m bench.overload [--seconds S] [--connections N]

Appends are 128 KiB of text, compressed by the client, so that each is work for the server and next to
none for the generator, which could not flood the server otherwise. The rate that can be kept up with is
measured first, by connections that wait for their answers. Then appends are sent by the clock, at 0.7
and at 3 times that rate, whether answers come or not. Printed is how soon they were answered, taken
(204) and refused (503), and whether each that was taken is in the stream, once, and none that was
refused.
"""

import asyncio
import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, cast
from urllib.parse import urlsplit

import typer
import uvloop

from bench.memory import allow_many_connections
from bench.scenarios.streams import connection, request
from tests.running import Server, durable_millstream

MESSAGE_BYTES = 128 * 1024
DIGITS = 12
WRITERS = 64
PATIENCE_S = 10.0


@dataclass
class Outcome:
    """What came of the appends that were sent."""

    seconds: float = 0.0
    sent: int = 0
    unsent: int = 0  # due while every connection was waiting
    taken: dict[int, float] = field(default_factory=dict)  # id to latency
    refused: dict[int, float] = field(default_factory=dict)
    errors: int = 0


class Sender(asyncio.Protocol):
    """One connection that has at most one append under way."""

    def __init__(self, outcome: Outcome, on_free: "asyncio.Queue[Sender]") -> None:
        self._outcome = outcome
        self._free = on_free
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._free.put_nowait(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._outcome.errors += 1

    def send(self, number: int, data: bytes) -> None:
        self._number, self._sent_s = number, time.perf_counter()
        self._outcome.sent += 1
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        _, named, after = head.partition(b"content-length: ")
        if not end or len(body) < (int(after.split(b"\r\n", 1)[0]) if named else 0):
            return
        latency_s, self._buffer = time.perf_counter() - self._sent_s, b""
        if head.startswith(b"HTTP/1.1 204"):
            self._outcome.taken[self._number] = latency_s
        elif head.startswith(b"HTTP/1.1 503") and b"retry-after" in head:
            self._outcome.refused[self._number] = latency_s
        else:
            self._outcome.errors += 1
        self._free.put_nowait(self)


def append(url: str, number: int) -> bytes:
    parts = urlsplit(url)
    body = gzip.compress((b"%0*d" % (DIGITS, number)).ljust(MESSAGE_BYTES, b"x"), compresslevel=1)
    head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: text/plain\r\n"
    return f"{head}Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def connect(url: str, count: int, outcome: Outcome) -> "asyncio.Queue[Sender]":
    parts = urlsplit(url)
    free: asyncio.Queue[Sender] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for _ in range(count):
        await loop.create_connection(lambda: Sender(outcome, free), parts.hostname or "", parts.port or 80)
    return free


async def unhurried(url: str, numbers: Iterator[int], seconds: float) -> Outcome:
    """Send as fast as a few connections are answered."""
    outcome = Outcome()
    free = await connect(url, WRITERS, outcome)
    began_s = time.perf_counter()
    while time.perf_counter() - began_s < seconds:
        sender, number = await free.get(), next(numbers)
        sender.send(number, append(url, number))
    outcome.seconds = time.perf_counter() - began_s
    await answered(outcome)
    return outcome


async def by_the_clock(
    url: str, numbers: Iterator[int], rate: float, seconds: float, connections: int
) -> Outcome:
    """Send `rate` appends a second, whether or not the ones before have been answered."""
    outcome = Outcome()
    free = await connect(url, connections, outcome)
    due = [(number, append(url, number)) for number in (next(numbers) for _ in range(int(rate * seconds)))]
    began_s = time.perf_counter()
    position = 0
    while position < len(due):
        until = min(len(due), int((time.perf_counter() - began_s) * rate))
        for number, data in due[position:until]:
            if free.empty():
                outcome.unsent += 1
            else:
                free.get_nowait().send(number, data)
        position = until
        await asyncio.sleep(0.001)
    outcome.seconds = time.perf_counter() - began_s
    await answered(outcome)
    return outcome


async def answered(outcome: Outcome) -> None:
    """Wait for the answers to all that was sent; those that do not come are errors."""
    for _ in range(int(PATIENCE_S / 0.01)):
        missing = outcome.sent - len(outcome.taken) - len(outcome.refused) - outcome.errors
        if not missing:
            return
        await asyncio.sleep(0.01)
    outcome.errors += missing


def percentile_ms(latencies: dict[int, float], percent: int) -> float:
    ordered = sorted(latencies.values()) or [0.0]
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1e3


def show(title: str, outcome: Outcome) -> None:
    sent, taken, refused = (
        len(what) / outcome.seconds for what in (range(outcome.sent), outcome.taken, outcome.refused)
    )
    print(
        f"{title:<24} sent {sent:>7,.0f}/s  taken {taken:>7,.0f}/s"
        f"  p50 {percentile_ms(outcome.taken, 50):>6.1f} ms  p99 {percentile_ms(outcome.taken, 99):>6.1f} ms"
        f"  refused {refused:>7,.0f}/s  p99 {percentile_ms(outcome.refused, 99):>6.1f} ms"
        f"  no free connection {outcome.unsent:,}  errors {outcome.errors}",
        flush=True,
    )


def stored(server: Server, path: str) -> list[int]:
    """Read the stream back and give the numbers of its messages, in order."""
    numbers: list[int] = []
    offset, rest = "-1", b""
    with connection(server) as opened:
        while True:
            opened.request("GET", f"{path}?offset={offset}")
            answer = opened.getresponse()
            rest += answer.read()
            whole = len(rest) // MESSAGE_BYTES * MESSAGE_BYTES
            numbers += [int(rest[start : start + DIGITS]) for start in range(0, whole, MESSAGE_BYTES)]
            rest = rest[whole:]
            offset = answer.headers["Stream-Next-Offset"]
            if answer.headers["Stream-Up-To-Date"]:
                return numbers


def main(
    seconds: Annotated[float, typer.Option(min=1, help="Length of each of the three parts.")] = 4.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections of the parts by the clock.")] = 1000,
) -> None:
    """Measure what three times too much does to the answers."""
    allow_many_connections()
    numbers = iter(range(10**DIGITS))
    path = "/overload"
    with durable_millstream() as server:
        with connection(server) as opened:
            request(opened, "PUT", path, b"")
        url = server.url + path
        closed = uvloop.run(unhurried(url, numbers, seconds))
        rate = len(closed.taken) / closed.seconds
        show(f"{WRITERS} writers that wait", closed)
        calm = uvloop.run(by_the_clock(url, numbers, 0.7 * rate, seconds, connections))
        show("0.7 times that rate", calm)
        flood = uvloop.run(by_the_clock(url, numbers, 3 * rate, seconds, connections))
        show("3 times that rate", flood)
        kept = stored(server, path)
    taken = {*closed.taken, *calm.taken, *flood.taken}
    refused = {*closed.refused, *calm.refused, *flood.refused}
    lost, doubled, phantoms = taken - set(kept), len(kept) - len(set(kept)), refused & set(kept)
    print(f"taken {len(taken):,}: lost {len(lost)}, doubled {doubled}; refused but kept {len(phantoms)}")
    base = max(percentile_ms(closed.taken, 99), percentile_ms(calm.taken, 99))
    print(f"p99 of what was taken: {percentile_ms(flood.taken, 99) / base:.1f} times that without overload")


if __name__ == "__main__":
    typer.run(main)
