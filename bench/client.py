"""Our Python client beside the public one (`durable-streams` on PyPI), on one server, in one run.

    python -m bench.client              all scenarios, about a minute
    python -m bench.client --quick      all scenarios, once and short

The clients alternate within a scenario, and what is compared is the ratio of neighbours in time.
The public client 0.1.0 has no producer; beside ours stands the fastest way that it has to store many
small messages: many appends at once, which it sends together.
"""

import asyncio
import queue
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import durable_streams

import millstream
import millstream.aio
from bench.rounds import OURS, REFERENCE, Result, Sample, Scenario
from tests.running import millstream as millstream_server

JSON = "application/json"
MESSAGE = {"n": 12345, "text": "x" * 70}  # 91 bytes of JSON
PLAIN = {"Accept-Encoding": "identity"}  # theirs asks for gzip by default, which costs the server most
THEIR_CROWD = 1000  # appends that the public client is given at once


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    rounds: int
    seconds: float
    messages: int
    read_bytes: int
    round_trips: int


FULL = Size(rounds=5, seconds=1.5, messages=100_000, read_bytes=64_000_000, round_trips=500)
QUICK = Size(rounds=2, seconds=0.5, messages=20_000, read_bytes=16_000_000, round_trips=100)

Measure = Callable[[str, Size], float]


@dataclass(frozen=True)
class Pair:
    """One kind of work, done by both clients; `prepare` makes the stream that both use."""

    name: str
    title: str
    unit: str
    ours: Measure
    theirs: Measure
    prepare: Callable[[str, Size], None] | None = None
    less_is_better: bool = False


def run(size: Size, progress: Callable[[str], None], names: list[str] | None = None) -> list[Result]:
    """Measure the pairs of these names, all by default, on one server of ours."""
    with millstream_server() as server:
        chosen = [pair for pair in PAIRS if not names or pair.name in names]
        return [_alternate(pair, server.url, size, progress) for pair in chosen]


def _alternate(pair: Pair, server_url: str, size: Size, progress: Callable[[str], None]) -> Result:
    scenario = Scenario(pair.name, pair.title, pair.unit, _unused, _unused, pair.less_is_better)
    result = Result(scenario, {OURS: [], REFERENCE: []})
    shared = f"{server_url}/bench/{uuid.uuid4()}"
    if pair.prepare is not None:
        pair.prepare(shared, size)
    measures = [(OURS, pair.ours), (REFERENCE, pair.theirs)]
    for number in range(size.rounds):
        progress(f"{pair.name}: round {number + 1} of {size.rounds}")
        for name, measure in measures if number % 2 == 0 else reversed(measures):
            url = shared if pair.prepare is not None else f"{server_url}/bench/{uuid.uuid4()}"
            result.samples[name].append(Sample(measure(url, size)))
    return result


def _unused(*_: Any) -> Any:
    raise AssertionError("clients are measured by run, not by bench.rounds")


# -- Appends, one after the other ----------------------------------------------------------------


def _rate(work: Callable[[], Any], seconds: float) -> float:
    count, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        for _ in range(20):
            work()
        count += 20
    return count / elapsed


def our_appends(url: str, size: Size) -> float:
    stream = millstream.DurableStream.create(url, content_type=JSON)
    return _rate(lambda: stream.append(MESSAGE), size.seconds)


def their_appends(url: str, size: Size) -> float:
    with durable_streams.DurableStream.create(url, content_type=JSON) as stream:
        return _rate(lambda: stream.append(MESSAGE), size.seconds)


async def _arate(work: Callable[[], Any], seconds: float) -> float:
    count, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        for _ in range(20):
            await work()
        count += 20
    return count / elapsed


def our_async_appends(url: str, size: Size) -> float:
    async def go() -> float:
        stream = await millstream.aio.DurableStream.create(url, content_type=JSON)
        return await _arate(lambda: stream.append(MESSAGE), size.seconds)

    return asyncio.run(go())


def their_async_appends(url: str, size: Size) -> float:
    async def go() -> float:
        async with await durable_streams.AsyncDurableStream.create(url, content_type=JSON) as stream:
            return await _arate(lambda: stream.append(MESSAGE), size.seconds)

    return asyncio.run(go())


# -- Many small messages -------------------------------------------------------------------------


def our_producer(url: str, size: Size) -> float:
    stream = millstream.DurableStream.create(url, content_type=JSON)
    started = time.perf_counter()
    with millstream.IdempotentProducer(stream, "bench") as producer:
        for _ in range(size.messages):
            producer.append(MESSAGE)
    return size.messages / (time.perf_counter() - started)


def our_async_producer(url: str, size: Size) -> float:
    async def go() -> float:
        stream = await millstream.aio.DurableStream.create(url, content_type=JSON)
        started = time.perf_counter()
        async with millstream.aio.IdempotentProducer(stream, "bench") as producer:
            for _ in range(size.messages):
                await producer.append(MESSAGE)
        return size.messages / (time.perf_counter() - started)

    return asyncio.run(go())


