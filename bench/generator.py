"""A load generator for machines without wrk.

    python -m bench.generator URL CONNECTIONS SECONDS
                              METHOD LEAST_BYTES MOST_BYTES STREAMS PRODUCERS READ_PERCENT IS_SAME

Raw protocols on uvloop: each connection writes its next request whenever it has read a whole answer.
The requests are those of `traffic.lua`. It prints the line of JSON that `bench.load` reads. It is a process
of its own so that its work is never counted as the server's.
"""

import asyncio
import json
import random
import sys
import time
from array import array
from collections.abc import Iterator
from itertools import count, repeat
from typing import cast
from urllib.parse import urlsplit

import uvloop

HEAD_END = b"\r\n\r\n"
LAST_CHUNK = b"\r\n0\r\n\r\n"


def answer_end(buffer: bytes, *, has_body: bool = True) -> int:
    """Where the first answer in `buffer` ends, or -1 while it is incomplete."""
    head_end = buffer.find(HEAD_END)
    if head_end < 0:
        return -1
    body = head_end + len(HEAD_END)
    if not has_body:
        return body
    head = buffer[:head_end].lower()
    if b"transfer-encoding: chunked" in head:
        last = buffer.find(LAST_CHUNK, head_end)
        return last + len(LAST_CHUNK) if last >= 0 else -1
    _, named, after = head.partition(b"content-length:")
    end = body + (int(after.split(b"\r\n", 1)[0]) if named else 0)
    return end if len(buffer) >= end else -1


class Connection(asyncio.Protocol):
    """One keep-alive connection with one request in flight."""

    def __init__(self, requests: Iterator[bytes], latencies_s: "array[float]", *, has_bodies: bool) -> None:
        self._requests = requests
        self._has_bodies = has_bodies
        self._latencies_s = latencies_s
        self._buffer = b""
        self.errors = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.send()

    def send(self) -> None:
        self._sent_at = time.perf_counter()
        self.transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = answer_end(self._buffer, has_body=self._has_bodies)
        if end < 0:
            return
        self._latencies_s.append(time.perf_counter() - self._sent_at)
        if self._buffer[9:10] != b"2":  # HTTP/1.1 2xx
            self.errors += 1
        self._buffer = self._buffer[end:]
        self.send()


def traffic(
    url: str, method: str, least: int, most: int, streams: int, producers: int, read_percent: int
) -> Iterator[bytes]:
    """Make requests without end."""
    parts, epoch, dice = urlsplit(url), int(time.time()), random.Random(0)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    about = f"Host: {parts.netloc}\r\nUser-Agent: bench/1\r\nAccept: */*\r\n"
    for number in count():
        path = f"{target}/{number % streams}" if streams > 1 else target
        name = method
        if read_percent:
            name = "GET" if dice.randrange(100) < read_percent else "POST"
            path = f"{target}/read/{number % streams}?offset=-1" if name == "GET" else path
        head = f"{name} {path} HTTP/1.1\r\n{about}X-Request-Id: {dice.getrandbits(31):08x}-{number}\r\n"
        if name != "POST":
            yield f"{head}\r\n".encode()
            continue
        if producers:
            seq, producer = divmod(number, producers)
            head += f"Producer-Id: writer-{producer}\r\nProducer-Epoch: {epoch}\r\nProducer-Seq: {seq}\r\n"
        size = dice.randint(least, most)
        yield f"{head}Content-Type: text/plain\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size


async def generate(
    url: str, connections: int, seconds: float, requests: Iterator[bytes], *, has_bodies: bool = True
) -> dict[str, float]:
    """Load the server, and report."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    latencies_s = array("d")
    loop = asyncio.get_running_loop()
    started_at = time.perf_counter()
    opened = [
        (
            await loop.create_connection(
                lambda: Connection(requests, latencies_s, has_bodies=has_bodies), *address
            )
        )[1]
        for _ in range(connections)
    ]
    await asyncio.sleep(seconds)
    taken_s = time.perf_counter() - started_at
    dropped = sum(connection.transport.is_closing() for connection in opened)
    for connection in opened:
        connection.transport.abort()
    ordered = sorted(latencies_s) or [0.0]
    return {
        "requests": len(latencies_s),
        "seconds": taken_s,
        "errors": dropped + sum(connection.errors for connection in opened),
        "p50_ms": ordered[len(ordered) // 2] * 1e3,
        "p99_ms": ordered[len(ordered) * 99 // 100] * 1e3,
    }


if __name__ == "__main__":
    url, connections, seconds, method, *sizes = sys.argv[1:]
    least, most, streams, producers, read_percent, is_same = map(int, sizes)
    requests = traffic(url, method, least, most, streams, producers, read_percent)
    if is_same:
        requests = repeat(next(requests))
    has_bodies = method != "HEAD"
    report = generate(url, int(connections), float(seconds), requests, has_bodies=has_bodies)
    print(json.dumps(uvloop.run(report)))
