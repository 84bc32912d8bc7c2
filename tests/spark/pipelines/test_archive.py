"""archive: every record is in the table once, or is a dead letter."""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from millstream.spark.options import OptionError
from millstream.spark.pipelines.archive import ArchiveError, archive, read_table
from millstream.spark.pipelines.inputs import Pace
from millstream.spark.pipelines.running import PipelineError
from millstream.spark.tables.parquet_files import Commit, Table
from spark.pipelines.pipes import Pipes, numbers

ONCE = Pace(once=True)


def ns(frame: DataFrame) -> list[int]:
    return sorted(row.n for row in frame.select("n").collect())


def test_runs_add_what_is_new_until_the_streams_have_ended(pipes: Pipes) -> None:
    first, second = pipes.create("in/1", numbers(0, 50)), pipes.create("in/2", numbers(50, 60))
    table = pipes.path("table")
    begun = archive(pipes.spark, pipes.source(), table, pace=ONCE)
    assert (begun.rows, begun.dead_letters, begun.lag_bytes) == (60, 0, 0)
    first.append_all(numbers(60, 70))
    first.close()
    second.close()
    ended = archive(pipes.spark, pipes.source(), table, pace=Pace(until_closed=True))
    assert ended.rows == 10
    found = pipes.spark.read.parquet(table)
    assert set(found.columns) == {"stream", "offset", "value", "date"}
    assert sorted(json.loads(row.value)["n"] for row in found.collect()) == list(range(70))
    assert {row.stream for row in found.select("stream").distinct().collect()} == {
        pipes.streams.name("in/1"),
        pipes.streams.name("in/2"),
    }


def test_records_that_do_not_fit_the_schema_are_dead_letters_and_all_others_are_rows(pipes: Pipes) -> None:
    bad = ["text", 7, [{"n": 1}, {"n": 2}], {"n": "no number"}, {"n": 2**70}, None]
    pipes.create("in/1", [*numbers(0, 5), *bad, {"other": 1}, *numbers(5, 9)])
    pipes.create("in/2", ['{"n": 9}\n{"n": 10}\n'], "text/plain")
    table = pipes.path("table")
    done = archive(
        pipes.spark,
        pipes.source(),
        table,
        schema="n long",
        partition_by=["stream"],
        bad=pipes.bad(),
        pace=ONCE,
    )
    assert (done.rows, done.dead_letters) == (17, 8)
    rows = pipes.spark.read.parquet(table).select("n").collect()
    assert sorted(row.n for row in rows) == list(range(9))
    letters = pipes.messages("bad")
    assert {letter["pipeline"] for letter in letters} == {"archive"}
    values = [letter["value"] for letter in letters if letter["stream"].endswith("in/1")]
    assert sorted(map(json.loads, values), key=str) == sorted([*bad, {"other": 1}], key=str)
    [text] = [letter for letter in letters if letter["stream"].endswith("in/2")]
    assert text["value"] == '{"n": 9}\n{"n": 10}\n'


def test_a_bad_record_stops_the_archive_where_that_is_asked(pipes: Pipes) -> None:
    pipes.create("in/1", [{"n": 1}, {"n": "x"}])
    with pytest.raises(PipelineError, match=r"in/1 before .*does not fit the schema.*x") as failed:
        archive(
            pipes.spark,
            pipes.source(),
            pipes.path("table"),
            schema="n int",
            bad=pipes.bad("fail"),
            pace=ONCE,
        )
    assert failed.value.kind == "BadRecordError"
    assert Table(pipes.path("table")).snapshot() == []


def test_small_files_become_one(pipes: Pipes) -> None:
    pipes.create("in/1", numbers(0, 40))
    table, source = pipes.path("table"), pipes.source(maxRowsPerTrigger="10")
    archive(pipes.spark, source, table, schema="n long", pace=ONCE, compact_files=3)
    assert [file.path.partition("/")[2] for file in Table(table).files()] == [
        "000000002-c0-0000.parquet",
        "000000003-0000.parquet",
    ]
    assert ns(read_table(pipes.spark, table)) == list(range(40))


