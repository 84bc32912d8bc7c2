"""Spark writing streams beside Spark writing the same rows as files of JSON, in one run.

    python -m bench.spark_sink              about three minutes
    python -m bench.spark_sink --quick      once and short

Files are the limit: no network, no Python, nothing synced to the disk. The server of the streams syncs all
that it takes, and shares the cores with Spark. `objects` makes JSON of columns on both sides,
`values` writes text that is JSON already. The two alternate, and what is compared is the ratio of
neighbours in time.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.spark import CORES, FULL, QUICK, SETTINGS, WARM_UP_ROUNDS, spread
from millstream import DurableStream
from millstream.spark.sessions import local_session
from tests.running import Server, durable_millstream

PARTITIONS = 4


def objects(spark: SparkSession, rows: int) -> DataFrame:
    made = spark.range(0, rows, 1, PARTITIONS)
    return made.selectExpr("id as n", "repeat('x', 60) as text", "id / 7 as ratio")


def values(spark: SparkSession, rows: int) -> DataFrame:
    return objects(spark, rows).selectExpr("to_json(struct(*)) as value")


KINDS: dict[str, Callable[[SparkSession, int], DataFrame]] = {"objects": objects, "values": values}


def main() -> None:
    """Run and print; names of kinds may be given."""
    size = QUICK if "--quick" in sys.argv else FULL
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(KINDS)
    spark = local_session("bench", cores=str(CORES), settings=SETTINGS)
    with durable_millstream() as server, tempfile.TemporaryDirectory() as folder:
        for name in names:
            frame = KINDS[name](spark, size.rows)
            writes = [partial(to_stream, server, frame, size.rows), partial(to_files, Path(folder), frame)]
            samples: tuple[list[float], list[float]] = ([], [])
            for number in range(-WARM_UP_ROUNDS, size.rounds):
                for which in (0, 1) if number % 2 == 0 else (1, 0):
                    taken_s = writes[which]()
                    if number >= 0:
                        samples[which].append(size.rows / taken_s)
            ratios = [ours / theirs for ours, theirs in zip(*samples, strict=True)]
            streams, files = spread(samples[0], ",.0f"), spread(samples[1], ",.0f")
            print(f"{name}: stream {streams} rows/s, files {files} rows/s")
            print(f"{name}: ratio {spread(ratios, '.2f')}", flush=True)
    spark.stop()


def to_stream(server: Server, frame: DataFrame, rows: int) -> float:
    """Write to a new stream, and make sure that it holds all rows."""
    url = f"{server.url}/bench/out"
    started = time.perf_counter()
    writer = frame.write.format("durable-streams").mode("append")
    writer.options(url=server.url, stream="bench/out").save()
    taken_s = time.perf_counter() - started
    found = DurableStream(url).stream(live=False)
    count = sum(len(batch.items) for batch in found.iter_json_batches())
    assert count == rows, f"{count} rows arrived, not {rows}"
    DurableStream.delete(url)
    return taken_s


def to_files(folder: Path, frame: DataFrame) -> float:
    """Write files: text where it is JSON already, JSON where it is not."""
    started = time.perf_counter()
    writer = frame.write.mode("overwrite")
    if frame.columns == ["value"]:
        writer.text(str(folder / "out"))
    else:
        writer.json(str(folder / "out"))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
