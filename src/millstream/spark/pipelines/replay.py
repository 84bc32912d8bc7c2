"""replay: a table to streams, exactly once. An interrupted run resumes where it stopped.

Files are read by Spark's file source, which records in the checkpoint which files were read, a few in each
batch. Delta and Iceberg tables are read version after version (`tables.versions`). Other tables, such as
those of a database, are written in one transaction; so are archives in Parquet, because compaction rewrites
their files.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from millstream.spark.options import OptionError
from millstream.spark.pipelines.flushing import one_row
from millstream.spark.pipelines.inputs import FORMAT, Pace
from millstream.spark.pipelines.outputs import Output, addressed
from millstream.spark.pipelines.records import ERROR, RAW, BadRecords
from millstream.spark.pipelines.records import columns as schema_columns
from millstream.spark.pipelines.running import Meter, Progress
from millstream.spark.pipelines.transactions import checkpoint_id
from millstream.spark.sink.columns import STREAM
from millstream.spark.tables.formats import DELTA, ICEBERG
from millstream.spark.tables.locations import located
from millstream.spark.tables.parquet_files import Table
from millstream.spark.tables.versions import following_table, versioned_table

VERSIONED = (DELTA, ICEBERG)
FILES = ("parquet", "csv", "json", "orc", "text")
_FILES_PER_BATCH = 16
_FOR_EVER = "36500d"
_CORRUPT = "_corrupt_record"
_PARSED = ("csv", "json")
_SINK, _ORDER = "replay", "_order"


class TableInput(msgspec.Struct, frozen=True, kw_only=True):
    """A table that Spark can read: its format, path and options.

    `columns` are SQL expressions to select instead of all columns, `order_by` the columns to sort by,
    `stream_by` an expression that names each row's stream.
    """

    format: str = "parquet"
    path: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = {}
    columns: Sequence[str] = ()
    order_by: Sequence[str] = ()
    stream_by: str | None = None


def replay(
    spark: SparkSession,
    table: TableInput,
    output: Output,
    *,
    checkpoint: str,
    pace: Pace | None = None,
    bad: BadRecords | None = None,
    closes: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Write a table to streams: once by default, or forever as new files arrive (`Pace(every=...)`).

    Rows are sorted by `order_by` within a batch, which is 16 files (`maxFilesPerTrigger`), or everything
    if the table is not files. With `closes` the outputs are closed after the last row.
    """
    pace, bad = pace or Pace(once=True), bad or BadRecords()
    if pace.until_closed:
        raise OptionError(
            "until-closed", "is for streams, which end; a table is read once, or every so often"
        )
    if closes and not pace.ends:
        raise OptionError("close", "needs an end; leave out every")
    output.prepare(bad.name)
    whole = not (table.format in VERSIONED or (table.format in FILES and not _is_archive(table)))
    job = _Job(table=table, output=output, checkpoint=located(checkpoint), bad=bad, whole=whole)
    frame = one_row(spark) if whole else _made(_followed(spark, table), job)
    meter = Meter(on_progress, counts=not whole)
    meter.run(spark, frame.writeStream.foreachBatch(_writing(job)), pace, job.checkpoint)
    if closes:
        output.close()
    return meter.progress


def look(table: TableInput) -> None:
    """Check that a table in this machine's folders is there, before Spark is started."""
    if table.format in VERSIONED:
        versioned_table(table.format, _path(table))
    elif table.format in FILES and "://" not in _path(table):
        is_glob = any(character in _path(table) for character in "*?[{")
        if not is_glob and not Path(_path(table)).exists():
            raise OptionError("path", f"{table.path!r} is not there; check it, or write it with its scheme")


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch needs; it is pickled to wherever Spark calls `foreachBatch`."""

    table: TableInput
    output: Output
    checkpoint: str
    bad: BadRecords
    whole: bool


def _writing(job: _Job) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        made = _made(_read(spark, job.table), job) if job.whole else batch
        if job.table.order_by:
            # A few files are sorted in one partition: to sort in many, Spark would read them twice.
            made = made.orderBy(_ORDER) if job.whole else made.repartition(1).sortWithinPartitions(_ORDER)
        ids = {"txnAppId": checkpoint_id(spark, job.checkpoint), "txnVersion": str(number), "sinkId": _SINK}
        sink = made.drop(_ORDER).write.format(FORMAT).mode("append")
        sink.options(**job.output.sink(), **ids).save()

    return write


def _made(rows: DataFrame, job: _Job) -> DataFrame:
    """Name the rows' streams, select columns, separate bad rows, and record the order."""
    marked, table = rows, job.table
    if _CORRUPT in rows.columns:
        marked = rows.withColumnsRenamed({_CORRUPT: RAW})
        marked = marked.withColumn(ERROR, f.when(f.col(RAW).isNotNull(), "does not fit the schema"))
    kept = [name for name in marked.columns if name in (RAW, ERROR)]
    columns = [f.expr(one) for one in table.columns] or [
        f.col(f"`{name}`") for name in marked.columns if name not in kept
    ]
    if table.stream_by is not None:
        columns = [*columns, f.expr(table.stream_by).alias(STREAM)]
    order = f.struct(*(f.col(name) for name in table.order_by), f.lit(0)).alias(_ORDER)
    taken = marked.select(*columns, *kept, order)
    return addressed(taken, job.output, job.bad, "replay", carries=[_ORDER])


def _followed(spark: SparkSession, table: TableInput) -> DataFrame:
    """Follow a table, or files, including old ones."""
    if table.format in VERSIONED:
        if table.schema is not None:
            raise OptionError(
                "schema", f"is not for {table.format}: the table has its own; select with columns"
            )
        return following_table(spark, table.format, _path(table), dict(table.options))
    defaults = {"maxFilesPerTrigger": str(_FILES_PER_BATCH), "maxFileAge": _FOR_EVER}
    path = _path(table)
    if Path(path).is_file():  # Spark follows folders only
        path, defaults["pathGlobFilter"] = str(Path(path).parent), _literal(Path(path).name)
    reader = spark.readStream.format(table.format).options(**{**defaults, **_parsing(table)})
    return reader.schema(_schema(spark, table)).load(path)


def _read(spark: SparkSession, table: TableInput) -> DataFrame:
    reader = spark.read.format(table.format).options(**_parsing(table))
    if table.schema is not None:
        reader = reader.schema(table.schema)
    return reader.load(located(table.path)) if table.path is not None else reader.load()


def _schema(spark: SparkSession, table: TableInput) -> StructType:
    """Infer the columns, and add one for records that Spark could not parse."""
    if table.schema is None:
        found = spark.read.format(table.format).options(**_parsing(table)).load(_path(table)).schema
    else:
        found = schema_columns(table.schema)
    if table.format in _PARSED and _CORRUPT not in found.fieldNames():
        found = StructType([*found.fields, StructField(_CORRUPT, StringType())])
    return found


def _parsing(table: TableInput) -> dict[str, str]:
    if table.format not in _PARSED:
        return dict(table.options)
    return {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **table.options}


def _path(table: TableInput) -> str:
    if table.path is None:
        raise OptionError("path", f"is missing; say where the {table.format} files are")
    return located(table.path)


def _literal(name: str) -> str:
    """Escape a name, so that as a glob it matches only itself."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", name)


def _is_archive(table: TableInput) -> bool:
    """Return whether a table was written by `archive`: compaction moves its rows to other files."""
    return (
        table.format == "parquet" and table.path is not None and Table(table.path).last_commit() is not None
    )
