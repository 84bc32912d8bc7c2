"""How long a message takes from its append into a row of a streaming query.

    python -m bench.spark_latency              about two minutes

    steady      1,000 messages a second to one stream; the median, and 99 of 100
    wide        single messages, each to another one of 5,000 streams that are followed by name

A message holds the time at which it was sent. It has arrived when `foreachBatch` has its row on the driver,
in the same process.
"""

import asyncio
import json
import random
import statistics
import sys
import tempfile
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.spark import CORES, SETTINGS
from millstream import DurableStream, aio
from millstream.spark.sessions import local_session
from tests.running import Server, durable_millstream

WIDE, SINGLE, PAUSE_S = 5_000, 12, 0.3
RATE, STEADY_S, PER_APPEND, SETTLE_S = 1_000, 15, 10, 5
STEADY_AT_MOST_S, WIDE_AT_MOST_S = 0.35, 0.4


class Arrivals:
    """How long the messages of a query took."""

    def __init__(self) -> None:
        self.took_s: list[float] = []

    def keep(self, batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        now = time.time()
        self.took_s += [now - json.loads(row.value)["sent"] for row in rows]


def follow(
    spark: SparkSession, server: Server, arrivals: Arrivals, checkpoint: str, names: list[str]
) -> StreamingQuery:
    reader = spark.readStream.format("durable-streams").option("url", server.url)
    reader = reader.option("streams", json.dumps(names)).option("startingOffsets", "latest")
    writer = reader.load().writeStream.foreachBatch(arrivals.keep).option("checkpointLocation", checkpoint)
    return writer.start()


def message() -> dict[str, float]:
    return {"sent": time.time()}


def steady(server: Server, arrivals: Arrivals) -> None:
    """Append at a steady rate, whatever the query does."""
    stream = DurableStream(f"{server.url}/steady")
    began, sent = time.perf_counter(), 0
    while sent < RATE * STEADY_S:
        time.sleep(max(0.0, began + sent / RATE - time.perf_counter()))
        stream.append_all([message() for _ in range(PER_APPEND)])
        sent += PER_APPEND
        if sent == RATE * SETTLE_S:
            arrivals.took_s.clear()


def single(server: Server, arrivals: Arrivals) -> None:
    """Append one message after the other has arrived."""
    chance = random.Random(1)
    for number in range(SINGLE + 3):
        DurableStream(f"{server.url}/wide/{chance.randrange(WIDE)}").append(message())
        wait_for(arrivals, number + 1)
        time.sleep(PAUSE_S)
    del arrivals.took_s[:3]


def wait_for(arrivals: Arrivals, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(arrivals.took_s) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(arrivals.took_s)} of {count} messages arrived")
        time.sleep(0.01)


async def create(server: Server, names: list[str]) -> None:
    limit = asyncio.Semaphore(16)

    async def one(name: str) -> None:
        async with limit:
            await aio.DurableStream.create(f"{server.url}/{name}", content_type="application/json")

    await asyncio.gather(*map(one, names))


def report(name: str, took_s: list[float], at_most_s: float) -> None:
    """Print the median, the tail, and whether the median keeps its bound."""
    found = sorted(took_s)
    p50, p99 = statistics.median(found), found[int(0.99 * (len(found) - 1))]
    said = "PASS" if p50 <= at_most_s else "FAIL"
    print(f"{name}: p50 {p50:.3f} s {said} (at most {at_most_s} s), p99 {p99:.3f} s", flush=True)


def main() -> None:
    """Run and print; `steady` or `wide` may be given."""
    chosen = sys.argv[1:] or ["steady", "wide"]
    spark = local_session("latency", cores=str(CORES), settings=SETTINGS)
    loads = {
        "steady": (["steady"], steady, STEADY_AT_MOST_S),
        "wide": ([f"wide/{number}" for number in range(WIDE)], single, WIDE_AT_MOST_S),
    }
    for name in chosen:
        names, load, at_most_s = loads[name]
        with durable_millstream() as server, tempfile.TemporaryDirectory() as checkpoint:
            asyncio.run(create(server, names))
            arrivals = Arrivals()
            query = follow(spark, server, arrivals, checkpoint, names)
            time.sleep(SETTLE_S)
            load(server, arrivals)
            time.sleep(2)
            query.stop()
        report(name, arrivals.took_s, at_most_s)
    spark.stop()


if __name__ == "__main__":
    main()
