"""Spark writing streams beside Spark writing the same rows as files of JSON, in one run.

    python -m bench.spark_sink              about four minutes
    python -m bench.spark_sink --quick      once and short

    objects     rows become JSON, on both sides
    values      rows hold text that is JSON already, which files take as text
    hundred     like objects, to 100 streams in turn; to as few files as before
    new         20,000 rows to 5,000 streams that are not there yet; in seconds

Files are the limit: no network, no Python, nothing synced to the disk. The server of the streams syncs all
that it takes, and shares the cores with Spark. The two alternate, and what is compared is the ratio of
neighbours in time; and of the processor time of the JVM, its Python workers and the server together.
"""

import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.cpu import family_cpu_seconds
from bench.spark import CORES, FULL, QUICK, SETTINGS, WARM_UP_ROUNDS, Sample, spread, verdict
from millstream.spark.sessions import local_session
from tests.running import Server, durable_millstream

PARTITIONS = 4
NEW_STREAMS, NEW_ROWS, NEW_AT_MOST_S = 5_000, 20_000, 10


def objects(spark: SparkSession, rows: int) -> DataFrame:
    made = spark.range(0, rows, 1, PARTITIONS)
    return made.selectExpr("id as n", "repeat('x', 60) as text", "id / 7 as ratio")


def values(spark: SparkSession, rows: int) -> DataFrame:
    return objects(spark, rows).selectExpr("to_json(struct(*)) as value")


def spread_over(streams: int, spark: SparkSession, rows: int) -> DataFrame:
    return objects(spark, rows).withColumn("stream", f.col("n") % streams)


@dataclass(frozen=True)
class Kind:
    """What is written, and how fast that must be beside files."""

    frame: Callable[[SparkSession, int], DataFrame]
    at_least: float | None = None


KINDS: dict[str, Kind] = {
    "objects": Kind(objects, 0.65),
    "values": Kind(values),
    "hundred": Kind(partial(spread_over, 100), 0.4),
}
NEW = "new"


def main() -> None:
    """Run and print; names of kinds may be given."""
    size = QUICK if "--quick" in sys.argv else FULL
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or [*KINDS, NEW]
    spark = local_session("bench", cores=str(CORES), settings=SETTINGS)
    with durable_millstream() as server, tempfile.TemporaryDirectory() as folder:
        for name in names:
            if name == NEW:
                to_new_streams(spark, server, size.rounds)
                continue
            frame = KINDS[name].frame(spark, size.rows)
            writes = [partial(to_streams, spark, server, frame), partial(to_files, Path(folder), frame)]
            samples: tuple[list[Sample], list[Sample]] = ([], [])
            for number in range(-WARM_UP_ROUNDS, size.rounds):
                for which in (0, 1) if number % 2 == 0 else (1, 0):
                    taken = writes[which]()
                    if number >= 0:
                        samples[which].append(taken)
            at_least = KINDS[name].at_least
            streams, files = (spread([size.rows / one.wall_s for one in side]) for side in samples)
            print(f"{name}: streams {streams} rows/s, files {files} rows/s")
            pairs = list(zip(*samples, strict=True))
            wall = [theirs.wall_s / ours.wall_s for ours, theirs in pairs]
            cpu = [theirs.cpu_s / ours.cpu_s for ours, theirs in pairs if theirs.cpu_s and ours.cpu_s]
            print(f"{name}: ratio by clock {spread(wall, '.2f')}{verdict(wall, at_least)}")
            if cpu:
                print(f"{name}: ratio by CPU {spread(cpu, '.2f')}{verdict(cpu, at_least)}", flush=True)
    spark.stop()


def to_streams(spark: SparkSession, server: Server, frame: DataFrame) -> Sample:
    """Write to new streams, and make sure that they hold all rows."""
    folder = f"bench/{uuid.uuid4().hex}"
    if "stream" in frame.columns:
        named = frame.withColumn("stream", f.concat(f.lit(f"{folder}/"), "stream"))
        options = {"url": server.url}
    else:
        named, options = frame, {"url": server.url, "stream": f"{folder}/out"}
    taken = timed(named.write.format("durable-streams").mode("append").options(**options).save)
    reader = spark.read.format("durable-streams").options(
        url=server.url, pattern=f"{folder}/*", counts="true"
    )
    found, wanted = reader.load().agg(f.sum("rows")).first(), frame.count()
    assert found is not None
    assert found[0] == wanted, f"{found[0]} rows arrived, not {wanted}"
    return taken


def to_new_streams(spark: SparkSession, server: Server, rounds: int) -> None:
    """Print how long it takes to write to streams that are not there."""
    frame = spread_over(NEW_STREAMS, spark, NEW_ROWS)
    to_streams(spark, server, frame)
    taken = [to_streams(spark, server, frame) for _ in range(rounds)]
    wall_s, cpu_s = [one.wall_s for one in taken], [one.cpu_s for one in taken if one.cpu_s is not None]
    said = verdict([1 / one for one in wall_s], 1 / NEW_AT_MOST_S).split()[0]
    line = f"{NEW}: {spread(wall_s, '.2f')} s {said} (at most {NEW_AT_MOST_S} s)"
    print(line + (f", {spread(cpu_s, '.2f')} CPU s" if cpu_s else ""), flush=True)


def timed(write: Callable[[], None]) -> Sample:
    before_s, started = family_cpu_seconds(os.getpid()), time.perf_counter()
    write()
    wall_s, after_s = time.perf_counter() - started, family_cpu_seconds(os.getpid())
    return Sample(wall_s, None if before_s is None or after_s is None else after_s - before_s)


def to_files(folder: Path, frame: DataFrame) -> Sample:
    """Write files: text where it is JSON already, JSON where it is not."""
    writer = frame.write.mode("overwrite")
    write = writer.text if frame.columns == ["value"] else writer.json
    return timed(partial(write, str(folder / "out")))


if __name__ == "__main__":
    main()