def test_a_batch_that_was_committed_and_not_moved_is_finished_and_not_repeated(pipes: Pipes) -> None:
    """A crash after the commit: the table is put back to that moment, and Spark repeats the batch."""
    written = pipes.create("in/1", numbers(0, 10))
    table, source = pipes.path("table"), pipes.source()
    archive(pipes.spark, source, table, schema="n long", pace=ONCE)
    written.append_all(numbers(10, 20))
    archive(pipes.spark, source, table, schema="n long", pace=ONCE)
    found = Table(table)
    last = found.last_commit()
    assert last is not None
    [(staged, target)] = last.adds
    (pipes.folder / ".table.staged" / staged).parent.mkdir(parents=True, exist_ok=True)
    (pipes.folder / "table" / target).rename(pipes.folder / ".table.staged" / staged)
    (pipes.folder / "table" / "_checkpoint" / "commits" / "1").unlink()
    (pipes.folder / "table" / "_checkpoint" / "commits" / ".1.crc").unlink()
    assert ns(read_table(pipes.spark, table)) == list(range(10)), "a batch is seen whole or not at all"
    archive(pipes.spark, source, table, schema="n long", pace=ONCE)
    assert ns(pipes.spark.read.parquet(table)) == list(range(20))


def test_files_that_were_never_committed_are_not_part_of_the_table(pipes: Pipes) -> None:
    pipes.create("in/1", numbers(0, 10))
    table = pipes.folder / "table"
    left = pipes.folder / ".table.staged" / "0" / "date=2020-01-01"
    left.mkdir(parents=True)
    (left / "part-0.parquet").write_bytes(b"half of a file")
    archive(pipes.spark, pipes.source(), str(table), schema="n long", pace=ONCE)
    assert ns(pipes.spark.read.parquet(str(table))) == list(range(10))
    assert not left.exists()


def test_another_checkpoint_is_refused_for_it_would_double_or_lose(pipes: Pipes) -> None:
    pipes.create("in/1", numbers(0, 10))
    table, source = pipes.path("table"), pipes.source()
    archive(pipes.spark, source, table, pace=ONCE)
    with pytest.raises(PipelineError, match="another checkpoint") as failed:
        archive(pipes.spark, source, table, pace=ONCE, checkpoint=pipes.path("other"))
    assert failed.value.kind == ArchiveError.__name__


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"schema": "n wrong type"}, "schema"),
        ({"schema": "stream string"}, "which every record has"),
        ({"partition_by": ["nowhere"]}, "there are stream, offset, value, date"),
        ({"pace": Pace(once=True, every="1 second")}, "two things at once"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(pipes: Pipes, wrong: dict, says: str) -> None:
    pipes.create("in/1")
    with pytest.raises(OptionError, match=says):
        archive(pipes.spark, pipes.source(), pipes.path("table"), **wrong)


def test_a_change_of_a_table_is_seen_whole_or_not_at_all(pipes: Pipes) -> None:
    root = pipes.folder / "table"
    for name in ("a.parquet", "b.parquet"):
        (root / "date=1").mkdir(parents=True, exist_ok=True)
        (root / "date=1" / name).write_bytes(b"")
    table = Table(str(root))
    staged = root / "_archive" / "staged" / "c.parquet"  # where former versions staged
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"")
    commit = Commit(
        "q", 0, [("_archive/staged/c.parquet", "date=1/c.parquet")], ["date=1/a.parquet", "date=1/b.parquet"]
    )
    (root / "_archive" / "commit.json").write_text(
        json.dumps({"query": "q", "batch": 0, "adds": commit.adds, "removes": commit.removes})
    )
    assert [file.path for file in table.snapshot()] == ["date=1/a.parquet", "date=1/b.parquet"]
    staged.rename(root / "date=1" / "c.parquet")
    assert [file.path for file in table.snapshot()] == ["date=1/c.parquet"]
    table.finish(commit)
    table.finish(commit)
    assert [file.path for file in table.files()] == ["date=1/c.parquet"]


