"""replay: every row of a table is in its stream once."""

import os

import pytest

from millstream.spark.options import OptionError
from millstream.spark.pipelines.archive import archive
from millstream.spark.pipelines.inputs import Pace
from millstream.spark.pipelines.replay import TableInput, replay
from spark.pipelines.pipes import Pipes, numbers

ONCE = Pace(once=True)


def test_files_are_replayed_once_in_order_and_new_ones_follow(pipes: Pipes) -> None:
    path = pipes.path("table")
    rows = pipes.spark.range(0, 300, 1, 3).withColumnRenamed("id", "n")
    rows.orderBy("n", ascending=False).write.parquet(path)
    table = TableInput(path=path, order_by=["n"])
    job = {"checkpoint": pipes.path("checkpoint"), "bad": pipes.bad()}
    assert replay(pipes.spark, table, pipes.output(), **job).rows == 300
    assert pipes.ns() == list(range(300))
    pipes.spark.range(300, 310, 1, 1).withColumnRenamed("id", "n").write.mode("append").parquet(path)
    assert replay(pipes.spark, table, pipes.output(), closes=True, **job).rows == 10
    assert pipes.ns() == list(range(310))
    assert pipes.is_closed()


def test_a_batch_that_is_repeated_changes_nothing(pipes: Pipes) -> None:
    """A crash after the write: Spark repeats the batch; one file is one batch."""
    folder = pipes.folder / "table"
    folder.mkdir()
    for number in range(3):
        rows = "".join(f'{{"n": {n}}}\n' for n in range(number * 50, number * 50 + 50))
        (folder / f"{number}.json").write_text(rows)
        os.utime(folder / f"{number}.json", (1_700_000_000 + number, 1_700_000_000 + number))
    table = TableInput(
        format="json",
        path=str(folder),
        schema="n long",
        order_by=["n"],
        options={"maxFilesPerTrigger": "1"},
    )
    job = {"checkpoint": pipes.path("checkpoint"), "bad": pipes.bad()}
    assert replay(pipes.spark, table, pipes.output(), **job).batches == 3
    for name in ("2", ".2.crc"):
        (pipes.folder / "checkpoint" / "commits" / name).unlink()
    assert replay(pipes.spark, table, pipes.output(), **job).batches == 1
    assert pipes.ns() == list(range(150))


def test_lines_that_are_no_rows_are_dead_letters(pipes: Pipes) -> None:
    (pipes.folder / "rows.json").write_text(
        '{"n": 1, "to": "a"}\n{"n": "x", "to": "a"}\nnonsense\n{"n": 2}\n'
    )
    folder = pipes.streams.name("by/")
    table = TableInput(
        format="json",
        path=pipes.path("rows.json"),
        schema="n long, to string",
        columns=["n"],
        stream_by=f"'{folder}' || to",
    )
    done = replay(
        pipes.spark, table, pipes.output(None), checkpoint=pipes.path("checkpoint"), bad=pipes.bad()
    )
    assert (done.rows, done.dead_letters) == (4, 3)
    assert pipes.messages("by/a") == [{"n": 1}]
    letters = {letter["value"]: letter["error"] for letter in pipes.messages("bad")}
    assert letters == {
        '{"n": "x", "to": "a"}': "does not fit the schema",
        "nonsense": "does not fit the schema",
        '{"n":2}': "names no stream",
    }


def test_an_archive_becomes_the_streams_it_was(pipes: Pipes) -> None:
    """Its files are rewritten by compaction, so a replay takes it whole, and once."""
    read = pipes.create("in/1", numbers(0, 20))
    archive(pipes.spark, pipes.source(), pipes.path("table"), pace=ONCE)
    table = TableInput(
        path=pipes.path("table"), columns=["value"], order_by=["offset"], stream_by="stream || '-again'"
    )
    job = {"checkpoint": pipes.path("checkpoint"), "bad": pipes.bad()}
    replay(pipes.spark, table, pipes.output(None), **job)
    assert pipes.messages("in/1-again") == numbers(0, 20)
    replay(pipes.spark, table, pipes.output(None), **job)
    assert pipes.messages("in/1-again") == numbers(0, 20)
    assert read.head().offset == pipes.handle("in/1-again").head().offset, "byte for byte"


@pytest.mark.parametrize(
    ("table", "more", "says"),
    [
        (TableInput(format="csv"), {}, "say where the csv files are"),
        (TableInput(path="/nowhere"), {"pace": Pace(until_closed=True)}, "is for streams"),
        (TableInput(path="/nowhere"), {"pace": Pace(every="1 second"), "closes": True}, "needs an end"),
    ],
)
def test_what_makes_no_sense_is_refused(pipes: Pipes, table: TableInput, more: dict, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        replay(
            pipes.spark, table, pipes.output(), checkpoint=pipes.path("checkpoint"), bad=pipes.bad(), **more
        )
