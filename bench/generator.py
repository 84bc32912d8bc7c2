"""A load generator for machines without wrk.

    python -m bench.generator URL CONNECTIONS SECONDS METHOD BODY_BYTES STREAMS

Raw protocols on uvloop: each connection writes the same bytes again whenever it has read a whole
answer. It prints the line of JSON that `bench.load` reads. It is a process of its own so that its
work is never counted as the server's.
"""

import asyncio
import json
import sys
import time
from array import array
from collections.abc import Iterator
from itertools import cycle
from typing import cast
from urllib.parse import urlsplit

import uvloop

HEAD_END = b"\r\n\r\n"
LAST_CHUNK = b"\r\n0\r\n\r\n"


def answer_end(buffer: bytes) -> int:
    """Where the first answer in `buffer` ends, or -1 while it is incomplete."""
    head_end = buffer.find(HEAD_END)
    if head_end < 0:
        return -1
    head = buffer[:head_end].lower()
    body = head_end + len(HEAD_END)
    if b"transfer-encoding: chunked" in head:
        last = buffer.find(LAST_CHUNK, head_end)
        return last + len(LAST_CHUNK) if last >= 0 else -1
    _, named, after = head.partition(b"content-length:")
    end = body + (int(after.split(b"\r\n", 1)[0]) if named else 0)
    return end if len(buffer) >= end else -1


class Connection(asyncio.Protocol):
    """One keep-alive connection with one request in flight."""

    def __init__(self, requests: Iterator[bytes], latencies_s: "array[float]") -> None:
        self._requests = requests
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
        end = answer_end(self._buffer)
        if end < 0:
            return
        self._latencies_s.append(time.perf_counter() - self._sent_at)
        if self._buffer[9:10] != b"2":  # HTTP/1.1 2xx
            self.errors += 1
        self._buffer = self._buffer[end:]
        self.send()


def request_bytes(url: str, method: str, body_bytes: int) -> bytes:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    head = f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    if body_bytes:
        head += f"Content-Type: text/plain\r\nContent-Length: {body_bytes}\r\n"
    return f"{head}\r\n".encode() + b"x" * body_bytes


async def generate(url: str, connections: int, seconds: float, requests: Iterator[bytes]) -> dict[str, float]:
    """Load the server, and report."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    latencies_s = array("d")
    loop = asyncio.get_running_loop()
    started_at = time.perf_counter()
    opened = [
        (await loop.create_connection(lambda: Connection(requests, latencies_s), *address))[1]
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
    url, connections, seconds, method, body_bytes, streams = sys.argv[1:]
    urls = [f"{url}/{number}" for number in range(int(streams))] if streams != "1" else [url]
    requests = cycle([request_bytes(one, method, int(body_bytes)) for one in urls])
    print(json.dumps(uvloop.run(generate(url, int(connections), float(seconds), requests))))
