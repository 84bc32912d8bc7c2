"""archive: streams to a partitioned table, exactly once. It can be queried while it grows."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from millstream.spark.options import OptionError
from millstream.spark.pipelines import records
from millstream.spark.pipelines.inputs import FORMAT, Input, Pace, following, refuse_loops
from millstream.spark.pipelines.quality import expectations
from millstream.spark.pipelines.quality.rules import Rule, checked
from millstream.spark.pipelines.records import ERROR, RAW, BadRecords
from millstream.spark.pipelines.running import Meter, Progress
from millstream.spark.pipelines.transactions import checkpoint_id
from millstream.spark.sink.columns import OFFSET, STREAM, VALUE
from millstream.spark.source.schemas import TIMESTAMP
from millstream.spark.tables.formats import (
    PARQUET,
    ArchiveError,
    ArchiveTable,
    Change,
    archive_table,
)
from millstream.spark.tables.locations import located
from millstream.spark.tables.parquet_files import Table

DATE = "date"
COMPACT_FILES = 20


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch needs; it is pickled to wherever Spark calls `foreachBatch`."""

    table: str
    format: str
    checkpoint: str
    partition_by: tuple[str, ...]
    compact_files: int
    letters: dict[str, str] | None
    columns: dict[str, Any]


def archive(
    spark: SparkSession,
    source: Input,
    table: str,
    *,
    format: str = PARQUET,
    schema: str | None = None,
    event_time: str | None = None,
    partition_by: Sequence[str] = (DATE,),
    pace: Pace | None = None,
    bad: BadRecords | None = None,
    rules: Sequence[Rule] = (),
    checkpoint: str | None = None,
    compact_files: int = COMPACT_FILES,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Append streams to a table, exactly once; its format is `parquet`, `delta` or `iceberg`.

    Without a `schema` its columns are `stream`, `offset` and `value`; with one (`id long, at timestamp`)
    the fields of each message take the place of `value`. `date` is added unless the schema has one: the day
    of `event_time`, a column of the schema or `timestamp`, or else the day a record was archived. Records
    that do not meet the `rules` are set aside, dropped, or stop the pipeline. A table keeps its columns: a
    later run may add some, but not change their types; rows of a run that leaves some out have null there.
    When a partition holds `compact_files` small files they are merged into one; 0 disables it. The checkpoint
    is inside the table unless it is given.
    """
    pace, bad = pace or Pace(), bad or BadRecords()
    rules = checked(rules)
    if schema is not None or rules:
        refuse_loops(source, [bad.name])
    if event_time is not None and schema is None and not source.has_arrival(event_time):
        raise OptionError("event-time", "needs a schema; name the columns, such as 'id long, at timestamp'")
    opened = archive_table(format, table)
    frame = _records(spark, source, pace, schema, bad, rules, event_time)
    _check_partitions(frame.schema, partition_by)
    job = _Job(
        table=located(table),
        format=format,
        checkpoint=located(checkpoint or f"{located(table).rstrip('/')}/_checkpoint"),
        partition_by=tuple(partition_by),
        compact_files=compact_files,
        letters=_letters(source, bad) if schema is not None or rules else None,
        columns=_evolved(spark, opened, frame.schema, partition_by).jsonValue(),
    )
    meter = Meter(on_progress)
    meter.run(spark, frame.writeStream.foreachBatch(_appending(job)), pace, job.checkpoint)
    return meter.progress


def read_table(spark: SparkSession, table: str) -> DataFrame:
    """Read a Parquet table as of one of its batches, even while it changes."""
    found = Table(table)
    base, files = found.opened()
    if not files:
        raise ArchiveError(f"{table} holds nothing yet")
    return _reader(spark, found).option("basePath", base).parquet(*files)


def _reader(spark: SparkSession, table: Table) -> DataFrameReader:
    """Return a reader with the table's columns, because older files may have fewer."""
    last = table.last_commit()
    if last is None or last.columns is None:
        return spark.read
    return spark.read.schema(StructType.fromJson(last.columns))


def _evolved(
    spark: SparkSession, table: ArchiveTable, wanted: StructType, partition_by: Sequence[str]
) -> StructType:
    """Return the columns of a table that exists with those that are added to it; refuse other changes."""
    fields = [field for field in wanted.fields if field.name not in (RAW, ERROR)]
    fields = table.fitting(StructType([StructField(one.name, one.dataType) for one in fields])).fields
    kept = table.kept(spark)
    before = StructType([])
    if kept is not None and kept.columns is not None:
        before = kept.columns
        if kept.partition_by is not None and kept.partition_by != list(partition_by):
            named = ", ".join(kept.partition_by) or "nothing"
            raise ArchiveError(
                f"{table.location} is partitioned by {named}; give the same, or archive to another table"
            )
    kinds = {field.name: field.dataType for field in before.fields}
    for field in fields:
        kind = kinds.get(field.name, field.dataType)
        if kind != field.dataType:
            raise ArchiveError(
                f"the column {field.name} of {table.location} is {kind.simpleString()}, not "
                f"{field.dataType.simpleString()}; files of both could not be read together. Keep its type, "
                "give the new one another name, or archive to another table"
            )
    added = [field for field in fields if field.name not in kinds]
    return StructType([StructField(one.name, one.dataType) for one in (*before.fields, *added)])


def _records(
    spark: SparkSession,
    source: Input,
    pace: Pace,
    schema: str | None,
    bad: BadRecords,
    rules: Sequence[Rule],
    event_time: str | None,
) -> DataFrame:
    if schema is None:
        frame = following(spark, source, pace)
        arrival = [TIMESTAMP] if TIMESTAMP in frame.columns else []
        taken = frame.select(STREAM, OFFSET, *arrival, VALUE, f.lit(None).cast("string").alias(ERROR))
    else:
        frame = following(spark, source, pace, valueType="string")
        taken = records.parsed(frame, schema, event_time)
    taken = expectations.judged(taken, rules)
    if RAW in taken.columns:
        taken = records.judged(taken, bad, records.located())
    taken = expectations.kept(expectations.counted(records.counted(taken), rules), rules)
    if DATE not in taken.columns:
        day = f.current_date() if event_time is None else f.to_date(f.col(f"`{event_time}`"))
        taken = taken.withColumn(DATE, day)
    return taken


def _letters(source: Input, bad: BadRecords) -> dict[str, str] | None:
    return None if bad.name is None else {**source.server(), "stream": bad.name, "sinkId": "dead-letters"}


def _check_partitions(schema: StructType, partition_by: Sequence[str]) -> None:
    columns = [name for name in schema.fieldNames() if name not in (RAW, ERROR)]
    for name in partition_by:
        if name not in columns:
            raise OptionError("partition-by", f"names {name!r}; there are {', '.join(columns)}")
    if len(set(partition_by)) == len(columns):
        raise OptionError("partition-by", "names every column; leave one for the files")


def _appending(job: _Job) -> Callable[[DataFrame, int], None]:
    def append(batch: DataFrame, number: int) -> None:
        _append(job, batch, number)

    return append


def _append(job: _Job, batch: DataFrame, number: int) -> None:
    """Add one batch to the table; idempotent."""
    table = archive_table(job.format, job.table)
    spark = batch.sparkSession
    query = checkpoint_id(spark, job.checkpoint)
    kept = table.kept(spark)
    if kept is not None and kept.query != query:
        raise ArchiveError(
            f"{job.table} was written with another checkpoint than {job.checkpoint}; "
            "give that one, or archive to another table"
        )
    table.finish()
    if kept is not None and kept.batch >= number:
        return
    table.clear(number)
    change = Change(query, number, StructType.fromJson(job.columns), job.partition_by)
    if job.letters is None:
        table.stage(batch, change)
    else:
        batch.persist(StorageLevel.MEMORY_AND_DISK)  # read twice below
        try:
            table.stage(batch.where(f.col(ERROR).isNull()), change)
            _send_letters(job.letters, batch.where(f.col(ERROR).isNotNull()), query, number)
        finally:
            batch.unpersist()
    table.commit(change)
    if job.compact_files:
        table.compact(spark, change, job.compact_files)


def _send_letters(options: dict[str, str], bad: DataFrame, query: str, number: int) -> None:
    letters = bad.select(records.letter("archive", STREAM, OFFSET).alias(VALUE))
    if not letters.isEmpty():
        ids = {"txnAppId": query, "txnVersion": str(number)}
        letters.write.format(FORMAT).mode("append").options(**options, **ids).save()
