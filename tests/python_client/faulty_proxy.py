"""A proxy that misbehaves on purpose, by a seed: the network on a bad day.

It reads whole requests, so that it knows what it breaks. `Fault` says what it can do; for some
faults the server has done what was asked, and for others the request never reached it. The client cannot
tell the two apart, and that is the point. Every fault is counted by kind.

    with FaultyProxy(server.url, seed=1, rate=0.2) as proxy:
        stream = DurableStream(proxy.url + "/log")
"""

import asyncio
import contextlib
import enum
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit


class Fault(enum.Enum):
    CUT_BEFORE = "the connection ends before the request is passed on"
    CUT_AFTER = "the request is carried out, its answer is lost"
    TRUNCATE = "the answer ends in the middle"
    DELAY = "the answer comes late"
    REFUSE_429 = "429 with Retry-After, nothing is passed on"
    REFUSE_503 = "503 with Retry-After, nothing is passed on"
    FAIL_500 = "500, nothing is passed on"
    FAIL_500_AFTER = "500, though the request was carried out"


class Request:
    """One request as it came in."""

    def __init__(self, head: bytes, body: bytes) -> None:
        self.head = head
        self.body = body
        self.at = time.monotonic()
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ", 2)
        self.headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }


class FaultyProxy:
    """A proxy before one server, on a loop in a thread of its own."""

    def __init__(
        self,
        target: str,
        *,
        seed: int = 0,
        rate: float = 0.0,
        faults: tuple[Fault, ...] = tuple(Fault),
        choose: Callable[[Request], Fault | None] | None = None,
        retry_after: str | None = None,
        event_stream_bytes: tuple[int, int] = (600, 3000),
    ) -> None:
        parts = urlsplit(target)
        self._upstream = (parts.hostname, parts.port)
        self._random = random.Random(seed)
        self._rate = rate
        self._faults = faults
        self._choose = choose or self._by_chance
        self._retry_after = retry_after
        self._event_stream_bytes = event_stream_bytes
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._connections: set[asyncio.Task[Any]] = set()
        self.url = ""
        self.seen: list[Request] = []
        self.counts: Counter[Fault] = Counter()
        self._event_streams = self.most_event_streams = 0

    @property
    def fault_count(self) -> int:
        return self.counts.total()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _by_chance(self, request: Request) -> Fault | None:
        return self._random.choice(self._faults) if self._random.random() < self._rate else None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        self._connections.add(this)  # the loop alone would let it be collected
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
                request = Request(head, b"")
                request.body = await reader.readexactly(int(request.headers.get("content-length", 0)))
                self.seen.append(request)
                if not await self._serve(request, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the proxy does
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            self._connections.discard(this)

    async def _serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; true when the connection may carry another."""
        fault = self._choose(request)
        if fault is not None:
            self.counts[fault] += 1
        if fault is Fault.CUT_BEFORE:
            return False
        if fault in (Fault.REFUSE_429, Fault.REFUSE_503, Fault.FAIL_500):
            await self._refuse(fault, writer)
            return True
        if fault is Fault.DELAY:
            await asyncio.sleep(self._random.uniform(0, 0.05))
        await self._pass_on(request, writer, fault)
        if fault is Fault.FAIL_500_AFTER:
            await self._refuse(fault, writer)
            return True
        return False

    async def _refuse(self, fault: Fault, writer: asyncio.StreamWriter) -> None:
        status = {Fault.REFUSE_429: b"429 Slow Down", Fault.REFUSE_503: b"503 Busy"}.get(fault, b"500 Oops")
        retry_after = self._retry_after or self._random.choice(
            ["0", "0", "0", "Thu, 01 Jan 1970 00:00:00 GMT"]
        )
        extra = b"" if status.startswith(b"500") else b"retry-after: %b\r\n" % retry_after.encode()
        writer.write(b"HTTP/1.1 %b\r\n%bcontent-length: 4\r\n\r\noops" % (status, extra))
        await writer.drain()

    async def _pass_on(self, request: Request, writer: asyncio.StreamWriter, fault: Fault | None) -> None:
        """Pass a request on with a connection of its own, and the answer back as it comes."""
        upstream_reader, upstream = await asyncio.open_connection(*self._upstream)
        is_event_stream = False
        try:
            upstream.write(request.head + b"\r\nconnection: close\r\n\r\n" + request.body)
            await upstream.drain()
            is_event_stream = "live=sse" in request.target or "/__ds/events" in request.target
            self._event_streams += is_event_stream
            self.most_event_streams = max(self.most_event_streams, self._event_streams)
            limit = self._random.randint(20, 600) if fault is Fault.TRUNCATE else None
            if is_event_stream and limit is None and self._rate:
                limit = self._random.randint(*self._event_stream_bytes)  # it would outlive the test
                self.counts[Fault.TRUNCATE] += 1
            while piece := await upstream_reader.read(65536):
                if fault in (Fault.CUT_AFTER, Fault.FAIL_500_AFTER):
                    if is_event_stream:
                        return
                    continue
                if limit is not None:
                    writer.write(piece[:limit])
                    limit -= min(limit, len(piece))
                    if not limit:
                        await writer.drain()
                        return
                else:
                    writer.write(piece)
                await writer.drain()
        finally:
            self._event_streams -= is_event_stream
            upstream.close()
            with contextlib.suppress(ConnectionError):
                await upstream.wait_closed()
