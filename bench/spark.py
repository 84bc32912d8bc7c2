"""Spark reading streams beside Spark reading the same rows from files of JSON, in one run.

    python -m bench.spark              about two minutes
    python -m bench.spark --quick      once and short

Files are the limit: no network, no Python, split and parsed by Spark itself.

    parsed      both sides are read with a schema of typed columns
    from_json   the same columns, from the text of the rows by Spark's function
    raw         only each row's text is touched, on both sides

The two sides alternate, and what is compared is the ratio of neighbours in time; and of the processor
time of the JVM, its Python workers and the server together, which a busy machine bends less.

What takes most of a worker's time: parsing JSON (parsed), sockets (raw); of the JVM's: `from_json`.
Both sides run a few times before they count, and the settings below are part of the result.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import millstream
from bench.cpu import family_cpu_seconds
from millstream.spark.sessions import local_session
from tests.running import millstream as millstream_server

CORES = 2
STREAMS = 4
SCHEMA = "n long, text string"
SETTINGS = {
    "spark.driver.memory": "2g",
    # Otherwise every field that is taken from `from_json` parses the row again.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
    # Otherwise all columns are weighed after each row that goes to Python. Batches have 10,000 rows at most.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}
WARM_UP_ROUNDS = 3
"""How often each side runs before it counts: compilers are at work until then."""


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    rounds: int
    rows: int


FULL = Size(rounds=5, rows=2_000_000)
QUICK = Size(rounds=2, rows=400_000)


@contextmanager
def same_rows(size: Size) -> Iterator[tuple[str, str]]:
    """Write the rows twice: into streams of a server, and into as many files; give both places."""
    with millstream_server() as server, tempfile.TemporaryDirectory() as folder:
        for number in range(STREAMS):
            rows = [
                json.dumps({"n": row, "text": "x" * 70}, separators=(",", ":")).encode()
                for row in range(number, size.rows, STREAMS)
            ]
            stream = millstream.DurableStream.create(
                f"{server.url}/bench/{number}", content_type="application/json"
            )
            stream.append_all(rows)
            (Path(folder) / f"{number}.json").write_bytes(b"\n".join(rows) + b"\n")
        yield server.url, folder


def streams(spark: SparkSession, url: str, schema: str) -> DataFrame:
    """Only the columns that files have, too."""
    reader = spark.read.format("durable-streams").option("url", url).option("pattern", "bench/*")
    return reader.schema(schema).load()


def parsed_streams(spark: SparkSession, url: str, folder: str) -> DataFrame:
    return streams(spark, url, SCHEMA)


def from_json_streams(spark: SparkSession, url: str, folder: str) -> DataFrame:
    text = streams(spark, url, "value string")
    return text.select(f.from_json("value", SCHEMA).alias("row")).select("row.*")


def parsed_files(spark: SparkSession, url: str, folder: str) -> DataFrame:
    return spark.read.schema(SCHEMA).json(folder)


def raw_streams(spark: SparkSession, url: str, folder: str) -> DataFrame:
    return streams(spark, url, "value string").select(f.length("value").alias("n"), "value")


def raw_files(spark: SparkSession, url: str, folder: str) -> DataFrame:
    return spark.read.text(folder).select(f.length("value").alias("n"), "value")


Read = Callable[[SparkSession, str, str], DataFrame]
PAIRS: dict[str, tuple[Read, Read]] = {
    "parsed": (parsed_streams, parsed_files),
    "from_json": (from_json_streams, parsed_files),
    "raw": (raw_streams, raw_files),
}


@dataclass(frozen=True)
class Sample:
    """What one read took; no processor time where there is no /proc."""

    wall_s: float
    cpu_s: float | None


def sample(frame: DataFrame, rows: int) -> Sample:
    """Touch every row, so that nothing can be left out."""
    text = "text" if "text" in frame.columns else "value"
    before_s, started = family_cpu_seconds(os.getpid()), time.perf_counter()
    found = frame.agg(f.count("*"), f.sum("n"), f.sum(f.length(text))).first()
    wall_s, after_s = time.perf_counter() - started, family_cpu_seconds(os.getpid())
    assert found is not None
    assert found[0] == rows, f"{found[0]} rows came back, not {rows}"
    return Sample(wall_s, None if before_s is None or after_s is None else after_s - before_s)


def spread(samples: list[float], form: str = ",.0f") -> str:
    return f"{median(samples):{form}} ({min(samples):{form}}..{max(samples):{form}})"


def report(name: str, size: Size, ours: list[Sample], theirs: list[Sample]) -> None:
    """Print rows per second, seconds of processor time, and the ratios of both."""
    for side, samples in (("streams", ours), ("files", theirs)):
        line = f"{name}: {side} {spread([size.rows / one.wall_s for one in samples])} rows/s"
        cpu_s = [one.cpu_s for one in samples if one.cpu_s is not None]
        print(line + (f", {spread(cpu_s, '.2f')} CPU s" if cpu_s else ""))
    pairs = list(zip(ours, theirs, strict=True))
    wall = [files.wall_s / streams.wall_s for streams, files in pairs]
    cpu = [files.cpu_s / streams.cpu_s for streams, files in pairs if streams.cpu_s and files.cpu_s]
    line = f"{name}: ratio by clock {spread(wall, '.2f')}"
    print(line + (f", by CPU {spread(cpu, '.2f')}" if cpu else ""), flush=True)


def main() -> None:
    """Run and print; names of pairs may be given."""
    size = QUICK if "--quick" in sys.argv else FULL
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(PAIRS)
    spark = local_session("bench", cores=str(CORES), settings=SETTINGS)
    with same_rows(size) as (url, folder):
        for name in names:
            both = list(enumerate(PAIRS[name]))
            for _ in range(WARM_UP_ROUNDS):
                for _, read in both:
                    sample(read(spark, url, folder), size.rows)
            samples: tuple[list[Sample], list[Sample]] = ([], [])
            for number in range(size.rounds):
                for which, read in both if number % 2 == 0 else reversed(both):
                    samples[which].append(sample(read(spark, url, folder), size.rows))
            report(name, size, *samples)
    spark.stop()


if __name__ == "__main__":
    main()
