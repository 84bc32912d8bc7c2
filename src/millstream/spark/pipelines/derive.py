"""derive: streams to other streams, by SQL or a Python function. When the inputs end, the outputs end."""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from millstream.spark.options import OptionError
from millstream.spark.pipelines import records
from millstream.spark.pipelines.flushing import with_end
from millstream.spark.pipelines.inputs import FORMAT, Input, Pace, following, refuse_loops
from millstream.spark.pipelines.late import LateRecords
from millstream.spark.pipelines.outputs import Output, addressed
from millstream.spark.pipelines.quality import expectations
from millstream.spark.pipelines.quality.rules import Rule, checked
from millstream.spark.pipelines.records import ERROR, RAW, BadRecords
from millstream.spark.pipelines.running import LETTERS, Meter, Progress
from millstream.spark.pipelines.stateful import changes
from millstream.spark.pipelines.stateful.changes import LiveTable
from millstream.spark.sink.columns import OFFSET, STREAM, VALUE
from millstream.spark.tables.locations import located

VIEW = "input"
WATERMARK = "1 minute"

Transform = str | Callable[[DataFrame], DataFrame]
"""SQL that selects from `input`, or a function from a streaming table to another."""


def derive(
    spark: SparkSession,
    source: Input,
    transform: Transform,
    output: Output,
    *,
    checkpoint: str,
    schema: str | None = None,
    event_time: str | None = None,
    watermark: str = WATERMARK,
    table: LiveTable | None = None,
    pace: Pace | None = None,
    bad: BadRecords | None = None,
    rules: Sequence[Rule] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Derive streams from streams, exactly once.

    The input has the columns `stream`, `offset` and `value`; with a `schema` the fields of each message
    take the place of `value`. Records that do not meet the `rules` are set aside, dropped, or stop the
    pipeline. `event_time` names the column of the schema that windows use, and
    `watermark` is how late a record may be. Streams are read in the order of that time while the query is
    behind. Records that are late all the same are counted (`Progress.late_rows`) and become dead letters, or
    stop the pipeline. With `pace.until_closed` open windows are emitted at the end,
    and the outputs are closed. With a `table`, each batch writes the rows of the result that it changed, as
    changes of the State Protocol.
    """
    pace, bad = pace or Pace(), bad or BadRecords()
    if event_time is not None and schema is None:
        raise OptionError("event-time", "needs a schema; name the columns, such as 'id long, at timestamp'")
    if table is not None and output.stream is None:
        raise OptionError("stream", "is missing; name the stream for the changes of the table")
    refuse_loops(source, [output.stream, output.closes, bad.name])
    rules = checked(rules)
    judges = schema is not None or bool(rules)
    late = None
    if schema is not None and event_time is not None:
        late = LateRecords(spark, source, output, bad, located(checkpoint), schema, event_time, rules)
    meter = Meter(on_progress, on_late=late)

    def run(*, at_end: bool) -> None:
        taken = expectations.judged(_input(spark, source, pace, schema, event_time), rules)
        rows = taken
        if judges:
            rows = records.judged(taken, bad, records.located())
            if bad.name is None:
                rows = expectations.counted(rows, rules)
            rows = expectations.kept(rows, rules).where(f.col(ERROR).isNull()).drop(RAW, ERROR)
        if event_time is not None:
            rows = with_end(spark, rows, event_time, watermark, reached=at_end)
        results = transformed(spark, rows, transform)
        if table is not None:
            results = changes.as_changes(results, table)
        results = addressed(results, output, bad, "derive")
        if judges and bad.name is not None:
            results = results.unionByName(_letters(expectations.counted(taken, rules), bad.name))
        writer = results.writeStream
        if table is not None:
            writer = writer.outputMode("update").foreachBatch(changes.writing(output, located(checkpoint)))
        else:
            writer = writer.format(FORMAT).options(**output.sink())
        meter.run(spark, writer, pace, located(checkpoint))

    output.prepare(bad.name)
    run(at_end=False)
    if pace.until_closed:
        if event_time is not None and table is None:
            run(at_end=True)
        output.close()
    return meter.progress


def _input(
    spark: SparkSession,
    source: Input,
    pace: Pace,
    schema: str | None,
    event_time: str | None,
) -> DataFrame:
    if schema is None:
        return following(spark, source, pace)
    by_time = {"eventTime": event_time} if event_time is not None else {}
    return records.parsed(following(spark, source, pace, valueType="string", **by_time), schema, event_time)


def _letters(taken: DataFrame, stream: str) -> DataFrame:
    bad = records.counted(taken, LETTERS).where(f.col(ERROR).isNotNull())
    value = records.letter("derive", STREAM, OFFSET).cast("binary")
    return bad.select(f.lit(stream).alias(STREAM), value.alias(VALUE))


def transformed(spark: SparkSession, rows: DataFrame, transform: Transform) -> DataFrame:
    """Apply SQL or a function."""
    if isinstance(transform, str):
        rows.createOrReplaceTempView(VIEW)
        return spark.sql(transform)
    result = transform(rows)
    if not isinstance(result, type(rows)):
        raise OptionError(
            "function", f"gave {type(result).__name__} and not a table; return what you made of its argument"
        )
    return result
