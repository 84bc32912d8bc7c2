"""dedup: streams to a stream with each key once, across restarts.

The keys that were seen are Spark's state, in the checkpoint: all of them until the streams end, or, with an
event time, those that are not older than the watermark. Of several records with one key in a batch the first
is kept (by stream and offset), so that a repeated batch is the same: each key's records are sorted in one
task, and reach the operator that drops duplicates in that order, because a shuffle keeps the order of what
one task sends. A batch is written in the order of the streams.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import pyarrow
import pyarrow.compute
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from millstream.spark.options import OptionError
from millstream.spark.pipelines import records
from millstream.spark.pipelines.inputs import FORMAT, Input, Pace, following, refuse_loops
from millstream.spark.pipelines.late import LateRecords
from millstream.spark.pipelines.outputs import Output, addressed
from millstream.spark.pipelines.records import ERROR, RAW, BadRecords
from millstream.spark.pipelines.running import LETTERS, Meter, Progress
from millstream.spark.pipelines.transactions import checkpoint_id
from millstream.spark.sink.columns import OFFSET, STREAM, VALUE
from millstream.spark.tables.locations import located

WATERMARK = "1 hour"
_PIPELINE = "dedup"
_KEY, _AT, _ORDER = "_key", "_at", "_order"
_LATE = "came when their keys may have been forgotten, and are not in the output"


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch needs; it is pickled to wherever Spark calls `foreachBatch`."""

    output: Output
    checkpoint: str


def dedup(
    spark: SparkSession,
    source: Input,
    output: Output,
    *,
    key: Sequence[str],
    checkpoint: str,
    schema: str | None = None,
    event_time: str | None = None,
    watermark: str = WATERMARK,
    pace: Pace | None = None,
    bad: BadRecords | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Copy streams to one stream with each key once, exactly once.

    `key` are SQL expressions over `stream`, `offset` and `value`; with a `schema` over the fields of each
    message. Records without a key are bad records. With `event_time`, a column of the schema, a key is
    forgotten when the watermark has passed it, which is `watermark` behind the latest time; records that are
    older than that are late, and become dead letters. Without it, keys are kept until the end.
    With `pace.until_closed` the output is closed at the end.
    """
    pace, bad = pace or Pace(), bad or BadRecords()
    if output.stream is None:
        raise OptionError("stream", "is missing; name the stream to write")
    if event_time is not None and schema is None:
        raise OptionError("event-time", "needs a schema; name the columns, such as 'id long, at timestamp'")
    refuse_loops(source, [output.stream, bad.name])
    job = _Job(output=output, checkpoint=located(checkpoint))
    late = None
    if schema is not None and event_time is not None:
        late = LateRecords(
            spark, source, output, bad, job.checkpoint, schema, event_time, pipeline=_PIPELINE, lost=_LATE
        )
    taken = records.judged(_taken(spark, source, pace, schema, event_time, key), bad, records.located())
    unique = _unique(taken, [f"{_KEY}{number}" for number in range(len(key))], watermark)
    made = addressed(unique.select(VALUE, _ORDER), output, bad, _PIPELINE, carries=[_ORDER])
    if bad.name is not None:
        made = made.unionByName(_letters(taken, bad.name))
    output.prepare(bad.name)
    meter = Meter(on_progress, on_late=late)
    meter.run(spark, made.writeStream.foreachBatch(_writing(job)), pace, job.checkpoint)
    if pace.until_closed:
        output.close()
    return meter.progress


def _taken(
    spark: SparkSession,
    source: Input,
    pace: Pace,
    schema: str | None,
    event_time: str | None,
    key: Sequence[str],
) -> DataFrame:
    """Read records with their keys and times; those without a key are bad."""
    if schema is None:
        frame = following(spark, source, pace)
        rows = frame.select(
            STREAM, OFFSET, VALUE, f.col(VALUE).alias(RAW), f.lit(None).cast("string").alias(ERROR)
        )
    else:
        by_time = {"eventTime": event_time} if event_time is not None else {}
        frame = following(spark, source, pace, valueType="string", **by_time)
        rows = records.parsed(frame, schema, event_time)
    if not key:
        raise OptionError("key", "is missing; name a column, or give an expression")
    keys = [_checked(rows, text).alias(f"{_KEY}{number}") for number, text in enumerate(key)]
    at = [f.col(f"`{event_time}`").cast("timestamp").alias(_AT)] if event_time is not None else []
    found = rows.select(STREAM, OFFSET, RAW, ERROR, *keys, *at)
    has_none = f.lit(False)
    for number in range(len(keys)):
        has_none = has_none | f.col(f"{_KEY}{number}").isNull()
    error = f.coalesce(f.col(ERROR), f.when(has_none, f.lit("has no key")))
    order = f.struct(STREAM, OFFSET).alias(_ORDER)
    return found.withColumn(ERROR, error).select("*", order)


def _checked(rows: DataFrame, text: str) -> Column:
    """Let Spark parse an expression, before anything is read."""
    try:
        # Spark refuses here what it cannot compare, too.
        assert rows.select(f.expr(text)).distinct().schema is not None
    except (ParseException, AnalysisException) as error:
        first = str(error).strip().splitlines()[0]
        raise OptionError("key", f"{text!r} is not an expression over these records ({first})") from None
    return f.expr(text)


def _unique(taken: DataFrame, keys: list[str], watermark: str) -> DataFrame:
    """Keep the first record of each key."""
    has_time = _AT in taken.columns
    good = taken.where(f.col(ERROR).isNull())
    good = good.select(f.col(RAW).alias(VALUE), _ORDER, *keys, *([_AT] if has_time else []))
    nullable = StructType([StructField(one.name, one.dataType) for one in good.schema.fields])
    ordered = good.repartition(*keys).mapInArrow(_sorted, nullable)
    if has_time:
        return ordered.withWatermark(_AT, watermark).dropDuplicatesWithinWatermark(keys)
    return ordered.dropDuplicates(keys)


def _sorted(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Sort a task's records by stream and offset; runs on executors."""
    found = list(batches)
    if found:
        table = pyarrow.Table.from_batches(found)
        place = pyarrow.table(
            dict(zip((STREAM, OFFSET), table.column(_ORDER).combine_chunks().flatten(), strict=True))
        )
        order = pyarrow.compute.sort_indices(place, [(STREAM, "ascending"), (OFFSET, "ascending")])
        yield from table.take(order).to_batches()


def _letters(taken: DataFrame, stream: str) -> DataFrame:
    bad = records.counted(taken, LETTERS).where(f.col(ERROR).isNotNull())
    value = records.letter(_PIPELINE, STREAM, OFFSET).cast("binary")
    return bad.select(f.lit(stream).alias(STREAM), value.alias(VALUE), _ORDER)


def _writing(job: _Job) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        ids = {
            "txnAppId": checkpoint_id(batch.sparkSession, job.checkpoint),
            "txnVersion": str(number),
            "sinkId": _PIPELINE,
        }
        made = batch.repartition(1).sortWithinPartitions(_ORDER).drop(_ORDER)
        made.write.format(FORMAT).mode("append").options(**job.output.sink(), **ids).save()

    return write
