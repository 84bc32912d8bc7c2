"""Backfill: a pipeline over what arrived in a range of time; and the time of arrival as a column."""

import datetime
import time

import pytest

from millstream import DurableStream
from millstream.cli.exits import Failure
from millstream.cli.pipelines.groups import Pacing
from millstream.spark.options import OptionError
from millstream.spark.pipelines.archive import archive, read_table
from millstream.spark.pipelines.derive import derive
from millstream.spark.pipelines.inputs import Input, Pace
from spark.pipelines.pipes import Pipes, numbers


def times_of(log: DurableStream, count: int) -> list[str]:
    """Append messages, each at a time of its own."""
    found = []
    for n in range(count):
        log.append({"n": n, "at": f"2026-01-01T00:0{n}:00Z"})
        written = log.head().last_time
        assert written is not None
        found.append(written)
        time.sleep(0.003)
    return found


def ranged(pipes: Pipes, pacing: Pacing) -> Input:
    return pipes.source(**pacing.range())


def test_an_archive_takes_what_arrived_in_a_range_and_goes_on_from_there(pipes: Pipes) -> None:
    at = times_of(pipes.create("in/1"), 6)
    table = pipes.path("table")
    pacing = Pacing(since=at[1], until=at[4])
    for rows in (3, 0):  # a second run finds nothing more
        done = archive(
            pipes.spark, ranged(pipes, pacing), table, schema="n long", pace=pacing.pace("1 second")
        )
        assert done.rows == rows
    archive(pipes.spark, pipes.source(), table, schema="n long", pace=Pace(once=True))
    assert sorted(row.n for row in read_table(pipes.spark, table).collect()) == [1, 2, 3, 4, 5]


def test_windows_over_a_range_count_what_arrived_in_it(pipes: Pipes) -> None:
    at = times_of(pipes.create("in/1"), 6)
    pacing = Pacing(since=at[1], until=at[5])
    done = derive(
        pipes.spark,
        ranged(pipes, pacing),
        "select window.start as minute, count(*) as n from input group by window(at, '1 minute')",
        pipes.output(),
        checkpoint=pipes.path("checkpoint"),
        schema="at timestamp",
        event_time="at",
        watermark="0 seconds",
        pace=pacing.pace(),
        bad=pipes.bad(),
    )
    assert (done.rows, done.late_rows) == (4, 0)
    assert sorted(row["minute"][14:16] for row in pipes.messages()) == ["01", "02", "03"], "the last is open"


def test_the_time_of_arrival_is_a_column_where_it_is_asked_for(pipes: Pipes) -> None:
    at = times_of(pipes.create("in/1"), 3)
    asked = pipes.source(includeTimestamp="true")
    table = pipes.path("table")
    archive(pipes.spark, asked, table, schema="n long", event_time="timestamp", pace=Pace(once=True))
    rows = read_table(pipes.spark, table).selectExpr("n", "unix_millis(timestamp) ms", "date").collect()
    millis = [round(datetime.datetime.fromisoformat(one).timestamp() * 1000) for one in at]
    assert sorted((row.n, row.ms) for row in rows) == list(enumerate(millis))
    assert {str(row.date) for row in rows} <= {one[:10] for one in at}
    archive(pipes.spark, asked, pipes.path("raw"), event_time="timestamp", pace=Pace(once=True))
    assert "timestamp" in read_table(pipes.spark, pipes.path("raw")).columns
    with pytest.raises(OptionError, match="as includeTimestamp does"):
        archive(pipes.spark, asked, pipes.path("other"), schema="timestamp string", pace=Pace(once=True))
    with pytest.raises(OptionError, match="event-time: needs a schema"):
        archive(pipes.spark, pipes.source(), pipes.path("other"), event_time="timestamp")


def test_late_records_of_a_query_that_began_at_a_time_are_found(pipes: Pipes) -> None:
    """They are read again by offset, so the options of the query that say where it begins are left out."""
    log = pipes.create("in/1", numbers(0, 1))
    log.append_all([{"at": f"2026-01-0{day}T00:00:00Z"} for day in (1, 5)])
    job = {
        "checkpoint": pipes.path("checkpoint"),
        "schema": "at timestamp",
        "event_time": "at",
        "pace": Pace(once=True),
        "bad": pipes.bad(),
    }
    source = pipes.source(startingTimestamp="-1 day", includeTimestamp="true")
    sql = "select window.start as hour, count(*) as n from input group by window(at, '1 hour')"
    derive(pipes.spark, source, sql, pipes.output(), **job)
    log.append({"at": "2026-01-02T00:00:00Z"})
    done = derive(pipes.spark, source, sql, pipes.output(), **job)
    assert done.late_rows == 1
    assert any("older than the watermark" in letter["error"] for letter in pipes.messages("bad"))


def test_until_ends_a_pipeline(pipes: Pipes) -> None:
    assert Pacing(until="-1 hour").pace("10 seconds") == Pace(once=True)
    assert Pacing(since="-1 hour").pace("10 seconds") == Pace(every="10 seconds")
    with pytest.raises(Failure, match="--until ends a pipeline"):
        Pacing(until="-1 hour", every="1 second")
