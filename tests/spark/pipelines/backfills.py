"""Streams of different days, counted by the hour while the query catches up with all of them.

Spark has one watermark for all streams, so what is read too early makes the rest late. Whatever the streams
are, in whichever order they are named, and however small the batches: every row is counted, in its hour.
"""

import tempfile
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from millstream.spark.pipelines.derive import derive
from millstream.spark.pipelines.inputs import Pace
from spark.pipelines.pipes import Pipes
from spark.queries import Streams

HOURLY = "select window.start as at, count(*) as n from input group by window(at, '1 hour')"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
_DAY_MINUTES = 24 * 60
_ROW_BYTES = 32


class Backfill(msgspec.Struct, frozen=True):
    """Minutes since the beginning, of the rows of each stream; and the size of a batch, as an option."""

    streams: tuple[tuple[int, ...], ...]
    trigger: tuple[str, int]


@st.composite
def backfills(draw: st.DrawFn) -> Backfill:
    """Streams of a day each, some of the same; at most half a dozen batches."""
    days = draw(st.lists(st.integers(0, 8), min_size=2, max_size=5))
    streams = tuple(
        tuple(sorted(draw(st.lists(st.integers(0, _DAY_MINUTES - 1), min_size=1, max_size=60)))) for _ in days
    )
    placed = tuple(
        tuple(day * _DAY_MINUTES + minute for minute in minutes)
        for day, minutes in zip(days, streams, strict=True)
    )
    rows = -(-sum(map(len, placed)) // draw(st.integers(1, 6)))
    option = draw(st.sampled_from([("maxRowsPerTrigger", rows), ("maxBytesPerTrigger", rows * _ROW_BYTES)]))
    return Backfill(placed, option)


def _day(number: int) -> tuple[int, ...]:
    return tuple(range(number * _DAY_MINUTES, (number + 1) * _DAY_MINUTES, 15))


def count_backfills(spark: SparkSession, url: str, examples: int) -> None:
    """Try so many, the worst of all first: the last day has the first name, and all are of one size."""

    @settings(
        max_examples=max(1, examples - 1),
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],  # a smaller example would take minutes to find
        suppress_health_check=list(HealthCheck),
    )
    @given(backfills())
    @example(Backfill(tuple(_day(number) for number in (3, 1, 2)), ("maxRowsPerTrigger", 75)))
    def counts_every_row(one: Backfill) -> None:
        with tempfile.TemporaryDirectory(prefix="millstream-backfill-") as folder:
            count_one(Pipes(Streams(spark, url, f"backfill/{uuid.uuid4()}"), Path(folder)), one)

    counts_every_row()


def count_one(pipes: Pipes, one: Backfill) -> None:
    """Count one by the hour, and compare."""
    for number, minutes in enumerate(one.streams):
        pipes.create(f"in/{number}", [{"at": _written(minute)} for minute in minutes]).close()
    option, size = one.trigger
    done = derive(
        pipes.spark,
        pipes.source(**{option: str(size)}),
        HOURLY,
        pipes.output(),
        schema="at timestamp",
        event_time="at",
        watermark="0 seconds",
        bad=pipes.bad(),
        pace=Pace(until_closed=True),
        checkpoint=pipes.path("checkpoint"),
    )
    wanted = Counter(_written(minute // 60 * 60) for minutes in one.streams for minute in minutes)
    found = pipes.messages()
    hours = [_written_again(message["at"]) for message in found]
    assert len(set(hours)) == len(hours), "an hour is given out once"
    assert dict(zip(hours, (message["n"] for message in found), strict=True)) == dict(wanted)
    assert (done.rows, done.late_rows, done.dead_letters) == (sum(wanted.values()), 0, 0)


def _written(minute: int) -> str:
    return (BEGUN + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _written_again(at: str) -> str:
    return datetime.fromisoformat(at).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
