"""A thousand SSE readers in one light process, and the writer that feeds them.

`python -m bench.readers URL READERS` connects, prints `ready`, and then obeys one line of stdin:

    paced RATE SECONDS    append RATE messages a second
    full SECONDS          append whenever every reader has got all but the last WINDOW messages

Each message carries the time of its sending, on the clock that all processes of a machine share, so
delivery latency needs no pairing of events. The writer lives here because only the readers know
what has been delivered. At full speed the loop is closed: a server that falls behind is given less,
instead of being drowned and then measured as dead. The report is one line of JSON.
"""

import asyncio
import json
import sys
import time
from array import array
from typing import cast
from urllib.parse import urlsplit

import uvloop

MARK = b"@"  # begins every message, and occurs nowhere else on the wire
STAMP_DIGITS = 19
MESSAGE_BYTES = 100
WINDOW = 2
CONNECTING_AT_ONCE = 50
PATIENCE_S = 20.0


class Tally:
    """What all readers together have received."""

    def __init__(self) -> None:
        self.delivered = 0
        self.lost = 0
        self.latencies_ns = array("q")
        self.awaited = 0
        self.reached = asyncio.Event()

    async def reach(self, delivered: int) -> None:
        """Wait until so many messages were delivered, or until patience ends."""
        self.awaited = delivered
        if self.delivered < delivered:
            self.reached.clear()
            await asyncio.wait_for(self.reached.wait(), PATIENCE_S)


class Reader(asyncio.Protocol):
    """One SSE connection; it looks for marks and stamps and parses nothing else."""

    def __init__(self, request: bytes, tally: Tally) -> None:
        self._request = request
        self._tally = tally
        self.live = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        messages = data.count(MARK)
        if messages:
            tally = self._tally
            tally.delivered += messages
            last = data.rfind(MARK) + len(MARK)
            stamp = data[last : last + STAMP_DIGITS]
            if len(stamp) == STAMP_DIGITS:  # else the network cut it: one sample less
                tally.latencies_ns.append(now_ns - int(stamp))
            if tally.delivered >= tally.awaited:
                tally.reached.set()
        elif not self.live.done() and b"event: control" in data:
            self.live.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.lost += 1


class Writer(asyncio.Protocol):
    """One keep-alive connection that appends."""

    def __init__(self, head: bytes) -> None:
        self._head = head

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def append(self) -> None:
        """Send one stamped message and wait for its answer, which has no body."""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        message = MARK + b"%0*d" % (STAMP_DIGITS, time.monotonic_ns())
        self._transport.write(self._head + message.ljust(MESSAGE_BYTES, b"x"))
        answer = await asyncio.wait_for(self._answer, PATIENCE_S)
        if not answer.startswith(b"HTTP/1.1 204"):
            raise RuntimeError(f"the append was refused: {answer[:200]!r}")

    def data_received(self, data: bytes) -> None:
        self._answer.set_result(data)


async def connect(url: str, count: int, tally: Tally) -> Writer:
    """Open the readers, a few at a time, wait until all are live, and open the writer."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    address = (parts.hostname or "", parts.port or 80)
    host = f"Host: {parts.netloc}\r\n"
    read = f"GET {parts.path}?offset=now&live=sse HTTP/1.1\r\n{host}\r\n".encode()
    post = f"POST {parts.path} HTTP/1.1\r\n{host}Content-Type: text/plain\r\n"
    post += f"Content-Length: {MESSAGE_BYTES}\r\n\r\n"
    for opened in range(0, count, CONNECTING_AT_ONCE):
        batch = range(min(CONNECTING_AT_ONCE, count - opened))
        opening = [loop.create_connection(lambda: Reader(read, tally), *address) for _ in batch]
        readers = [reader for _, reader in await asyncio.gather(*opening)]
        await asyncio.wait_for(asyncio.gather(*(reader.live for reader in readers)), PATIENCE_S)
    _, writer = await loop.create_connection(lambda: Writer(post.encode()), *address)
    return writer


async def paced(writer: Writer, readers: int, tally: Tally, rate: float, seconds: float) -> None:
    beginning = time.monotonic()
    for number in range(round(rate * seconds)):
        await asyncio.sleep(beginning + number / rate - time.monotonic())
        await writer.append()
    await tally.reach(round(rate * seconds) * readers)


async def full(writer: Writer, readers: int, tally: Tally, seconds: float) -> None:
    end = time.monotonic() + seconds
    sent = 0
    while time.monotonic() < end:
        await tally.reach((sent - WINDOW) * readers)
        await writer.append()
        sent += 1
    await tally.reach(sent * readers)


async def run(url: str, readers: int) -> dict[str, float]:
    """Connect, announce it, obey, report."""
    tally = Tally()
    writer = await connect(url, readers, tally)
    print("ready", flush=True)
    order, *arguments = sys.stdin.readline().split()
    began_at, began_cpu = time.monotonic(), time.process_time()
    if order == "paced":
        rate, seconds = map(float, arguments)
        await paced(writer, readers, tally, rate, seconds)
    else:
        (seconds,) = map(float, arguments)
        await full(writer, readers, tally, seconds)
    taken_s = time.monotonic() - began_at
    ordered = sorted(tally.latencies_ns)
    return {
        "delivered": tally.delivered,
        "seconds": taken_s,
        "lost": tally.lost,
        "p50_ms": ordered[len(ordered) // 2] / 1e6,
        "p99_ms": ordered[len(ordered) * 99 // 100] / 1e6,
        "reader_cpu_share": (time.process_time() - began_cpu) / taken_s,
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(sys.argv[1], int(sys.argv[2])))))