def their_crowd(url: str, size: Size) -> float:
    async def go() -> float:
        async with await durable_streams.AsyncDurableStream.create(url, content_type=JSON) as stream:
            started = time.perf_counter()
            for _ in range(size.messages // THEIR_CROWD):
                await asyncio.gather(*[stream.append(MESSAGE) for _ in range(THEIR_CROWD)])
            return size.messages / (time.perf_counter() - started)

    return asyncio.run(go())


# -- Reading what is there ------------------------------------------------------------------------


def fill_json(url: str, size: Size) -> None:
    stream = millstream.DurableStream.create(url, content_type=JSON)
    stream.append_all(MESSAGE for _ in range(size.read_bytes // 92))


def fill_bytes(url: str, size: Size) -> None:
    stream = millstream.DurableStream.create(url)
    for _ in range(size.read_bytes // 1_000_000):
        stream.append(b"x" * 1_000_000)


def our_json_read(url: str, size: Size) -> float:
    started = time.perf_counter()
    with millstream.stream(url, live=False) as response:
        count = len(response.read_json())
    return count / (time.perf_counter() - started)


def their_json_read(url: str, size: Size) -> float:
    started = time.perf_counter()
    with durable_streams.stream(url, live=False, headers={**PLAIN}) as response:
        count = len(response.read_json())
    return count / (time.perf_counter() - started)


def our_bytes_read(url: str, size: Size) -> float:
    started = time.perf_counter()
    with millstream.stream(url, live=False) as response:
        count = len(response.read_bytes())
    return count / 1e6 / (time.perf_counter() - started)


def their_bytes_read(url: str, size: Size) -> float:
    started = time.perf_counter()
    with durable_streams.stream(url, live=False, headers={**PLAIN}) as response:
        count = len(response.read_bytes())
    return count / 1e6 / (time.perf_counter() - started)


# -- There and back ---------------------------------------------------------------------------------


def _round_trips(
    append: Callable[[Any], Any], read: Callable[[queue.SimpleQueue[Any]], None], count: int
) -> float:
    """Append and wait until a reader, in a thread of its own, has it; the median in milliseconds."""
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    thread = threading.Thread(target=read, args=(inbox,), daemon=True)
    thread.start()
    times = []
    for number in range(count):
        started = time.perf_counter()
        append(number)
        while inbox.get(timeout=10) != number:
            pass
        times.append((time.perf_counter() - started) * 1000)
    append("end")
    thread.join(10)
    return median(times)


def our_round_trip(url: str, size: Size) -> float:
    stream = millstream.DurableStream.create(url, content_type=JSON)

    def read(inbox: queue.SimpleQueue[Any]) -> None:
        with millstream.stream(url, live="long-poll") as response:
            for item in response.iter_json():
                inbox.put(item)
                if item == "end":
                    return

    return _round_trips(stream.append, read, size.round_trips)


def their_round_trip(url: str, size: Size) -> float:
    with durable_streams.DurableStream.create(url, content_type=JSON) as stream:

        def read(inbox: queue.SimpleQueue[Any]) -> None:
            with durable_streams.stream(url, offset="-1", live="long-poll") as response:
                for event in response.iter_events(mode="json"):
                    for item in event.data:
                        inbox.put(item)
                        if item == "end":
                            return

        return _round_trips(stream.append, read, size.round_trips)


PAIRS = (
    Pair("client-append", "append, sync", "appends/s", our_appends, their_appends),
    Pair("client-append-async", "append, async", "appends/s", our_async_appends, their_async_appends),
    Pair("client-producer", "many messages, sync producer", "messages/s", our_producer, their_crowd),
    Pair(
        "client-producer-async",
        "many messages, async producer",
        "messages/s",
        our_async_producer,
        their_crowd,
    ),
    Pair("client-read-json", "catch-up, JSON", "messages/s", our_json_read, their_json_read, fill_json),
    Pair("client-read-bytes", "catch-up, bytes", "MB/s", our_bytes_read, their_bytes_read, fill_bytes),
    Pair(
        "client-long-poll",
        "append to long-poll and back",
        "ms",
        our_round_trip,
        their_round_trip,
        less_is_better=True,
    ),
)


def render(results: list[Result]) -> str:
    """Write the medians and the ratios, one line for each scenario."""
    lines = [f"{'client':32}{'millstream':>14}{'PyPI':>14}  {'':12}times better (least..most)"]
    for result in results:
        values = [median(sample.value for sample in result.samples[name]) for name in (OURS, REFERENCE)]
        shown = [f"{value:,.0f}" if value >= 100 else f"{value:.2f}" for value in values]
        ratios = result.ratios(OURS)
        times = f"{median(ratios):.1f} ({min(ratios):.1f}..{max(ratios):.1f})"
        lines.append(
            f"{result.scenario.title:32}{shown[0]:>14}{shown[1]:>14}  {result.scenario.unit:12}{times}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run and print; names of scenarios may be given."""
    names = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    size = QUICK if "--quick" in sys.argv else FULL
    print(render(run(size, lambda text: print(text, file=sys.stderr), names)))


if __name__ == "__main__":
    main()
