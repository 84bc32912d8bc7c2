"""profile: rates, sizes, lag and shapes of streams, published to a stream.

Records carry no time, so a window is what one batch has read of a stream, from its last report until now.
The last shape of a stream is Spark state, kept in the checkpoint.
"""

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import pandas  # type: ignore[import-untyped]  # it ships no types
import pyarrow
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from millstream.client.core import errors
from millstream.spark.lookups import Server
from millstream.spark.options import SourceOptions, source_options
from millstream.spark.pipelines import records
from millstream.spark.pipelines.inputs import FORMAT, Input, Pace, following, refuse_loops
from millstream.spark.pipelines.outputs import Output
from millstream.spark.pipelines.quality import expectations
from millstream.spark.pipelines.quality.rules import Rule, checked
from millstream.spark.pipelines.records import RAW
from millstream.spark.pipelines.running import Meter, Progress
from millstream.spark.pipelines.shapes import Drift, Shape, drift, merged, shape_of
from millstream.spark.sink.columns import OFFSET, STREAM, VALUE
from millstream.spark.source.offsets import bytes_between
from millstream.spark.tables.locations import located

STREAM_NAME = "_profile"
EVERY = "10 seconds"
_SAMPLED = 1000
_PARTIAL = "stream string, rows long, bytes long, last string, shape string, unmet string, at long"
_UNMET = "unmet"
_ARROW = pyarrow.schema(
    [
        ("stream", pyarrow.string()),
        ("rows", pyarrow.int64()),
        ("bytes", pyarrow.int64()),
        ("last", pyarrow.string()),
        ("shape", pyarrow.string()),
        ("unmet", pyarrow.string()),
        ("at", pyarrow.int64()),
    ]
)


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One window of one stream, as it is published."""

    stream: str
    since: str | None
    until: str
    rows: int
    bytes: int
    lag_bytes: int | None
    offset: str
    closed: bool
    expectations: dict[str, int]
    fields: Shape
    drift: Drift | None


class _Seen(msgspec.Struct, frozen=True):
    """The state of a stream: until when it was read, and its shape."""

    until: str
    shape: Shape


def profile(
    spark: SparkSession,
    source: Input,
    output: Output,
    *,
    checkpoint: str,
    schema: str | None = None,
    rules: Sequence[Rule] = (),
    pace: Pace | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Publish counts, bytes, lag and schema changes of streams; `output.stream` itself is excluded.

    With `rules`, over `value` or the fields of a `schema`, reports have the number of records that do not
    meet each.
    """
    rules = checked(rules)
    pace = pace or Pace(every=EVERY)
    if output.stream is None:
        output = msgspec.structs.replace(output, stream=STREAM_NAME)
    if pace.until_closed:
        refuse_loops(source, [output.stream])
    output.prepare(None)
    name = str(output.stream).lstrip("/")
    rows = _judged(spark, source, pace, schema, rules).where(f.col(STREAM) != name)
    partial = rows.withColumn("at", f.unix_millis(f.current_timestamp())).mapInArrow(_summed_up, _PARTIAL)
    options = source_options(source.source())
    reports = partial.groupBy(STREAM).applyInPandasWithState(
        _reporting(options), "value string", "seen string", "append", GroupStateTimeout.NoTimeout
    )
    writer = reports.writeStream.format(FORMAT).options(**output.sink(), stream=name)
    meter = Meter(on_progress)
    meter.run(spark, writer, pace, located(checkpoint))
    return meter.progress


def _judged(
    spark: SparkSession, source: Input, pace: Pace, schema: str | None, rules: Sequence[Rule]
) -> DataFrame:
    """Read messages, with the rules that they do not meet."""
    if not rules:
        return following(spark, source, pace).withColumn(_UNMET, f.array().cast("array<string>"))
    if schema is None:
        read = following(spark, source, pace)
        return read.withColumn(_UNMET, expectations.unmet(read, rules))
    read = records.parsed(following(spark, source, pace, valueType="string"), schema)
    unmet = expectations.unmet(read, rules).alias(_UNMET)
    return read.select(STREAM, OFFSET, f.col(RAW).alias(VALUE), unmet)


def _summed_up(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Count a task's rows by stream; runs on executors. Up to 1000 messages of a batch give its shape."""
    for batch in batches:
        table = pyarrow.Table.from_batches([batch])
        for name in table.column(STREAM).unique().to_pylist():
            rows = table.filter(pyarrow.compute.equal(table.column(STREAM), name))
            values = rows.column(VALUE).cast(pyarrow.binary())
            step = -(-rows.num_rows // _SAMPLED)
            sampled = values.take(list(range(0, rows.num_rows, step))).to_pylist()
            yield pyarrow.RecordBatch.from_pydict(
                {
                    "stream": [name],
                    "rows": [rows.num_rows],
                    "bytes": [pyarrow.compute.sum(pyarrow.compute.binary_length(values)).as_py()],
                    "last": [pyarrow.compute.max(rows.column("offset")).as_py()],
                    "shape": [msgspec.json.encode(merged(map(shape_of, sampled))).decode()],
                    "unmet": [_counted(rows.column(_UNMET))],
                    "at": [rows.column("at")[0].as_py()],
                },
                schema=_ARROW,
            )


def _counted(unmet: pyarrow.ChunkedArray) -> str:
    counts = pyarrow.compute.value_counts(pyarrow.compute.list_flatten(unmet)).to_pylist()
    return msgspec.json.encode({one["values"]: one["counts"] for one in counts}).decode()


def _reporting(options: SourceOptions) -> Callable[..., Iterator[pandas.DataFrame]]:
    def report(
        key: tuple[str], parts: Iterator[pandas.DataFrame], state: GroupState
    ) -> Iterator[pandas.DataFrame]:
        whole = pandas.concat(list(parts))
        seen = msgspec.json.decode(state.get[0], type=_Seen) if state.exists else None
        made = _report(key[0], whole, seen, Server(options))
        # A window without fields is not a change.
        shape = made.fields or (seen.shape if seen is not None else {})
        state.update((msgspec.json.encode(_Seen(made.until, shape)).decode(),))
        yield pandas.DataFrame({"value": [msgspec.json.encode(made).decode()]})

    return report


def _report(name: str, parts: pandas.DataFrame, seen: _Seen | None, server: Server) -> Report:
    """Describe one window of a stream; runs on executors."""
    shape = merged(msgspec.json.decode(one, type=Shape) for one in parts["shape"])
    offset = str(parts["last"].max())
    lag, closed = _behind(server, name, offset)
    changed = drift(seen.shape, shape) if seen is not None and seen.shape and shape else Drift()
    return Report(
        stream=name,
        since=seen.until if seen is not None else None,
        until=_written(int(parts["at"].max())),
        rows=int(parts["rows"].sum()),
        bytes=int(parts["bytes"].sum()),
        lag_bytes=lag,
        offset=offset,
        closed=closed,
        expectations=_summed(parts["unmet"]),
        fields=shape,
        drift=changed or None,
    )


def _summed(parts: Iterable[str]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in parts:
        total.update(msgspec.json.decode(one, type=dict[str, int]))
    return dict(sorted(total.items()))


def _behind(server: Server, name: str, offset: str) -> tuple[int | None, bool]:
    """Return how many bytes a stream holds after an offset, and whether it has ended."""
    try:
        found = server.look(name)
    except errors.MillstreamError:  # it may be deleted; what was read is still reported
        return None, False
    apart = bytes_between(offset, found.tail)
    return (None if apart is None else max(0, apart)), found.closed


def _written(millis: int) -> str:
    at = datetime.datetime.fromtimestamp(millis / 1000, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
