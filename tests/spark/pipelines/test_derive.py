"""derive: SQL and functions over streams, exactly once, with windows and ends."""

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from millstream.spark.options import OptionError
from millstream.spark.pipelines.derive import derive
from millstream.spark.pipelines.inputs import Pace
from millstream.spark.pipelines.running import PipelineError
from spark.pipelines.backfills import count_backfills
from spark.pipelines.pipes import Pipes, numbers

ONCE, UNTIL_CLOSED = Pace(once=True), Pace(until_closed=True)


def test_sql_over_messages_goes_on_from_its_checkpoint_and_carries_the_end_over(pipes: Pipes) -> None:
    read = pipes.create("in/1", [*numbers(0, 6), {"n": "six"}])
    job: dict[str, Any] = {
        "schema": "n long",
        "bad": pipes.bad(),
        "checkpoint": pipes.path("checkpoint"),
    }
    sql = "select n * 2 as n from input where n % 2 = 0"
    begun = derive(pipes.spark, pipes.source(), sql, pipes.output(), pace=ONCE, **job)
    assert (begun.rows, begun.dead_letters, begun.lag_bytes) == (7, 1, 0)
    assert pipes.ns() == [0, 4, 8]
    assert not pipes.is_closed()
    read.append_all(numbers(6, 10))
    read.close()
    derive(pipes.spark, pipes.source(), sql, pipes.output(), pace=UNTIL_CLOSED, **job)
    assert pipes.ns() == [0, 4, 8, 12, 16]
    assert pipes.is_closed()
    [letter] = pipes.messages("bad")
    assert (letter["value"], letter["error"]) == ('{"n":"six"}', "does not fit the schema")
    assert not pipes.is_closed("bad")


def test_windows_that_are_open_at_the_end_are_given_out(pipes: Pipes) -> None:
    """Two streams end at different times; no watermark of the one may drop what the other holds."""
    early = [{"at": f"2026-01-01T00:0{minute}:30Z", "n": minute} for minute in range(3)]
    late = [
        {"at": "2026-01-01T00:02:45Z", "n": 10},
        {"at": None, "n": 1},
        {"at": "9999-12-31T00:00:00Z", "n": 2},
    ]
    pipes.create("in/1", early).close()
    pipes.create("in/2", late).close()
    sql = "select window.start as at, sum(n) as n from input group by window(at, '1 minute')"
    derive(
        pipes.spark,
        pipes.source(),
        sql,
        pipes.output(),
        schema="at timestamp, n long",
        event_time="at",
        watermark="5 minutes",
        bad=pipes.bad(),
        pace=UNTIL_CLOSED,
        checkpoint=pipes.path("checkpoint"),
    )
    found = {message["at"][:16]: message["n"] for message in pipes.messages()}
    assert found == {"2026-01-01T00:00": 0, "2026-01-01T00:01": 1, "2026-01-01T00:02": 12}
    assert [letter["error"] for letter in pipes.messages("bad")] == ["no time in at"] * 2
    assert pipes.is_closed()


HOURLY = "select window.start as at, count(*) as n from input group by window(at, '1 hour')"


def day(number: int, count: int = 100) -> list[dict[str, str]]:
    """Events of one day, evenly spread."""
    minutes = [1440 * index // count for index in range(count)]
    return [{"at": f"2026-01-0{number}T{one // 60:02}:{one % 60:02}:00Z"} for one in minutes]


def test_whatever_the_streams_and_the_batches_every_row_is_counted(pipes: Pipes) -> None:
    count_backfills(pipes.spark, pipes.url, examples=2)


@pytest.mark.parametrize("action", ["dead-letter", "fail"])
def test_rows_that_are_late_all_the_same_are_counted_and_kept(pipes: Pipes, action: str) -> None:
    log = pipes.create("in/1", day(2, 24))
    job: dict[str, Any] = {
        "schema": "at timestamp",
        "event_time": "at",
        "watermark": "0 seconds",
        "bad": pipes.bad(action),
        "checkpoint": pipes.path("checkpoint"),
    }
    derive(pipes.spark, pipes.source(), HOURLY, pipes.output(), pace=ONCE, **job)
    log.append_all([*day(1, 5), *day(3, 24)])
    log.close()
    if action == "fail":
        with pytest.raises(PipelineError, match=r"5 records of batch .* came after their windows") as failed:
            derive(pipes.spark, pipes.source(), HOURLY, pipes.output(), pace=UNTIL_CLOSED, **job)
        assert failed.value.kind == "LateRecordError"
        return
    done = derive(pipes.spark, pipes.source(), HOURLY, pipes.output(), pace=UNTIL_CLOSED, **job)
    assert (sum(pipes.ns()), done.late_rows) == (48, 5)
    letters = pipes.messages("bad")
    assert [json.loads(one["value"]) for one in letters] == day(1, 5)
    assert all(one["error"].startswith("late: older than the watermark") for one in letters)


def test_a_function_may_name_each_rows_stream_and_what_no_stream_can_hold_is_a_dead_letter(
    pipes: Pipes,
) -> None:
    pipes.create("in/1", [*numbers(0, 4), {"other": 1}])

    def by_parity(rows: DataFrame) -> DataFrame:
        n = f.get_json_object("value", "$.n").cast("long")
        name = f.concat(f.lit(pipes.streams.name("parity/")), (n % 2).cast("string"))
        return rows.select(
            f.coalesce(name, f.lit(pipes.streams.name("none"))).alias("stream"),
            n.cast("string").alias("value"),
        )

    done = derive(
        pipes.spark,
        pipes.source(),
        by_parity,
        pipes.output(None),
        bad=pipes.bad(),
        pace=ONCE,
        checkpoint=pipes.path("checkpoint"),
    )
    assert done.dead_letters == 1
    assert (pipes.messages("parity/0"), pipes.messages("parity/1")) == ([0, 2], [1, 3])
    [letter] = pipes.messages("bad")
    assert (letter["stream"], letter["error"]) == (pipes.streams.name("none"), "has no value")


def test_a_bad_record_stops_the_query_where_that_is_asked(pipes: Pipes) -> None:
    pipes.create("in/1", [{"n": "x"}])
    with pytest.raises(PipelineError, match=r"in/1 before .*does not fit") as failed:
        derive(
            pipes.spark,
            pipes.source(),
            "select n from input",
            pipes.output(),
            schema="n long",
            bad=pipes.bad("fail"),
            pace=ONCE,
            checkpoint=pipes.path("checkpoint"),
        )
    assert failed.value.kind == "BadRecordError"
    assert pipes.messages() == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"transform": "select value from input", "short": "in/1"}, "would read what is written"),
        ({"transform": "select value from input", "event_time": "at"}, "needs a schema"),
        ({"transform": "select n from input", "schema": "n long", "event_time": "at"}, "not a column"),
        ({"transform": lambda rows: 7}, "gave int and not a table"),
        ({"transform": "select value, offset, 1 as more from input"}, "'more' would be lost"),
        ({"transform": "select value from input", "short": None}, "no column stream"),
    ],
)
def test_what_makes_no_sense_is_refused(pipes: Pipes, wrong: dict[str, Any], says: str) -> None:
    pipes.create("in/1", numbers(0, 1))
    given = dict(wrong)
    transform, short = given.pop("transform"), given.pop("short", "out")
    with pytest.raises(OptionError, match=says):
        derive(
            pipes.spark,
            pipes.source(),
            transform,
            pipes.output(short),
            checkpoint=pipes.path("checkpoint"),
            bad=pipes.bad(),
            **given,
        )
