"""archive to Parquet, Delta and Iceberg: every record once, in tables that other programs read."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from millstream.spark.options import OptionError
from millstream.spark.pipelines.archive import archive
from millstream.spark.pipelines.inputs import Pace
from millstream.spark.pipelines.running import PipelineError
from millstream.spark.tables.formats import ArchiveError
from spark.pipelines.lakehouse import PROGRAMS, numbers_read_by
from spark.pipelines.pipes import Pipes, numbers

ONCE = Pace(once=True)
FORMATS = ["parquet", "delta", "iceberg"]
LAKEHOUSE = ["delta", "iceberg"]


def forget_last_batch(checkpoint: Path) -> None:
    """Set a checkpoint back to the moment before Spark recorded its last batch as done, as a crash does."""
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("kind", FORMATS)
def test_other_programs_read_every_row_also_after_a_compaction(pipes: Pipes, kind: str) -> None:
    log = pipes.create("in/1", numbers(0, 20))
    table, source = pipes.path("table"), pipes.source(maxRowsPerTrigger="10")
    job: dict[str, Any] = {"schema": "n long", "format": kind, "pace": ONCE}
    archive(pipes.spark, source, table, compact_files=0, **job)
    for program in PROGRAMS:
        assert numbers_read_by(program, kind, table) == list(range(20)), program
    before = len(data_files(kind, table))
    log.append_all(numbers(20, 40))
    archive(pipes.spark, source, table, compact_files=2, **job)
    assert len(data_files(kind, table)) < before, "small files were merged"
    for program in PROGRAMS:
        assert numbers_read_by(program, kind, table) == list(range(40)), program


def data_files(kind: str, table: str) -> list[str]:
    """List the files that a table consists of now."""
    if kind == "delta":
        return DeltaTable(table).file_uris()
    if kind == "iceberg":
        return [task.file.file_path for task in StaticTable.from_metadata(table).scan().plan_files()]
    return sorted(map(str, Path(table).glob("**/*.parquet")))


@pytest.mark.parametrize("kind", LAKEHOUSE)
def test_a_crash_before_or_after_the_commit_neither_loses_nor_doubles(
    pipes: Pipes, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = pipes.create("in/1", numbers(0, 10))
    table, source = pipes.path("table"), pipes.source()
    job: dict[str, Any] = {"schema": "n long", "format": kind, "pace": ONCE}
    archive(pipes.spark, source, table, **job)
    hint = Path(table) / "metadata" / "version-hint.text"
    hinted = hint.read_text() if hint.exists() else None
    log.append_all(numbers(10, 20))
    with monkeypatch.context() as patched:
        for place in ("delta.DeltaArchive", "iceberg.IcebergArchive"):
            patched.setattr(f"millstream.spark.tables.{place}.commit", crash)
        with pytest.raises(PipelineError, match="on purpose"):
            archive(pipes.spark, source, table, **job)
    left = [path for path in Path(table).glob("data/000000001-*/**/*.parquet") if path.is_file()]
    assert left, "written, and not committed"
    assert numbers_read_by("pyarrow", kind, table) == list(range(10))

    archive(pipes.spark, source, table, **job)
    assert not any(path.exists() for path in left)
    assert numbers_read_by("pyarrow", kind, table) == list(range(20))

    forget_last_batch(pipes.folder / "table" / "_checkpoint")
    if hinted is not None:
        hint.write_text(hinted)  # an Iceberg table's version is its commit; the hint comes after it
    archive(pipes.spark, source, table, **job)
    log.append_all(numbers(20, 30))
    archive(pipes.spark, source, table, **job)
    assert numbers_read_by("pandas", kind, table) == list(range(30))


def crash(*_: Any) -> None:
    raise RuntimeError("crashed on purpose")


@pytest.mark.parametrize("kind", LAKEHOUSE)
def test_a_table_keeps_its_columns_and_takes_new_ones(pipes: Pipes, kind: str) -> None:
    log = pipes.create("in/1", [{"n": 1, "name": "a"}])
    table, source = pipes.path("table"), pipes.source()
    job: dict[str, Any] = {"format": kind, "pace": ONCE}
    archive(pipes.spark, source, table, schema="n long, name string", **job)
    log.append({"n": 2, "name": "b", "extra": {"x": 1.5}})
    archive(pipes.spark, source, table, schema="n long, extra struct<x: double>", **job)
    rows = {row["n"]: row for row in rows_of(kind, table)}
    assert [(rows[n]["name"], rows[n]["extra"]) for n in (1, 2)] == [("a", None), (None, {"x": 1.5})]
    with pytest.raises(ArchiveError, match=r"column n of .* is bigint, not string"):
        archive(pipes.spark, source, table, schema="n string", **job)
    with pytest.raises(ArchiveError, match="is partitioned by date"):
        archive(pipes.spark, source, table, schema="n long", partition_by=["stream"], **job)
    with pytest.raises(ArchiveError, match=f"is a table of the format {kind}, not parquet"):
        archive(pipes.spark, source, table, schema="n long", pace=ONCE)
    with pytest.raises(PipelineError, match="another checkpoint"):
        archive(pipes.spark, source, table, schema="n long", checkpoint=pipes.path("other"), **job)


def rows_of(kind: str, table: str) -> list[dict[str, Any]]:
    if kind == "delta":
        return DeltaTable(table).to_pyarrow_table().to_pylist()
    return StaticTable.from_metadata(table).scan().to_arrow().to_pylist()


@pytest.mark.parametrize("kind", LAKEHOUSE)
def test_bad_records_are_dead_letters_and_partitions_are_by_event_time(pipes: Pipes, kind: str) -> None:
    days = ["2026-11-01", "2026-11-02", "2026-11-02"]
    good = [{"n": n, "at": f"{day}T23:59:59.5Z"} for n, day in enumerate(days)]
    pipes.create("in/a b%c", [*good, {"n": "x", "at": days[0]}, {"n": 9}])
    table = pipes.path("table")
    done = archive(
        pipes.spark,
        pipes.source(),
        table,
        format=kind,
        schema="n long, at timestamp",
        event_time="at",
        partition_by=["stream", "date"],
        bad=pipes.bad(),
        pace=ONCE,
    )
    assert (done.rows, done.dead_letters) == (5, 2)
    rows = sorted(rows_of(kind, table), key=lambda row: row["n"])
    assert [row["date"].isoformat() for row in rows] == days
    assert {row["stream"] for row in rows} == {pipes.streams.name("in/a b%c")}
    assert rows[0]["at"] == datetime.datetime(2026, 11, 1, 23, 59, 59, 500_000, datetime.UTC)
    assert len(data_files(kind, table)) == 2, "one for each day"
    errors = sorted(letter["error"] for letter in pipes.messages("bad"))
    assert errors == ["does not fit the schema", "no time in at"]


ALL_TYPES = (
    "b boolean, y byte, s short, i int, n long, f float, d double, p decimal(20,3), t string, x binary, "
    "day date, at timestamp, local timestamp_ntz, l array<short>, m map<string, int>, "
    "o struct<a: byte, b: date>"
)


@pytest.mark.parametrize("kind", LAKEHOUSE)
def test_every_type_comes_through_and_a_second_run_finds_them_unchanged(pipes: Pipes, kind: str) -> None:
    message = json.loads(
        '{"b":true,"y":1,"s":-2,"i":3,"n":1152921504606846976,"f":0.5,"d":0.1,"p":12.345,"t":"ä","x":"AAE=",'
        '"day":"2026-11-18","at":"2026-11-18T12:00:00.000001Z","local":"2026-11-18T12:00:00","l":[1,null],'
        '"m":{"k":7},"o":{"a":1,"b":"2026-01-01"}}'
    )
    log = pipes.create("in/1", [message])
    table, source = pipes.path("table"), pipes.source()
    job: dict[str, Any] = {"schema": ALL_TYPES, "format": kind, "pace": ONCE, "partition_by": []}
    archive(pipes.spark, source, table, bad=pipes.bad(), **job)
    log.append(message)
    archive(pipes.spark, source, table, bad=pipes.bad(), **job)
    rows = rows_of(kind, table)
    assert len(rows) == 2
    for row in rows:
        assert (row["b"], row["y"], row["s"], row["i"], row["n"]) == (True, 1, -2, 3, 2**60)
        assert (row["f"], row["d"], row["p"], row["t"]) == (0.5, 0.1, Decimal("12.345"), "ä")
        assert (row["x"], row["day"]) == (b"\0\1", datetime.date(2026, 11, 18))
        assert row["at"] == datetime.datetime(2026, 11, 18, 12, 0, 0, 1, datetime.UTC)
        assert row["local"] == datetime.datetime(2026, 11, 18, 12)
        assert (row["l"], dict(row["m"])) == ([1, None], {"k": 7})
        assert row["o"] == {"a": 1, "b": datetime.date(2026, 1, 1)}


def test_a_table_of_someone_else_is_left_alone(pipes: Pipes) -> None:
    import pyarrow
    from deltalake import write_deltalake

    write_deltalake(pipes.path("table"), pyarrow.table({"n": [1]}))
    pipes.create("in/1", numbers(0, 1))
    with pytest.raises(ArchiveError, match="was not made by archive"):
        archive(pipes.spark, pipes.source(), pipes.path("table"), format="delta", schema="n long", pace=ONCE)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"format": "hudi"}, "'hudi' is not one of parquet, delta, iceberg"),
        ({"event_time": "at"}, "needs a schema"),
        ({"schema": "n long", "event_time": "at"}, "names 'at', which is not a column"),
        ({"format": "iceberg", "schema": "v interval day"}, "which Iceberg tables do not have"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(
    pipes: Pipes, wrong: dict[str, Any], says: str
) -> None:
    pipes.create("in/1")
    with pytest.raises(OptionError, match=says):
        archive(pipes.spark, pipes.source(), pipes.path("table"), **wrong)
