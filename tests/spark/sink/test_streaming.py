"""Streaming writes: every micro-batch counts once, whatever happens to the query.

A query that dies between its sink's commit and Spark's own note of it repeats the batch. That is made
here by removing the note, which is exactly what such a death leaves behind.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from millstream import ProducerStamp
from millstream.spark.sink.endings import each_batch, run_to_end
from spark.sink.sinks import Sinks

ROWS = 600
OTHERS_DONE_S = 3  # a task that writes half of the rows takes a fraction of it


@pytest.fixture
def source(sinks: Sinks) -> Any:
    return sinks.streams.create("in", messages=[{"n": n} for n in range(ROWS)])


def _rows(sinks: Sinks, **options: Any) -> DataFrame:
    return sinks.streams.following("in", maxRowsPerTrigger=ROWS // 2, **options).select("value")


def test_every_row_arrives_once_and_in_order(sinks: Sinks, source: Any) -> None:
    sinks.run(_rows(sinks))
    assert sinks.ns() == list(range(ROWS))


@pytest.mark.parametrize("commit", ["parts", "driver", "producer"])
def test_a_query_goes_on_from_its_checkpoint(sinks: Sinks, source: Any, commit: str) -> None:
    sinks.run(_rows(sinks), commit=commit)
    source.append_all([{"n": ROWS + n} for n in range(ROWS)])
    sinks.run(_rows(sinks), commit=commit)
    assert sorted(sinks.ns()) == list(range(2 * ROWS))


@pytest.mark.parametrize("commit", ["parts", "driver", "producer"])
def test_a_repeated_batch_changes_nothing(sinks: Sinks, source: Any, commit: str) -> None:
    for _ in range(2):
        sinks.run(_rows(sinks), commit=commit)
        sinks.forget_last_batch()
    assert sorted(sinks.ns()) == list(range(ROWS))


def test_a_checkpoint_that_was_set_back_loses_nothing_in_silence(sinks: Sinks, source: Any) -> None:
    """The repeated batch has more rows than the one that was written: what it has more would be lost."""
    rows = sinks.streams.following("in").select("value")
    sinks.run(rows)
    source.append_all([{"n": ROWS + n} for n in range(10)])
    for log in ("offsets", "commits"):
        for note in (sinks.checkpoints / "checkpoint" / log).iterdir():
            note.unlink()
    with pytest.raises(StreamingQueryException, match=r"(?s)600 rows.*610 rows.*checkpoint was set back"):
        sinks.run(rows)
    sinks.run(rows, compareReplays=False)
    assert sinks.ns() == list(range(ROWS))


def test_a_batch_may_be_repeated_in_another_shape(sinks: Sinks, source: Any) -> None:
    """Other partitions, another number of them, another order: the first commit counts, whole."""
    for salt, partitions in enumerate((4, 2, 3)):
        sinks.run(_reshaped(_rows(sinks), partitions, salt), partBytes="300")
        sinks.forget_last_batch()
    assert sorted(sinks.ns()) == list(range(ROWS))


@pytest.mark.parametrize(
    ("options", "is_exact"),
    [
        ({"commit": "parts"}, True),
        ({"commit": "driver"}, True),
        ({"commit": "producer", "order": "asis"}, False),
    ],
)
def test_numbered_requests_lose_rows_where_a_batch_is_repeated_in_another_shape(
    sinks: Sinks, source: Any, tmp_path: Path, options: dict[str, Any], is_exact: bool
) -> None:
    """The counter-example: one task has written its rows when another one fails and the query dies.

    Repeated, the rows are in other tasks. A request whose number has been used is ignored, so
    the rows that are new in it are lost; those that it wrote before come again from elsewhere.
    """
    fails = tmp_path / "fails"
    fails.touch()
    frame = sinks.streams.following("in").select("value")
    with pytest.raises(StreamingQueryException, match="on purpose"):
        sinks.run(_failing_late(_reshaped(frame, 2, salt=1), fails), **options)
    fails.unlink()
    sinks.run(_failing_late(_reshaped(frame, 2, salt=2), fails), **options)
    found = sinks.ns()
    lost = ROWS - len(set(found))
    doubled = len(found) - len(set(found))
    if is_exact:
        assert (lost, doubled) == (0, 0)
    else:
        assert lost > 0
        assert doubled > 0


def test_sorted_producers_survive_another_order_of_the_same_rows(
    sinks: Sinks, source: Any, tmp_path: Path
) -> None:
    fails = tmp_path / "fails"
    fails.touch()
    frame = _failing_late(_reshaped(sinks.streams.following("in").select("value"), 2, salt=1), fails)
    options = {"commit": "producer", "order": "sort", "partBytes": "500"}
    with pytest.raises(StreamingQueryException, match="on purpose"):
        sinks.run(frame, **options)
    fails.unlink()
    sinks.run(frame, **options)
    assert sorted(sinks.ns()) == list(range(ROWS))


def test_a_batch_whose_commit_broke_off_between_streams_is_completed(sinks: Sinks, source: Any) -> None:
    """One stream has its rows when another refuses: in the repetition the first stays as it is."""
    rows = sinks.streams.following("in").withColumn(
        "stream",
        sql.concat(
            sql.lit(f"{sinks.streams.folder}/to"),
            sql.get_json_object("value", "$.n").cast("int") % 2,
        ),
    )
    sinks.streams.create("to1").close()
    with pytest.raises(StreamingQueryException, match="Cannot append to a closed stream"):
        sinks.run(rows.select("stream", "value"), short=None)
    assert sinks.ns("to0") == list(range(0, ROWS, 2))
    sinks.handle("to1").delete()
    sinks.run(rows.select("stream", "value"), short=None)
    assert sinks.ns("to0") == list(range(0, ROWS, 2))
    assert sinks.ns("to1") == list(range(1, ROWS, 2))


def test_an_older_copy_of_a_query_is_refused(sinks: Sinks, source: Any) -> None:
    """A zombie: a newer batch of the same query is there."""
    query = sinks.start(_rows(sinks))
    query.awaitTermination(60)
    sinks.handle().append({"n": "newer"}, producer=ProducerStamp(f"{query.id}/0", 99, 0))
    source.append({"n": ROWS})
    with pytest.raises(StreamingQueryException, match=r"Batch 99 of the same query is there already"):
        sinks.run(_rows(sinks))


def test_the_end_flows_through(sinks: Sinks, source: Any) -> None:
    """Input closed, everything read: the output ends too, and only then."""
    source.close()
    frame = sinks.streams.following("in", maxRowsPerTrigger=300, untilClosed=True).select("value")
    run_to_end(sinks.with_checkpoint(frame.writeStream), sinks.options())
    assert sinks.ns() == list(range(ROWS))
    assert sinks.handle().head().stream_closed
    run_to_end(sinks.with_checkpoint(frame.writeStream), sinks.options())
    assert sinks.ns() == list(range(ROWS))


def test_a_query_that_fails_does_not_end_its_output(sinks: Sinks, source: Any) -> None:
    source.append("not an object")
    frame = sinks.streams.following("in").select(
        sql.when(sql.col("value").startswith("{"), sql.col("value")).otherwise("broken").alias("value")
    )
    with pytest.raises(StreamingQueryException, match="is not JSON: 'broken'"):
        run_to_end(sinks.with_checkpoint(frame.writeStream), sinks.options())
    assert not sinks.handle().head().stream_closed


def test_streams_that_rows_name_are_closed_by_a_glob(sinks: Sinks, source: Any) -> None:
    frame = sinks.streams.following("in").selectExpr(f"'{sinks.streams.folder}/made/x' as stream", "value")
    closes = f"{sinks.streams.folder}/made/*"
    run_to_end(sinks.with_checkpoint(frame.writeStream), sinks.options(None), closes=closes)
    assert sinks.handle("made/x").head().stream_closed
    assert not sinks.handle("in").head().stream_closed


def test_each_stream_ends_with_its_own_input(sinks: Sinks) -> None:
    """A row with `closed` ends its stream in the same commit, so a repetition is a duplicate too."""
    sinks.streams.create("in/a", messages=[{"n": 1}]).close()
    other = sinks.streams.create("in/b", messages=[{"n": 2}])
    frame = sinks.streams.following(pattern=f"{sinks.streams.folder}/in/*", includeClosed=True)
    copies = frame.selectExpr("replace(stream, '/in/', '/out/') as stream", "value", "closed")
    sinks.run(copies, short=None)
    sinks.forget_last_batch()
    sinks.run(copies, short=None)
    assert sinks.handle("out/a").head().stream_closed
    assert not sinks.handle("out/b").head().stream_closed
    other.close({"n": 3})
    sinks.run(copies, short=None)
    assert sinks.handle("out/b").head().stream_closed
    assert (sinks.ns("out/a"), sinks.ns("out/b")) == ([1], [2, 3])


def test_complete_mode_is_refused_with_a_hint(sinks: Sinks, source: Any) -> None:
    counts = sinks.streams.following("in").groupBy("stream").count()
    writer = counts.writeStream.format("durable-streams").options(**sinks.options()).outputMode("complete")
    with pytest.raises(PySparkException, match="each_batch"):
        query = sinks.with_checkpoint(writer).start()
        query.awaitTermination(60)


def test_update_mode_is_refused(sinks: Sinks, source: Any) -> None:
    counts = sinks.streams.following("in").groupBy("stream").count()
    writer = counts.writeStream.format("durable-streams").options(**sinks.options()).outputMode("update")
    with pytest.raises(PySparkException, match="does not support Update mode"):
        query = sinks.with_checkpoint(writer).start()
        query.awaitTermination(60)


def test_update_mode_works_through_each_batch(sinks: Sinks, source: Any) -> None:
    counts = sinks.streams.following("in", maxRowsPerTrigger=300).groupBy().count()
    for _ in range(2):
        writes = each_batch(sinks.options(), sink_id="counts")
        query = sinks.with_checkpoint(counts.writeStream.foreachBatch(writes).outputMode("update"))
        assert query.trigger(availableNow=True).start().awaitTermination(90)
        sinks.forget_last_batch()
    assert [message["count"] for message in sinks.messages()] == [300, 600]


def test_two_sinks_of_one_query_are_told_apart(sinks: Sinks, source: Any) -> None:
    first, second = (each_batch(sinks.options(), sink_id=name) for name in ("first", "second"))

    def both(batch: DataFrame, number: int) -> None:
        first(batch, number)
        second(batch, number)

    for _ in range(2):
        query = sinks.with_checkpoint(_rows(sinks).writeStream.foreachBatch(both))
        assert query.trigger(availableNow=True).start().awaitTermination(90)
        sinks.forget_last_batch()
    assert sorted(sinks.ns()) == sorted([*range(ROWS), *range(ROWS)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option txnAppId: is missing inside foreachBatch"),
        ({"txnAppId": "a", "txnVersion": 1}, "option sinkId: is missing inside foreachBatch"),
        ({"idempotencyKey": "a"}, "option idempotencyKey: is the same for every batch"),
    ],
)
def test_a_write_in_foreach_batch_that_could_be_doubled_is_refused(
    sinks: Sinks, source: Any, options: dict[str, Any], message: str
) -> None:
    def write(batch: DataFrame, number: int) -> None:
        sinks.write(batch, **options)

    query = sinks.with_checkpoint(_rows(sinks).writeStream.foreachBatch(write))
    with pytest.raises(StreamingQueryException, match=message):
        query.trigger(availableNow=True).start().awaitTermination(90)


@pytest.mark.parametrize("name", ["txnAppId", "txnVersion", "idempotencyKey", "closeOnEnd"])
def test_options_of_batch_writes_are_refused(sinks: Sinks, source: Any, name: str) -> None:
    value = {"txnVersion": "1", "closeOnEnd": "true"}.get(name, "x")
    with pytest.raises(PySparkException, match=f"option {name}: is for"):
        sinks.run(_rows(sinks), **{name: value})


def _reshaped(frame: DataFrame, partitions: int, salt: int) -> DataFrame:
    """The same rows in other partitions and in another order, for each salt."""
    return frame.repartition(partitions, sql.xxhash64("value", sql.lit(salt)))


def _failing_late(frame: DataFrame, flag: Path) -> DataFrame:
    """Let the last partition fail once the others are done, while a file is there."""
    path = str(flag)

    def pass_on(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import random

        from pyspark import TaskContext

        context = TaskContext.get()
        for batch in batches:
            order = list(range(batch.num_rows))
            random.shuffle(order)
            yield batch.take(pyarrow.array(order))
        if context.partitionId() == 1 and Path(path).exists():
            time.sleep(OTHERS_DONE_S)
            raise RuntimeError("fails on purpose")

    return frame.mapInArrow(pass_on, "value string")
