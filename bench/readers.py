"""Many live readers in one light process, and the writers that feed them.

`python -m bench.readers URL READERS MODE [WRITER_URL]` connects readers (`sse` or `long-poll`), prints
`ready`, and then obeys one line of stdin:

    paced RATE SECONDS    append RATE messages a second
    full SECONDS WRITERS  append all the time, unless the readers are WINDOW messages behind

Each message carries its number and the time of its sending, on the clock that all processes of a machine
share, so delivery latency needs no pairing of events. With one writer, every reader checks that it gets all
messages in their order. The writers live here because only the readers know what has been delivered. At full
speed they do not wait for the readers, within a window: a server that falls behind is given less, instead of
being drowned and then measured as dead. So what is measured is how fast messages go to all readers while
there are always more of them; the latency is mostly the time that a message waits in that window. The report
is one line of JSON.
"""

import asyncio
import json
import math
import sys
import time
from array import array
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import cast
from urllib.parse import urlsplit

import uvloop

from bench.generator import answer_end

MARK = b"@"  # begins every message, and occurs nowhere else on the wire
STAMP_DIGITS = 19
NUMBER_DIGITS = 9
MESSAGE_BYTES = 100
WINDOW = 64
WRITERS = 16
CONNECTING_AT_ONCE = 50
PATIENCE_S = 60.0
HEAD_END = b"\r\n\r\n"
NEXT_OFFSET = b"stream-next-offset:"


class Tally:
    """What all readers together have received, and who waits for how much of it."""

    def __init__(self) -> None:
        self.delivered = 0
        self.lost = 0
        self.disordered = 0
        self.latencies_ns = array("q")
        self.awaited = math.inf
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def reach(self, delivered: int) -> None:
        """Wait until so many messages were delivered, or until patience ends."""
        if self.delivered < delivered:
            reached = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (delivered, id(reached), reached))
            self.awaited = self._waiting[0][0]
            await asyncio.wait_for(reached, PATIENCE_S)

    def release(self) -> None:
        """Let those go on whose number is reached."""
        while self._waiting and self._waiting[0][0] <= self.delivered:
            reached = heappop(self._waiting)[2]
            if not reached.done():
                reached.set_result(None)
        self.awaited = self._waiting[0][0] if self._waiting else math.inf


class Reader(asyncio.Protocol):
    """One connection; it looks for marks, stamps and numbers and parses as little else as it can."""

    def __init__(self, request: Callable[[bytes], bytes], tally: Tally, *, polls: bool) -> None:
        self._request = request
        self._tally = tally
        self._polls = polls
        self._received = 0
        self._cut = b""  # a message, or an answer, that has not arrived whole
        self.live = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request(b"now"))
        if self._polls:
            asyncio.get_running_loop().call_later(0.2, self._live)  # a poll that waits says nothing

    def _live(self) -> None:
        if not self.live.done():
            self.live.set_result(None)

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        if self._cut:
            data, self._cut = self._cut + data, b""
        if self._polls:
            self._answered(data, now_ns)
            return
        last = data.rfind(MARK)
        if last >= 0:
            if last + MESSAGE_BYTES > len(data):  # the network has cut it
                data, self._cut = data[:last], data[last:]
            self._count(data, now_ns)
        elif not self.live.done() and b"event: control" in data:
            self._live()

    def _answered(self, data: bytes, now_ns: int) -> None:
        end = answer_end(data)
        if end < 0:
            self._cut = data
            return
        head, _, body = data.partition(HEAD_END)
        offset = head.lower().partition(NEXT_OFFSET)[2].partition(b"\r\n")[0].strip()
        self._transport.write(self._request(offset))
        self._count(body, now_ns)

    def _count(self, data: bytes, now_ns: int) -> None:
        messages, tally = data.count(MARK), self._tally
        if not messages:
            return
        self._received += messages
        tally.delivered += messages
        last = data.rfind(MARK) + len(MARK)
        tally.latencies_ns.append(now_ns - int(data[last : last + STAMP_DIGITS]))
        number = int(data[last + STAMP_DIGITS : last + STAMP_DIGITS + NUMBER_DIGITS])
        tally.disordered += number != self._received - 1
        if tally.delivered >= tally.awaited:
            tally.release()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.lost += 1


