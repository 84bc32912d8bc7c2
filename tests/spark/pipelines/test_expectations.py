"""Expectations: records that do not meet a rule are set aside or dropped, or stop it; they are counted."""

import json
from typing import Any

import pytest

from millstream.spark.options import OptionError
from millstream.spark.pipelines.archive import archive
from millstream.spark.pipelines.derive import derive
from millstream.spark.pipelines.inputs import Pace
from millstream.spark.pipelines.quality.rules import DROP, FAIL, Rule
from millstream.spark.pipelines.running import PipelineError, Progress
from spark.pipelines.pipes import Pipes, numbers

ONCE = Pace(once=True)
RULES = [Rule("small", "n < 8"), Rule("not-three", "n <> 3", DROP), Rule("not-nine", "n % 9 > 0 or n = 0")]
MESSAGES = [*numbers(0, 10), {"n": "text"}, {"n": None}]


def archived(pipes: Pipes, **job: Any) -> tuple[Progress, list[int]]:
    table = pipes.path("table")
    done = archive(pipes.spark, pipes.source(), table, bad=pipes.bad(), pace=ONCE, **job)
    return done, sorted(row.n for row in pipes.spark.read.parquet(table).collect())


def derived(pipes: Pipes, **job: Any) -> tuple[Progress, list[int]]:
    done = derive(
        pipes.spark,
        pipes.source(),
        "select n from input",
        pipes.output(),
        bad=pipes.bad(),
        pace=ONCE,
        checkpoint=pipes.path("checkpoint"),
        **job,
    )
    return done, sorted(pipes.ns())


@pytest.mark.parametrize("run", [archived, derived])
def test_records_that_meet_no_rule_are_set_aside_with_its_name_or_dropped(pipes: Pipes, run: Any) -> None:
    """A null condition is not met; of two rules the first is the reason, and both are counted."""
    pipes.create("in/1", MESSAGES)
    done, found = run(pipes, schema="n long", rules=RULES)
    assert found == [0, 1, 2, 4, 5, 6, 7]
    assert done.expectations == {"small": 3, "not-three": 2, "not-nine": 2}, "null meets none of them"
    assert (done.rows, done.dead_letters) == (12, 4)
    letters = [(json.loads(one["value"])["n"], one["error"]) for one in pipes.messages("bad")]
    assert sorted(letters, key=str) == sorted(
        [
            (8, "does not meet small"),
            (9, "does not meet small"),
            (None, "does not meet small"),
            ("text", "does not fit the schema"),
        ],
        key=str,
    )


@pytest.mark.parametrize("run", [archived, derived])
def test_a_record_can_stop_the_pipeline(pipes: Pipes, run: Any) -> None:
    pipes.create("in/1", numbers(0, 10))
    says = r"in/1 before .*: does not meet small: \{\"n\":8\}"
    with pytest.raises(PipelineError, match=says) as failed:
        run(pipes, schema="n long", rules=[Rule("small", "n < 8", FAIL)])
    assert failed.value.kind == "ExpectationError"


def test_rules_about_messages_need_no_schema(pipes: Pipes) -> None:
    pipes.create("in/1", ["short", "much longer"])
    table = pipes.path("table")
    rules = [Rule("short", "length(value) < 10")]
    done = archive(pipes.spark, pipes.source(), table, rules=rules, bad=pipes.bad(), pace=ONCE)
    found = pipes.spark.read.parquet(table)
    assert set(found.columns) == {"stream", "offset", "value", "date"}
    assert [row.value for row in found.collect()] == ['"short"']
    assert [one["value"] for one in pipes.messages("bad")] == ['"much longer"']
    assert (done.expectations, done.dead_letters) == ({"short": 1}, 1)


def test_what_is_set_aside_stops_it_where_bad_records_do(pipes: Pipes) -> None:
    pipes.create("in/1", numbers(0, 10))
    with pytest.raises(PipelineError, match="does not meet small") as failed:
        derive(
            pipes.spark,
            pipes.source(),
            "select n from input",
            pipes.output(),
            schema="n long",
            rules=[Rule("small", "n < 8")],
            bad=pipes.bad("fail"),
            pace=ONCE,
            checkpoint=pipes.path("checkpoint"),
        )
    assert failed.value.kind == "BadRecordError"


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("n <", "wrong: 'n <' is not SQL"),
        ("m > 0", "wrong: 'm > 0' is not a condition for these records.*`m`"),
        ("n + 1", "wrong: 'n \\+ 1' is not a condition"),
        ("count(*) > 1", "wrong: .* is not a condition"),
    ],
)
def test_a_condition_that_spark_refuses_is_named_before_anything_is_read(
    pipes: Pipes, condition: str, says: str
) -> None:
    pipes.create("in/1", numbers(0, 10))
    with pytest.raises(OptionError, match=says):
        archived(pipes, schema="n long", rules=[Rule("wrong", condition)])
