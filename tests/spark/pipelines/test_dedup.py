"""dedup: each key once, whatever stream, batch or run its records come in."""

import random
from typing import Any

import pytest

from millstream.spark.options import OptionError
from millstream.spark.pipelines.inputs import Pace
from millstream.spark.pipelines.running import PipelineError, Progress
from millstream.spark.pipelines.stateful.dedup import dedup
from spark.pipelines.pipes import Pipes, numbers

ONCE, UNTIL_CLOSED = Pace(once=True), Pace(until_closed=True)


def run(pipes: Pipes, pace: Pace = ONCE, **job: Any) -> Progress:
    wanted: dict[str, Any] = {"key": ["n"], "schema": "n long", "bad": pipes.bad(), **job}
    source = wanted.pop("source", None) or pipes.source()
    return dedup(
        pipes.spark, source, pipes.output(), checkpoint=pipes.path("checkpoint"), pace=pace, **wanted
    )


def test_each_key_is_there_once_across_streams_batches_and_runs(pipes: Pipes) -> None:
    first, second = pipes.create("in/1", numbers(0, 30)), pipes.create("in/2", numbers(20, 50))
    small = pipes.source(maxRowsPerTrigger="25")
    begun = run(pipes, source=small)
    assert (begun.batches > 1, begun.rows, begun.duplicates) == (True, 60, 10)
    first.append_all([*numbers(10, 60), *numbers(55, 60), {"n": None}, "text"])
    first.close()
    second.close()
    ended = run(pipes, UNTIL_CLOSED, source=small)
    assert (ended.rows, ended.duplicates, ended.dead_letters) == (57, 45, 2)
    assert sorted(pipes.ns()) == list(range(60))
    assert pipes.is_closed()
    errors = {letter["value"]: letter["error"] for letter in pipes.messages("bad")}
    assert errors == {'{"n":null}': "has no key", '"text"': "not one JSON object"}


def test_the_first_record_of_a_key_is_kept_and_the_order_of_the_stream(pipes: Pipes) -> None:
    chance = random.Random(7)
    ns = [chance.randrange(40) for _ in range(200)]
    pipes.create("in/1", [{"n": n, "place": place} for place, n in enumerate(ns)])
    run(pipes)
    first = {}
    for place, n in enumerate(ns):
        first.setdefault(n, place)
    assert [(one["n"], one["place"]) for one in pipes.messages()] == list(first.items())


def test_a_key_is_any_expression_and_messages_stay_as_they_are(pipes: Pipes) -> None:
    pipes.create("in/1", [{"id": 1, "a": 1.0}, {"id": 1, "a": 2}, {"id": "2"}])
    run(pipes, key=["get_json_object(value, '$.id')", "stream"], schema=None)
    assert pipes.messages() == [{"id": 1, "a": 1.0}, {"id": "2"}]


def test_a_batch_that_is_repeated_changes_nothing(pipes: Pipes) -> None:
    """A crash after the write: Spark repeats the batch, with the state that it had before."""
    log = pipes.create("in/1", numbers(0, 10))
    run(pipes)
    log.append_all(numbers(5, 15))
    run(pipes)
    for name in ("1", ".1.crc"):
        (pipes.folder / "checkpoint" / "commits" / name).unlink()
    run(pipes)
    assert pipes.ns() == list(range(15))


def test_old_keys_are_forgotten_and_what_is_older_than_that_is_late(pipes: Pipes) -> None:
    def at(hour: int, n: int) -> dict[str, Any]:
        return {"n": n, "at": f"2026-01-01T{hour:02}:00:00Z"}

    log = pipes.create("in/1", [at(1, 1), at(1, 1), at(9, 2)])
    job = {"schema": "n long, at timestamp", "event_time": "at", "watermark": "2 hours"}
    run(pipes, **job)
    log.append_all([at(9, 2), at(10, 1), at(2, 3)])
    done = run(pipes, **job)
    assert [(one["n"], one["at"][11:13]) for one in pipes.messages()] == [(1, "01"), (2, "09"), (1, "10")]
    assert (done.duplicates, done.late_rows) == (1, 1)
    [letter] = pipes.messages("bad")
    assert letter["pipeline"] == "dedup"
    assert "their keys may have been forgotten" in letter["error"]


def test_a_record_without_a_key_stops_it_where_that_is_asked(pipes: Pipes) -> None:
    pipes.create("in/1", [{"n": 1}, {"n": None}])
    with pytest.raises(PipelineError, match=r"in/1 before .*: has no key: \{\"n\":null\}"):
        run(pipes, bad=pipes.bad("fail"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"key": ["m"]}, "key: 'm' is not an expression"),
        ({"key": ["n +"]}, "key: 'n \\+' is not an expression"),
        ({"key": []}, "key: is missing"),
        ({"key": ["value"], "schema": None, "event_time": "at"}, "event-time: needs a schema"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(pipes: Pipes, wrong: dict, says: str) -> None:
    pipes.create("in/1")
    with pytest.raises(OptionError, match=says):
        run(pipes, **wrong)
