"""The load of `millstream bench`: appends, catch-up reads and live readers, each for some seconds."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

import msgspec

from millstream.client.aio.streams import DurableStream, stream
from millstream.client.core.retry import Retry

_STAMP_DIGITS = 20
_PAUSE_S = 0.005
_QUICK = Retry(max_total_s=2.0)


class Load(msgspec.Struct, frozen=True):
    """The parameters of a load. Streams are created below `base`."""

    base: str
    headers: Mapping[str, str]
    seconds: float
    connections: int
    size: int

    def url(self, part: str) -> str:
        """Return the URL of one of the streams."""
        return f"{self.base}-{part}"


class Result(msgspec.Struct, frozen=True, rename="camel"):
    """The result of one part."""

    work: str
    count: int
    per_second: float
    bytes_per_second: float
    seconds: float
    median_ms: float | None = None
    p99_ms: float | None = None


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """Return a quantile."""
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def summed_up(work: str, count: int, bytes: int, seconds: float, latencies_s: Sequence[float] = ()) -> Result:
    """Make a result from the measurements."""
    ordered = sorted(latencies_s)
    return Result(
        work,
        count,
        round(count / seconds, 1),
        round(bytes / seconds, 1),
        round(seconds, 3),
        round(percentile(ordered, 0.5) * 1000, 3) if ordered else None,
        round(percentile(ordered, 0.99) * 1000, 3) if ordered else None,
    )


async def run_load(load: Load, announce: Callable[[str], None]) -> list[Result]:
    """Run all parts, and delete the streams."""
    parts = [DurableStream(load.url(part), headers=load.headers) for part in ("write", "live")]
    for part in parts:
        await DurableStream.create(part.url, content_type="text/plain", headers=load.headers, retry=_QUICK)
    try:
        results = []
        for work, name in ((appends, "appending"), (reads, "reading"), (tails, "following")):
            announce(f"{name} for {load.seconds:g} s ...")
            results.append(await work(load))
        return results
    finally:
        for part in parts:
            await part.delete()


async def appends(load: Load) -> Result:
    """Append messages, sequentially on each connection."""
    message = b"x" * (load.size - 1) + b"\n"
    latencies: list[float] = []
    began = time.perf_counter()
    end = began + load.seconds

    async def write() -> None:
        handle = DurableStream(load.url("write"), content_type="text/plain", headers=load.headers)
        while (before := time.perf_counter()) < end:
            await handle.append(message)
            latencies.append(time.perf_counter() - before)

    await _all(write for _ in range(load.connections))
    took = time.perf_counter() - began
    return summed_up("append", len(latencies), len(latencies) * load.size, took, latencies)


async def reads(load: Load) -> Result:
    """Read the stream from its beginning, repeatedly."""
    received = 0
    latencies: list[float] = []
    began = time.perf_counter()
    end = began + load.seconds

    async def read() -> None:
        nonlocal received
        while (before := time.perf_counter()) < end:
            async with stream(load.url("write"), live=False, headers=load.headers) as response:
                async for piece in response.iter_bytes():
                    received += len(piece)
                    if time.perf_counter() > end:
                        break
            latencies.append(time.perf_counter() - before)

    await _all(read for _ in range(load.connections))
    return summed_up("read", len(latencies), received, time.perf_counter() - began, latencies)


async def tails(load: Load) -> Result:
    """Follow a stream by SSE while timestamped messages are appended to it."""
    latencies: list[float] = []
    received = 0

    async def follow() -> None:
        nonlocal received
        async with stream(load.url("live"), live="sse", headers=load.headers) as response:
            async for piece in response.iter_bytes():
                now = time.perf_counter_ns()
                received += len(piece)
                latencies.extend((now - int(line[:_STAMP_DIGITS])) / 1e9 for line in piece.split())

    async def write() -> None:
        handle = DurableStream(load.url("live"), content_type="text/plain", headers=load.headers)
        padding = b"x" * (load.size - _STAMP_DIGITS - 1)
        end = time.perf_counter() + load.seconds
        while time.perf_counter() < end:
            await handle.append(b"%020d%b\n" % (time.perf_counter_ns(), padding))
            await asyncio.sleep(_PAUSE_S)
        await handle.close()

    began = time.perf_counter()
    await _all([write, *(follow for _ in range(load.connections))])
    return summed_up("tail", len(latencies), received, time.perf_counter() - began, latencies)


async def _all(works: Iterable[Callable[[], Coroutine[None, None, None]]]) -> None:
    """Run everything concurrently; the first failure cancels the rest."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
