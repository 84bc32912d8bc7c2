"""Spark reading streams beside Spark reading the same rows from files of JSON, in one run.

    python -m bench.spark              about four minutes
    python -m bench.spark --quick      once and short

Files are the limit: no network, no Python, split and parsed by Spark itself.

    parsed      both sides are read with a schema of typed columns
    from_json   the same columns, from the text of the rows by Spark's function
    raw         only each row's text is touched, on both sides
    prepared    like parsed, with a `cacheDirectory` that holds the rows after the first round
    count       how many rows there are: with the option `counts`, and by counting the rows of files
    bad         like parsed, with 1 % of rows that do not fit the schema, beside none

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
BAD_EVERY = 100
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


@dataclass(frozen=True)
class Place:
    """The same rows as streams of a server and as files, and where prepared ranges are kept."""

    spark: SparkSession
    url: str
    files: str
    cache: str
    rows: int


@contextmanager
def same_rows(spark: SparkSession, size: Size) -> Iterator[Place]:
    """Write the rows into streams, into as many files, and once more into streams with 1 % of bad ones."""
    with millstream_server() as server, tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        files.mkdir()
        for number in range(STREAMS):
            rows = [
                json.dumps({"n": row, "text": "x" * 70}, separators=(",", ":")).encode()
                for row in range(number, size.rows, STREAMS)
            ]
            (files / f"{number}.json").write_bytes(b"\n".join(rows) + b"\n")
            for name in ("bench", "bad"):
                stream = millstream.DurableStream.create(
                    f"{server.url}/{name}/{number}", content_type="application/json"
                )
                stream.append_all(rows)
                rows[::BAD_EVERY] = [b'{"n":"?","text":"%b"}' % (b"x" * 70)] * len(rows[::BAD_EVERY])
        yield Place(spark, server.url, str(files), str(Path(folder) / "kept"), size.rows)


def streams(place: Place, schema: str, pattern: str = "bench/*", **options: str) -> DataFrame:
    """Only the columns that files have, too."""
    reader = place.spark.read.format("durable-streams").options(url=place.url, pattern=pattern, **options)
    return reader.schema(schema).load()


def touched(frame: DataFrame) -> int:
    """Touch every row, so that nothing can be left out."""
    text = "text" if "text" in frame.columns else "value"
    found = frame.agg(f.count("*"), f.sum("n"), f.sum(f.length(text))).first()
    assert found is not None
    return int(found[0])


def parsed_streams(place: Place) -> int:
    return touched(streams(place, SCHEMA))


def prepared_streams(place: Place) -> int:
    return touched(streams(place, SCHEMA, cacheDirectory=place.cache))


def bad_streams(place: Place) -> int:
    return touched(streams(place, SCHEMA, "bad/*"))


def from_json_streams(place: Place) -> int:
    text = streams(place, "value string")
    return touched(text.select(f.from_json("value", SCHEMA).alias("row")).select("row.*"))


def parsed_files(place: Place) -> int:
    return touched(place.spark.read.schema(SCHEMA).json(place.files))


def raw_streams(place: Place) -> int:
    return touched(streams(place, "value string").select(f.length("value").alias("n"), "value"))


def raw_files(place: Place) -> int:
    return touched(place.spark.read.text(place.files).select(f.length("value").alias("n"), "value"))


def counted_streams(place: Place) -> int:
    reader = place.spark.read.format("durable-streams").options(
        url=place.url, pattern="bench/*", counts="true"
    )
    found = reader.load().agg(f.sum("rows")).first()
    assert found is not None
    return int(found[0])


def counted_files(place: Place) -> int:
    return place.spark.read.schema(SCHEMA).json(place.files).count()


Read = Callable[[Place], int]


@dataclass(frozen=True)
class Pair:
    """Two ways to read the same rows, and how fast the first one must be beside the second."""

    ours: Read
    theirs: Read
    at_least: float | None = None
    beside: str = "files"


PAIRS: dict[str, Pair] = {
    "prepared": Pair(prepared_streams, parsed_files, 1.5),
    "parsed": Pair(parsed_streams, parsed_files, 0.9),
    "raw": Pair(raw_streams, raw_files, 0.8),
    "count": Pair(counted_streams, counted_files, 3),
    "bad": Pair(bad_streams, parsed_streams, 1 / 1.5, "none bad"),
    "from_json": Pair(from_json_streams, parsed_files),
}


@dataclass(frozen=True)
class Sample:
    """What one read took; no processor time where there is no /proc."""

    wall_s: float
    cpu_s: float | None


def sample(read: Read, place: Place) -> Sample:
    """Read once, and make sure that all rows came."""
    before_s, started = family_cpu_seconds(os.getpid()), time.perf_counter()
    rows = read(place)
    wall_s, after_s = time.perf_counter() - started, family_cpu_seconds(os.getpid())
    assert rows == place.rows, f"{rows} rows came back, not {place.rows}"
    return Sample(wall_s, None if before_s is None or after_s is None else after_s - before_s)


def spread(samples: list[float], form: str = ",.0f") -> str:
    return f"{median(samples):{form}} ({min(samples):{form}}..{max(samples):{form}})"


def verdict(ratios: list[float], at_least: float | None) -> str:
    """Say whether a median keeps its bound."""
    if at_least is None:
        return ""
    return f" {'PASS' if median(ratios) >= at_least else 'FAIL'} (at least {at_least:.2f})"


def report(name: str, size: Size, pair: Pair, ours: list[Sample], theirs: list[Sample]) -> None:
    """Print rows per second, seconds of processor time, and the ratios of both."""
    for side, samples in (("streams", ours), (pair.beside, theirs)):
        line = f"{name}: {side} {spread([size.rows / one.wall_s for one in samples])} rows/s"
        cpu_s = [one.cpu_s for one in samples if one.cpu_s is not None]
        print(line + (f", {spread(cpu_s, '.2f')} CPU s" if cpu_s else ""))
    pairs = list(zip(ours, theirs, strict=True))
    wall = [other.wall_s / own.wall_s for own, other in pairs]
    cpu = [other.cpu_s / own.cpu_s for own, other in pairs if own.cpu_s and other.cpu_s]
    print(f"{name}: ratio by clock {spread(wall, '.2f')}{verdict(wall, pair.at_least)}")
    if cpu:
        print(f"{name}: ratio by CPU {spread(cpu, '.2f')}{verdict(cpu, pair.at_least)}", flush=True)


def main() -> None:
    """Run and print; names of pairs may be given."""
    size = QUICK if "--quick" in sys.argv else FULL
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(PAIRS)
    spark = local_session("bench", cores=str(CORES), settings=SETTINGS)
    with same_rows(spark, size) as place:
        for name in names:
            both = list(enumerate((PAIRS[name].ours, PAIRS[name].theirs)))
            for _ in range(WARM_UP_ROUNDS):
                for _, read in both:
                    sample(read, place)
            samples: tuple[list[Sample], list[Sample]] = ([], [])
            for number in range(size.rounds):
                for which, read in both if number % 2 == 0 else reversed(both):
                    samples[which].append(sample(read, place))
            report(name, size, PAIRS[name], *samples)
    spark.stop()


if __name__ == "__main__":
    main()