class Writer(asyncio.Protocol):
    """One keep-alive connection that appends."""

    def __init__(self, head: bytes) -> None:
        self._head = head

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def append(self, number: int) -> None:
        """Send one stamped message and wait for its answer, which has no body."""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        message = MARK + b"%0*d%0*d" % (STAMP_DIGITS, time.monotonic_ns(), NUMBER_DIGITS, number)
        self._transport.write(self._head + message.ljust(MESSAGE_BYTES, b"x"))
        answer = await asyncio.wait_for(self._answer, PATIENCE_S)
        if not answer.startswith((b"HTTP/1.1 204", b"HTTP/1.1 200")):
            raise RuntimeError(f"the append was refused: {answer[:200]!r}")

    def data_received(self, data: bytes) -> None:
        self._answer.set_result(data)


async def connect(
    url: str, readers: int, tally: Tally, *, polls: bool, writer_url: str | None = None
) -> list[Writer]:
    """Open the readers, a few at a time, wait until all are live, and open the writers."""
    parts, written = urlsplit(url), urlsplit(writer_url or url)
    loop = asyncio.get_running_loop()
    address = (parts.hostname or "", parts.port or 80)
    written_at = (written.hostname or "", written.port or 80)
    host = f"Host: {parts.netloc}\r\n"
    mode = "long-poll" if polls else "sse"

    def read(offset: bytes) -> bytes:
        target = f"{parts.path}?offset={offset.decode()}&live={mode}"
        return f"GET {target} HTTP/1.1\r\n{host}\r\n".encode()

    post = f"POST {written.path} HTTP/1.1\r\nHost: {written.netloc}\r\nContent-Type: text/plain\r\n"
    post += f"Content-Length: {MESSAGE_BYTES}\r\n\r\n"
    for opened in range(0, readers, CONNECTING_AT_ONCE):
        batch = range(min(CONNECTING_AT_ONCE, readers - opened))
        opening = [loop.create_connection(lambda: Reader(read, tally, polls=polls), *address) for _ in batch]
        made = [reader for _, reader in await asyncio.gather(*opening)]
        await asyncio.wait_for(asyncio.gather(*(reader.live for reader in made)), PATIENCE_S)
    return [
        (await loop.create_connection(lambda: Writer(post.encode()), *written_at))[1] for _ in range(WRITERS)
    ]


async def paced(writer: Writer, readers: int, tally: Tally, rate: float, seconds: float) -> None:
    beginning = time.monotonic()
    for number in range(round(rate * seconds)):
        await asyncio.sleep(beginning + number / rate - time.monotonic())
        await writer.append(number)
    await tally.reach(round(rate * seconds) * readers)


async def full(writers: list[Writer], readers: int, tally: Tally, seconds: float) -> None:
    end = time.monotonic() + seconds
    numbers = count()
    sent = 0

    async def write(writer: Writer) -> None:
        nonlocal sent
        while time.monotonic() < end:
            number = next(numbers)
            await tally.reach((number - WINDOW) * readers)
            await writer.append(number)
            sent += 1

    await asyncio.gather(*map(write, writers))
    await tally.reach(sent * readers)


async def run(url: str, readers: int, mode: str, writer_url: str | None = None) -> dict[str, float]:
    """Connect, announce it, obey, report."""
    tally = Tally()
    writers = await connect(url, readers, tally, polls=mode == "long-poll", writer_url=writer_url)
    print("ready", flush=True)
    order, *arguments = sys.stdin.readline().split()
    began_at, began_cpu = time.monotonic(), time.process_time()
    if order == "paced":
        rate, seconds = map(float, arguments)
        await paced(writers[0], readers, tally, rate, seconds)
    else:
        seconds, used = float(arguments[0]), int(arguments[1])
        await full(writers[:used], readers, tally, seconds)
        if used > 1:
            tally.disordered = 0  # each writer counts on without the others, so there is no order to check
    taken_s = time.monotonic() - began_at
    ordered = sorted(tally.latencies_ns)
    return {
        "delivered": tally.delivered,
        "seconds": taken_s,
        "lost": tally.lost,
        "disordered": tally.disordered,
        "p50_ms": ordered[len(ordered) // 2] / 1e6,
        "p99_ms": ordered[len(ordered) * 99 // 100] / 1e6,
        "reader_cpu_share": (time.process_time() - began_cpu) / taken_s,
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5]))))
