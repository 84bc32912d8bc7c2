"""Encoding: from Arrow columns to the content of a stream.

    JSON      each row is one message: its `value`, which must be JSON, or an object of its columns
    text      each row is a line
    other     each row's bytes, concatenated

Many rows are encoded at once, without a Python object for each where possible. In a JSON stream everything
is joined by commas, so blocks of rows and single messages are joined alike.
"""

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy
import pyarrow
from pyarrow import compute

from millstream.client.core import bodies
from millstream.protocol.content import Kind
from millstream.spark.json import objects
from millstream.spark.sink.columns import VALUE, Columns, RowError

_array = msgspec.json.Decoder(list[msgspec.Raw])
_BETWEEN = {Kind.JSON: b",", Kind.TEXT: b"\n", Kind.BINARY: b""}
_SHOWN = 80

EncodedRows = bytes | memoryview
"""Some rows of a stream, as the bytes that are appended."""
_Written = TypeVar("_Written")


class Encoded(msgspec.Struct, frozen=True):
    """Rows that were encoded at once: where each begins, and how many bytes of a separator end each."""

    content: EncodedRows
    bounds: list[int]
    separator: int

    def pieces(self, begin: int, end: int, max_bytes: int) -> Iterator[EncodedRows]:
        """Cut out some rows, in pieces of at most `max_bytes`, unless a single row is larger."""
        while begin < end:
            most = self.bounds[begin] + max_bytes + self.separator
            stop = max(begin + 1, bisect.bisect_right(self.bounds, most, begin, end + 1) - 1)
            yield self._cut(begin, stop)
            begin = stop

    def _cut(self, begin: int, end: int) -> EncodedRows:
        if end - begin == len(self.bounds) - 1:
            return self.content[: self.bounds[end] - self.separator]
        # A copy: a view of a few rows would keep the whole batch in memory for as long as they wait.
        return bytes(self.content[self.bounds[begin] : self.bounds[end] - self.separator])


class Encoder:
    """Encodes the rows of a batch together, whatever their streams: a call costs as much as 200 rows."""

    def __init__(self, rows: pyarrow.RecordBatch, columns: Columns) -> None:
        self._rows = rows
        self._columns = columns
        self._together: dict[Kind, Encoded | None] = {}

    def pieces(self, begin: int, end: int, kind: Kind, stream: str, max_bytes: int) -> Iterator[EncodedRows]:
        """Return the rows of one stream, in pieces of at most `max_bytes`."""
        if kind not in self._together:
            self._together[kind] = self._all(kind, stream)
        together = self._together[kind]
        if together is not None:
            return together.pieces(begin, end, max_bytes)
        alone = _encoded(self._rows.slice(begin, end - begin), self._columns, kind, stream)
        return alone.pieces(0, end - begin, max_bytes)

    def _all(self, kind: Kind, stream: str) -> Encoded | None:
        try:
            return _encoded(self._rows, self._columns, kind, stream)
        except (
            RowError
        ):  # a row of one stream is at fault, which is found and named by encoding each by itself
            return None


def portions(batch: pyarrow.RecordBatch, max_bytes: int) -> Iterator[pyarrow.RecordBatch]:
    """Split a batch that holds more than `max_bytes`, so that encoding takes a limited amount of memory."""
    count = max(1, min(batch.num_rows, 1 + batch.nbytes // max_bytes))
    for number in range(count):
        begin = batch.num_rows * number // count
        yield batch.slice(begin, batch.num_rows * (number + 1) // count - begin)


def messages(batch: pyarrow.RecordBatch, columns: Columns, kind: Kind, stream: str) -> list[bytes]:
    """Encode each row separately."""
    if columns.fields:
        made = _as_objects(lambda: objects.objects(batch, columns.fields), kind, stream)
        return _listed(made.cast(pyarrow.binary()))
    values = _values_of(batch, stream)
    found = _listed(values)
    if kind is Kind.TEXT:
        return [value + b"\n" for value in found]
    if kind is Kind.JSON and not _is_messages(_joined(values, b","), values):
        return [_one_message(value, stream) for value in found]
    return found


def join(pieces: Sequence[EncodedRows], kind: Kind) -> bytes:
    """Join pieces into one body."""
    return bodies.join(pieces, as_json=kind is Kind.JSON)


def _encoded(rows: pyarrow.RecordBatch, columns: Columns, kind: Kind, stream: str) -> Encoded:
    if columns.fields:
        return Encoded(*_as_objects(lambda: objects.joined(rows, columns.fields), kind, stream), len(b","))
    values, between = _values_of(rows, stream), _BETWEEN[kind]
    content = _joined(values, between) + between
    lengths = compute.binary_length(values).to_numpy()
    if kind is Kind.JSON and not _is_messages(content[:-1], values):
        messages = [_one_message(value, stream) for value in values.to_pylist()]
        content = b",".join([*messages, b""])
        lengths = numpy.fromiter(map(len, messages), numpy.int64, len(messages))
    bounds = [0, *numpy.cumsum(lengths + len(between), dtype=numpy.int64).tolist()]
    return Encoded(content, bounds, len(between) if kind is Kind.JSON else 0)


# -- Values ----------------------------------------------------------------------------------------


def _values_of(rows: pyarrow.RecordBatch, stream: str) -> pyarrow.Array:
    values = rows.column(rows.schema.get_field_index(VALUE)).cast(pyarrow.binary())
    if values.null_count:
        raise RowError(
            f"a row for {stream} has no value (null), which a stream cannot hold; leave such rows out, "
            "for instance with where('value is not null')"
        )
    return values


def _listed(values: pyarrow.Array) -> list[bytes]:
    found: list[bytes] = values.to_pylist()
    return found


def _joined(values: pyarrow.Array, between: bytes) -> bytes:
    whole = pyarrow.ListArray.from_arrays(pyarrow.array([0, len(values)], pyarrow.int32()), values)
    joined: bytes = compute.binary_join(whole, between)[0].as_py()
    return joined


def _is_messages(joined: bytes, values: pyarrow.Array) -> bool:
    """Return whether each value is one message: `1,2` would silently become two."""
    try:
        found = _array.decode(b"[%b]" % joined)
    except (msgspec.MsgspecError, RecursionError):
        return False
    # Values of the same lengths, separated by one comma each, are the same values.
    if len(found) != len(values):
        return False
    lengths = numpy.fromiter(map(len, found), numpy.int32, len(found))
    return bool(numpy.array_equal(lengths, compute.binary_length(values).to_numpy()))


def _one_message(value: bytes, stream: str) -> bytes:
    try:
        return bodies.message(value.strip(b" \t\r\n"), as_json=True)
    except ValueError as error:
        shown = value[:_SHOWN].decode(errors="replace") + ("..." if len(value) > _SHOWN else "")
        raise RowError(
            f"a row for {stream} is not JSON: {shown!r} ({error}). Make it JSON, for instance with "
            "to_json, or write to a stream of another content type"
        ) from None


# -- Rows as objects -----------------------------------------------------------------------------


def _as_objects(write: Callable[[], _Written], kind: Kind, stream: str) -> _Written:
    """Encode rows as objects, or raise why that is not possible."""
    if kind is not Kind.JSON:
        raise RowError(
            f"{stream} does not hold JSON, so its rows need a column value of text or bytes; "
            "make one, or write to a stream of application/json"
        )
    try:
        return write()
    except objects.UnsupportedTypeError as error:
        raise RowError(f"a row for {stream} cannot be JSON: {error}") from None
    except (ValueError, KeyError) as error:
        raise RowError(f"a row for {stream} cannot be JSON: {error}; replace or cast it") from None
