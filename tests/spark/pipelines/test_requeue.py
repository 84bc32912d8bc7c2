"""requeue: dead letters come back to their streams, once, as they are or repaired."""

import shutil
from typing import Any

import pytest

from millstream.spark.options import OptionError
from millstream.spark.pipelines.inputs import Input
from millstream.spark.pipelines.quality.requeue import Requeued, requeue
from millstream.spark.pipelines.records import BadRecords
from millstream.spark.pipelines.running import PipelineError, Progress
from spark.pipelines.pipes import Pipes


def run(pipes: Pipes, letters: str = "letters", checkpoint: str = "checkpoint", **job: Any) -> Progress:
    source = Input(url=pipes.url, streams=pipes.streams.name(letters))
    wanted = {"bad": BadRecords(stream=pipes.streams.name("again")), **job}
    return requeue(pipes.spark, source, checkpoint=pipes.path(checkpoint), **wanted)


def letter(pipes: Pipes, short: str | None, value: str | None, error: str = "wrong") -> dict[str, Any]:
    stream = None if short is None else pipes.streams.name(short)
    return {"stream": stream, "offset": "0_1", "value": value, "error": error, "pipeline": "archive"}


def test_letters_come_back_once_whatever_checkpoint_is_used(pipes: Pipes) -> None:
    """The stamps of a batch depend on the letters only."""
    pipes.create("in/1", [{"n": 0}])
    pipes.create("notes", content_type="text/plain")
    sent = [letter(pipes, "in/1", f'{{"n":{n}}}') for n in range(1, 4)]
    letters = pipes.create("letters", [*sent, letter(pipes, "notes", "not JSON, and needs not be")])
    assert run(pipes).rows == 4
    assert run(pipes).rows == 0, "the checkpoint knows"
    shutil.rmtree(pipes.path("checkpoint"))
    assert run(pipes).rows == 4
    assert pipes.ns("in/1") == [0, 1, 2, 3], "the stream knows, too"
    letters.append_all([letter(pipes, "in/1", '{"n":4}')])
    run(pipes)
    assert pipes.ns("in/1") == [0, 1, 2, 3, 4]
    with pytest.raises(PipelineError, match="its checkpoint was set back"):
        run(pipes, checkpoint="another")
    assert pipes.ns("in/1") == [0, 1, 2, 3, 4]


def test_letters_are_repaired_or_left_out_and_what_is_still_wrong_is_kept(pipes: Pipes) -> None:
    pipes.create("in/1")
    pipes.create(
        "letters",
        [
            letter(pipes, "in/1", '{"n":"7"}', "does not fit the schema"),
            letter(pipes, "in/1", "not JSON", "does not fit the schema"),
            letter(pipes, None, '{"n":1}', "does not fit the schema"),
            letter(pipes, "in/1", '{"n":9}', "late: older than the watermark"),
            {"other": 1},
        ],
    )
    sql = """select stream, replace(value, '"7"', '7') as value from input
             where error is null or error not like 'late%'"""
    dry: list[Requeued] = []
    tried = run(pipes, repair=sql, on_dry_run=dry.append)
    assert pipes.messages("in/1") == []
    assert sorted((one.value, one.error) for one in dry) == [
        ("not JSON", "is not JSON"),
        ('{"n":1}', "names no stream"),
        ('{"n":7}', None),
        ('{"other":1}', "names no stream"),
    ]
    done = run(pipes, repair=sql)
    assert (tried.rows, tried.dead_letters) == (done.rows, done.dead_letters) == (5, 3)
    assert pipes.messages("in/1") == [{"n": 7}]
    kept = {one["value"]: (one["error"], one["pipeline"]) for one in pipes.messages("again")}
    assert kept == {
        "not JSON": ("is not JSON", "requeue"),
        '{"n":1}': ("names no stream", "requeue"),
        '{"other":1}': ("names no stream", "requeue"),
    }
    dry.clear()
    run(pipes, repair=sql, on_dry_run=dry.append)
    assert dry == [], "a dry run begins where the next run does"


def test_another_name_requeues_the_same_letters_again(pipes: Pipes) -> None:
    pipes.create("in/1")
    pipes.create("letters", [letter(pipes, "in/1", '{"n":1}')])
    run(pipes)
    run(
        pipes,
        checkpoint="second",
        name="second",
        repair=lambda rows: rows.withColumn("value", rows["offset"].substr(3, 1)),
    )
    assert pipes.messages("in/1") == [{"n": 1}, 1]


def test_a_stream_that_is_gone_stops_it(pipes: Pipes) -> None:
    pipes.create("letters", [letter(pipes, "gone", "1")])
    with pytest.raises(PipelineError, match="no such stream"):
        run(pipes)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"letters": "in/*"}, "is not one stream"),
        ({"letters": "a,b"}, "is not one stream"),
        ({"repair": "select value from input"}, "gave no column stream"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(pipes: Pipes, wrong: dict, says: str) -> None:
    pipes.create("letters")
    with pytest.raises(OptionError, match=says):
        run(pipes, **wrong)


def test_letters_are_not_written_to_the_stream_that_is_read(pipes: Pipes) -> None:
    with pytest.raises(OptionError, match="would read what is written"):
        run(pipes, bad=BadRecords(stream=pipes.streams.name("letters")))