def test_a_table_keeps_its_columns_and_takes_new_ones(pipes: Pipes) -> None:
    log = pipes.create("in/1", [{"n": 1, "name": "a"}])
    table, source = pipes.path("table"), pipes.source()
    archive(pipes.spark, source, table, schema="n long, name string", pace=ONCE)
    log.append({"n": 2, "name": "b", "extra": 1.5})
    archive(pipes.spark, source, table, schema="n long, extra double", pace=ONCE)
    rows = read_table(pipes.spark, table).orderBy("n").collect()
    assert [(row.n, row.name, row.extra) for row in rows] == [(1, "a", None), (2, None, 1.5)]
    merged = pipes.spark.read.option("mergeSchema", True).parquet(table)
    assert {"n", "name", "extra"} <= set(merged.columns)
    with pytest.raises(ArchiveError, match=r"column n of .* is bigint, not string"):
        archive(pipes.spark, source, table, schema="n string", pace=ONCE)
    with pytest.raises(ArchiveError, match="is partitioned by date"):
        archive(pipes.spark, source, table, schema="n long", partition_by=["stream"], pace=ONCE)
    log.append_all([{"n": n, "name": "c"} for n in range(3, 6)])
    archive(pipes.spark, source, table, schema="n long, name string", pace=ONCE, compact_files=2)
    assert len(Table(table).files()) == 1
    assert ns(read_table(pipes.spark, table)) == [1, 2, 3, 4, 5]


def test_what_has_no_value_where_one_must_be_is_a_dead_letter(pipes: Pipes) -> None:
    bad = [{"n": None, "name": "x"}, {"name": "y"}, {"nothing": 1}, {}]
    pipes.create("in/1", [{"n": 1}, {"n": 2, "name": None}, *bad])
    table = pipes.path("table")
    done = archive(
        pipes.spark,
        pipes.source(),
        table,
        schema="n long NOT NULL, name string",
        bad=pipes.bad(),
        pace=ONCE,
    )
    assert (done.rows, done.dead_letters) == (6, 4)
    assert ns(read_table(pipes.spark, table)) == [1, 2]
    reasons = [letter["error"] for letter in pipes.messages("bad")]
    assert sorted(reasons) == ["has no n"] * 2 + ["has none of the schema's columns"] * 2


def test_what_a_reader_has_opened_stays_there_while_files_are_merged(pipes: Pipes) -> None:
    log = pipes.create("in/1", numbers(0, 10))
    table, source = pipes.path("table"), pipes.source()
    for first in (10, 20):
        archive(pipes.spark, source, table, schema="n long", pace=ONCE, compact_files=0)
        log.append_all(numbers(first, first + 10))
    opened = read_table(pipes.spark, table)
    archive(pipes.spark, source, table, schema="n long", pace=ONCE, compact_files=2)
    assert len(Table(table).files()) == 1
    assert ns(opened) == list(range(20))
    assert ns(read_table(pipes.spark, table)) == list(range(30))


def test_only_what_is_committed_is_below_the_table(pipes: Pipes) -> None:
    """DuckDB finds every file that `**/*.parquet` matches, also below names that begin with an underscore."""
    pipes.create("in/1", numbers(0, 10))
    table = pipes.folder / "table"
    archive(pipes.spark, pipes.source(), str(table), schema="n long", pace=ONCE)
    left = Path(Table(str(table)).staged_path("7")) / "date=1" / "part-0.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half of a file")
    committed = [str(table / file.path) for file in Table(str(table)).files()]
    assert sorted(map(str, table.glob("**/*.parquet"))) == committed
