"""Batches: rows as Arrow record batches of about 10,000 rows.

Values go from received bytes into Arrow's buffers without becoming Python strings. A batch ends early when
its values are large, so memory is bounded.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy
import pyarrow
from pyarrow import compute

from millstream.client.core import errors
from millstream.protocol.content import Kind
from millstream.spark.json.fields import FieldParser, Fields
from millstream.spark.json.messages import ColumnArrays, Message, Numbers
from millstream.spark.source.ranges import Rows, Unsplit

MAX_ROWS = 10_000
MAX_BYTES = 8 * 2**20

_OFFSET_DIGITS = 16
_TIMESTAMP = pyarrow.timestamp("us", tz="UTC")


class ValueTypeError(errors.MillstreamError):
    """A stream's content does not match the type of the column `value`."""

    default_code = "VALUE_TYPE"


class ArrivalTimeError(errors.MillstreamError):
    """The server does not know when content arrived."""

    default_code = "NO_ARRIVAL_TIMES"


class End(msgspec.Struct, frozen=True):
    """The end of a stream: a row of its own, if the column `closed` is included."""

    stream: str
    offset: str


def record_batches(
    found: Iterable[Rows | Unsplit | End], schema: pyarrow.Schema, fields: Fields | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """Group rows into batches with the schema's columns; `fields` are those parsed from messages."""
    if fields is not None and fields.drops and fields.corrupt is not None:
        yield from _without_corrupt(found, schema, fields, fields.corrupt)
        return
    parser = FieldParser(fields) if fields is not None else None
    batch = _Batch(schema, parser)
    for one in found:
        if isinstance(one, Unsplit):
            made = parser.whole(one.whole.array) if parser is not None else None
            if made is not None:
                if batch.rows:
                    yield batch.finish()
                    batch = _Batch(schema, parser)
                yield from _slices(one.stream, one.whole.time, made, schema)
                continue
            one = one.rows()
        if isinstance(one, End):
            batch.add_end(one)
        else:
            numbers = _numbers(one)
            at = 0
            while at < len(one.values):
                if batch.is_full:
                    yield batch.finish()
                    batch = _Batch(schema, parser)
                end = min(len(one.values), at + MAX_ROWS - batch.rows)
                batch.add(one, one.values[at:end], one.lengths[at:end], numbers[at:end])
                at = end
        if batch.is_full:
            yield batch.finish()
            batch = _Batch(schema, parser)
    if batch.rows:
        yield batch.finish()


def _without_corrupt(
    found: Iterable[Rows | Unsplit | End], schema: pyarrow.Schema, fields: Fields, corrupt: str
) -> Iterator[pyarrow.RecordBatch]:
    """Leave out the rows of corrupt messages."""
    marked = schema if corrupt in schema.names else schema.append(pyarrow.field(corrupt, pyarrow.string()))
    for batch in record_batches(found, marked, msgspec.structs.replace(fields, drops=False)):
        fitting = batch.filter(compute.is_null(batch.column(marked.get_field_index(corrupt))))
        if fitting.num_rows:
            yield fitting.select(schema.names)


def needs_rows(schema: pyarrow.Schema) -> bool:
    """Return whether a column needs messages to be split."""
    return "offset" in schema.names or "value" in schema.names


def row_counts(counted: Iterable[tuple[str, int]], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Make a batch of how many rows ranges have."""
    found = list(counted)
    made = {"stream": [stream for stream, _ in found], "rows": [rows for _, rows in found]}
    return pyarrow.RecordBatch.from_pydict({name: made[name] for name in schema.names}, schema=schema)


def _slices(
    stream: str, time: str | None, made: ColumnArrays, schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """Slice the columns of many messages into batches."""
    count = len(next(iter(made.values())))
    own = {
        "stream": lambda: pyarrow.repeat(pyarrow.scalar(stream), count),
        "closed": lambda: pyarrow.repeat(pyarrow.scalar(False), count),
        "timestamp": lambda: pyarrow.repeat(_time(time, stream), count),
    }
    columns = [made[name] if name in made else own[name]() for name in schema.names]
    whole = pyarrow.RecordBatch.from_arrays(columns, schema=schema)
    for begin in range(0, count, MAX_ROWS):
        yield whole.slice(begin, MAX_ROWS)


class _Batch:
    """The columns of one batch, segment by segment."""

    def __init__(self, schema: pyarrow.Schema, parser: FieldParser | None) -> None:
        self._schema = schema
        self._parser = parser
        self._columns: dict[str, list[pyarrow.Array]] = {name: [] for name in schema.names}
        fields = parser.names if parser is not None else ()
        self._has_time = "timestamp" in schema.names and "timestamp" not in fields
        self.rows = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self.rows >= MAX_ROWS or self._bytes >= MAX_BYTES

    def add(self, rows: Rows, values: list[Message], lengths: Numbers, numbers: Numbers) -> None:
        self.rows += len(values)
        self._bytes += int(lengths.sum())
        self._put("stream", lambda _: pyarrow.repeat(pyarrow.scalar(rows.stream), len(values)))
        self._put("offset", lambda _: _offsets(rows.prefix, numbers))
        self._put("value", lambda kind: _values(rows, values, lengths, kind))
        self._put("closed", lambda _: pyarrow.repeat(pyarrow.scalar(False), len(values)))
        if self._has_time:
            self._put("timestamp", lambda _: pyarrow.repeat(_time(rows.time, rows.stream), len(values)))
        if self._parser is not None:
            for name, column in _fields(self._parser, rows, values, lengths).items():
                self._columns[name].append(column)

    def add_end(self, end: End) -> None:
        self.rows += 1
        self._put("stream", lambda _: pyarrow.array([end.stream]))
        self._put("offset", lambda _: pyarrow.array([end.offset]))
        self._put("closed", lambda _: pyarrow.array([True]))
        for name in self._columns.keys() - {"stream", "offset", "closed"}:
            self._put(name, lambda kind: pyarrow.nulls(1, kind))

    def _put(self, name: str, make: Callable[[pyarrow.DataType], pyarrow.Array]) -> None:
        if name in self._columns:
            self._columns[name].append(make(self._schema.field(name).type))

    def finish(self) -> pyarrow.RecordBatch:
        columns = [
            segments[0] if len(segments) == 1 else pyarrow.concat_arrays(segments)
            for segments in self._columns.values()
        ]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)


def _time(written: str | None, stream: str) -> pyarrow.Scalar:
    if written is None:
        raise ArrivalTimeError(f"the server does not say when {stream} arrived; leave includeTimestamp out")
    return pyarrow.scalar(datetime.datetime.fromisoformat(written), _TIMESTAMP)


def _numbers(rows: Rows) -> Numbers:
    """Compute the number in each row's offset: where it ends."""
    if rows.counts_rows:
        return rows.before + numpy.arange(1, len(rows.values) + 1)
    return rows.before + numpy.cumsum(rows.lengths + rows.gap)


def _offsets(prefix: str, numbers: Numbers) -> pyarrow.Array:
    digits = compute.utf8_lpad(pyarrow.array(numbers).cast(pyarrow.string()), _OFFSET_DIGITS, "0")
    return compute.binary_join_element_wise(prefix, digits, "")


def _values(rows: Rows, values: list[Message], lengths: Numbers, kind: pyarrow.DataType) -> pyarrow.Array:
    if kind == pyarrow.binary():
        return _from_buffers(values, lengths, kind)
    if rows.kind is Kind.BINARY:
        raise ValueTypeError(
            f"{rows.stream} holds {rows.content_type}, which is not text; set the option valueType to binary"
        )
    made = _from_buffers(values, lengths, kind)
    try:
        made.validate(full=True)
    except pyarrow.ArrowInvalid:  # text split inside a character, or not UTF-8
        replaced = [bytes(value).decode(errors="replace") for value in values]
        return pyarrow.array(replaced, pyarrow.string())
    return made


def _fields(parser: FieldParser, rows: Rows, values: list[Message], lengths: Numbers) -> ColumnArrays:
    if rows.kind is not Kind.JSON:
        raise ValueTypeError(
            f"{rows.stream} holds {rows.content_type}, which has no fields; read its column value"
        )
    return parser.columns(values, lengths, rows.stream)


def _from_buffers(values: list[Message], lengths: Numbers, kind: pyarrow.DataType) -> pyarrow.Array:
    ends = numpy.zeros(len(values) + 1, numpy.int32)
    numpy.cumsum(lengths, out=ends[1:])
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(values))]
    return pyarrow.Array.from_buffers(kind, len(values), buffers)
