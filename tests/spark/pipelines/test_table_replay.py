"""replay of Delta and Iceberg tables: each row once, of the versions that the checkpoint has."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from millstream.spark.options import OptionError
from millstream.spark.pipelines.archive import archive
from millstream.spark.pipelines.inputs import Pace
from millstream.spark.pipelines.replay import TableInput, replay
from millstream.spark.pipelines.running import PipelineError, Progress
from millstream.spark.tables.iceberg_folder import FolderCatalog
from spark.pipelines.pipes import Pipes, numbers

ONCE = Pace(once=True)
LAKEHOUSE = ["delta", "iceberg"]


def replayed(pipes: Pipes, kind: str, **more: Any) -> Progress:
    table = TableInput(format=kind, path=pipes.path("table"), order_by=["n"], columns=["n"], **more)
    job = {"checkpoint": pipes.path("checkpoint"), "bad": pipes.bad()}
    return replay(pipes.spark, table, pipes.output(), **job)


@pytest.mark.parametrize("kind", LAKEHOUSE)
def test_a_table_is_replayed_once_and_what_it_gains_follows(pipes: Pipes, kind: str) -> None:
    """Also when its small files were merged meanwhile, and a crash repeats a batch."""
    log = pipes.create("in/a b%c", numbers(0, 40))
    job: dict[str, Any] = {"schema": "n long", "format": kind, "pace": ONCE}
    table, source = pipes.path("table"), pipes.source(maxRowsPerTrigger="10")
    archive(pipes.spark, source, table, partition_by=["stream", "date"], compact_files=0, **job)
    assert replayed(pipes, kind, options={"maxFilesPerTrigger": "3"}).rows == 40
    assert pipes.ns() == list(range(40))
    assert replayed(pipes, kind).rows == 0

    log.append_all(numbers(40, 60))
    archive(pipes.spark, source, table, partition_by=["stream", "date"], compact_files=2, **job)
    assert replayed(pipes, kind).rows == 20
    assert pipes.ns() == list(range(60))

    commits = Path(pipes.path("checkpoint")) / "commits"
    for file in (*commits.glob("2"), *commits.glob(".2.crc")):
        file.unlink()
    replayed(pipes, kind)
    assert pipes.ns() == list(range(60)), "a batch that comes again is the same, and is there already"


def test_the_version_is_fixed_where_a_replay_was_interrupted(pipes: Pipes, monkeypatch: Any) -> None:
    table = pipes.path("table")
    for n in range(6):
        write_deltalake(table, pyarrow.table({"n": [n]}), mode="append")
    options = {"maxFilesPerTrigger": "2", "version": "3"}
    assert replayed(pipes, "delta", options=options).rows == 6
    assert sorted(pipes.ns()) == list(range(6))
    offsets = sorted((Path(pipes.path("checkpoint")) / "offsets").glob("[0-9]*"))
    last = json.loads(offsets[-1].read_text().splitlines()[2])
    assert (last["base"], last["version"], last["files"]) == ("3", "5", 1)


def overwrite(kind: str, table: str) -> None:
    if kind == "delta":
        write_deltalake(table, pyarrow.table({"n": [7]}), mode="overwrite", schema_mode="overwrite")
    else:
        FolderCatalog(table).load_table().delete("n >= 0")


@pytest.mark.parametrize("kind", LAKEHOUSE)
def test_a_table_that_was_overwritten_is_refused(pipes: Pipes, kind: str) -> None:
    pipes.create("in/1", numbers(0, 10))
    table, source = pipes.path("table"), pipes.source()
    job: dict[str, Any] = {"schema": "n long", "format": kind, "pace": ONCE, "partition_by": []}
    archive(pipes.spark, source, table, **job)
    assert replayed(pipes, kind).rows == 10
    overwrite(kind, table)
    with pytest.raises(
        PipelineError, match=r"was overwritten, or rows .* Streams only grow.*another"
    ) as failed:
        replayed(pipes, kind)
    assert failed.value.kind == "TableReadError"
    shutil.rmtree(table)
    archive(pipes.spark, source, table, **job)
    with pytest.raises(PipelineError, match=r"is another table than the one .* made anew"):
        replayed(pipes, kind)
    assert pipes.ns() == list(range(10))


def test_versions_that_are_gone_are_named(pipes: Pipes) -> None:
    table = pipes.path("table")
    for n in range(3):
        write_deltalake(table, pyarrow.table({"n": [n]}), mode="append")
    replayed(pipes, "delta")
    write_deltalake(table, pyarrow.table({"n": [3]}), mode="append")
    write_deltalake(table, pyarrow.table({"n": [4]}), mode="append")
    DeltaTable(table).create_checkpoint()
    (Path(table) / "_delta_log" / f"{3:020}.json").unlink()
    with pytest.raises(PipelineError, match=r"no longer has its version 3, .* old versions were removed"):
        replayed(pipes, "delta")
    with pytest.raises(OptionError, match=r"is not a table of the format iceberg: it is .* delta"):
        replayed(pipes, "iceberg")
    with pytest.raises(OptionError, match="schema: is not for delta"):
        replayed(pipes, "delta", schema="n long")
    with pytest.raises(OptionError, match="header: is not known for delta"):
        replayed(pipes, "delta", options={"header": "true"})
    shutil.rmtree(table)
    with pytest.raises(OptionError, match="there is no table"):
        replayed(pipes, "delta")
