"""requeue: dead letters back to their streams, exactly once, repaired on the way.

A letter says which stream its record was read from, or was to be written to; there it is appended. What was
requeued is in the checkpoint, and in the streams: a batch is stamped with the name of the repair, the stream
of letters (its incarnation, too) and the batch's number, none of which depends on the checkpoint. So a run
with another checkpoint doubles nothing: its batches are known already, or are refused, because they differ.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pyarrow
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from millstream.client.core import bodies
from millstream.protocol.content import Kind
from millstream.spark.lookups import Server
from millstream.spark.option_values import stream_name
from millstream.spark.options import OptionError, SourceOptions, source_options
from millstream.spark.pipelines import records
from millstream.spark.pipelines.derive import Transform, transformed
from millstream.spark.pipelines.inputs import FORMAT, Input, Pace, following, refuse_loops
from millstream.spark.pipelines.outputs import Output, routed
from millstream.spark.pipelines.records import ERROR, RAW, BadRecords
from millstream.spark.pipelines.running import Meter, Progress
from millstream.spark.sink.columns import OFFSET, STREAM, VALUE
from millstream.spark.tables.locations import located

NAME = "requeue"
UNREPAIRED = "_dead-letters-unrepaired"
SHOWN = 20
"""How many letters of a batch a dry run shows."""
_FIELDS = "_letter"
_LETTER = "stream string, offset string, value string, error string, pipeline string"
_CHECKED = f"{STREAM} string, {VALUE} string, {RAW} string, {ERROR} string"
_ARROW = pyarrow.schema([(name, pyarrow.string()) for name in (STREAM, VALUE, RAW, ERROR)])


class Requeued(msgspec.Struct, frozen=True):
    """What would become of a letter: `error` says why it cannot go to its stream."""

    stream: str | None
    value: str | None
    error: str | None


def requeue(
    spark: SparkSession,
    source: Input,
    *,
    checkpoint: str,
    repair: Transform | None = None,
    name: str = NAME,
    pace: Pace | None = None,
    bad: BadRecords | None = None,
    on_dry_run: Callable[[Requeued], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Append the records of a stream of dead letters to their streams, exactly once.

    `repair` is SQL over `input`, or a function, from `stream`, `offset`, `value`, `error` and `pipeline` to
    `stream` and `value`; letters that it leaves out are done with. A second repair of the same letters needs
    another `name` and another checkpoint. What no stream can hold, even so, is a bad record. With
    `on_dry_run` nothing is written: it is called for some letters of each batch.
    """
    pace, bad = pace or Pace(once=True), bad or BadRecords(stream=UNREPAIRED)
    if source.pattern is not None or "," in source.streams:
        raise OptionError("streams", f"{source.streams!r} is not one stream; requeue one after the other")
    refuse_loops(source, [bad.name])
    rows = _letters(spark, source, pace)
    if repair is not None:
        rows = transformed(spark, rows, repair)
    checked = _checked(rows, source_options(source.source()))
    made = records.judged(checked, bad, f.coalesce(f.col(STREAM), f.lit("no stream")))
    meter = Meter(on_progress)
    if on_dry_run is not None:
        shown = records.counted(made).writeStream.foreachBatch(_showing(on_dry_run))
        with tempfile.TemporaryDirectory(prefix="millstream-requeue-") as folder:
            _copy(located(checkpoint), folder)
            meter.run(spark, shown, pace, folder)
        return meter.progress
    there = Output(url=source.url, token=source.token)
    there.prepare(bad.name)
    job = _Job(sink={**there.sink(), "createMissing": "false"}, app=_identity(source, name))
    writer = routed(made, bad, NAME).writeStream.foreachBatch(_writing(job))
    meter.run(spark, writer, pace, located(checkpoint))
    return meter.progress


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch needs; it is pickled to wherever Spark calls `foreachBatch`."""

    sink: dict[str, str]
    app: str


def _letters(spark: SparkSession, source: Input, pace: Pace) -> DataFrame:
    """Read letters; a message that is none is a value that names no stream."""
    read = following(spark, source, pace, valueType="string")
    taken = read.select(f.col(VALUE).alias(RAW), f.from_json(f.col(VALUE), _LETTER).alias(_FIELDS))
    value = f.coalesce(f.col(f"{_FIELDS}.{VALUE}"), f.col(RAW)).alias(VALUE)
    others = [f.col(f"{_FIELDS}.{name}") for name in ("error", "pipeline")]
    return taken.select(f.col(f"{_FIELDS}.{STREAM}"), f.col(f"{_FIELDS}.{OFFSET}"), value, *others)


def _checked(rows: DataFrame, options: SourceOptions) -> DataFrame:
    """Find what no stream can hold; only its stream knows whether a value has to be JSON."""
    for name in (STREAM, VALUE):
        if name not in rows.columns:
            raise OptionError(
                "repair", f"gave no column {name}; a letter needs stream and value to be requeued"
            )
    taken = rows.select(f.ltrim(f.col(STREAM), f.lit("/")).alias(STREAM), f.col(VALUE).cast("string"))
    return taken.mapInArrow(_checking(options), _CHECKED)


def _checking(
    options: SourceOptions,
) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def check(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        server = Server(options)
        for batch in batches:
            streams, values = (batch.column(name).to_pylist() for name in (STREAM, VALUE))
            found = server.named(sorted(set(filter(None, streams)))) if server.has_many() else {}
            as_json = {name for name, stream in found.items() if stream.kind is Kind.JSON}
            errors = [
                _error(name, value, as_json=name in as_json)
                for name, value in zip(streams, values, strict=True)
            ]
            yield pyarrow.RecordBatch.from_pydict(
                {STREAM: streams, VALUE: values, RAW: values, ERROR: errors}, schema=_ARROW
            )

    return check


def _error(name: str | None, value: str | None, *, as_json: bool) -> str | None:
    if not name:
        return "names no stream"
    if value is None:
        return "has no value"
    try:
        bodies.message(value.encode(), as_json=as_json)
    except ValueError:
        return "is not JSON"
    return None


def _showing(show: Callable[[Requeued], None]) -> Callable[[DataFrame, int], None]:
    def show_some(batch: DataFrame, number: int) -> None:
        for row in batch.collect()[:SHOWN]:  # all of them are read, so that all are counted
            show(Requeued(row[STREAM], row[VALUE], row[ERROR]))

    return show_some


def _writing(job: _Job) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        ids = {"txnAppId": job.app, "txnVersion": str(number), "sinkId": NAME}
        batch.write.format(FORMAT).mode("append").options(**job.sink, **ids).save()

    return write


def _identity(source: Input, name: str) -> str:
    """Name the repair of one stream of letters, whichever checkpoint is used."""
    letters = stream_name(source.streams)
    found = Server(source_options(source.source())).look(letters)
    return "/".join([name, letters, found.incarnation or ""])


def _copy(checkpoint: str, folder: str) -> None:
    """Copy a checkpoint, if there is one: a dry run begins where the next run will."""
    there, path = fs.FileSystem.from_uri(checkpoint.replace("s3a://", "s3://", 1))
    [info] = there.get_file_info([path])
    if info.type is not fs.FileType.NotFound:
        fs.copy_files(path, folder, source_filesystem=there, destination_filesystem=fs.LocalFileSystem())
