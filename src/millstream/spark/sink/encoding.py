"""Encoding: from Arrow columns to the content of a stream.

    JSON      each row is one message: its `value`, which must be JSON, or an object of its columns
    text      each row is a line
    other     each row's bytes, concatenated

Many rows are encoded at once, without a Python object for each where possible. In a JSON stream everything
is joined by commas, so blocks of rows and single messages are joined alike.
"""

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


def pieces(
    batch: pyarrow.RecordBatch, columns: Columns, kind: Kind, stream: str, max_bytes: int
) -> Iterator[EncodedRows]:
    """Encode rows in pieces of at most `max_bytes`, unless a single row is larger."""
    count = min(batch.num_rows, 1 + batch.nbytes // max_bytes)
    for begin, end in _split(batch.num_rows, count):
        rows = batch.slice(begin, end - begin)
        piece = _piece(rows, columns, kind, stream)
        if len(piece) > max_bytes and rows.num_rows > 1:
            middle = rows.num_rows // 2
            yield from pieces(rows.slice(0, middle), columns, kind, stream, max_bytes)
            yield from pieces(rows.slice(middle), columns, kind, stream, max_bytes)
        else:
            yield piece


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


def _split(rows: int, count: int) -> Iterator[tuple[int, int]]:
    for number in range(count):
        yield rows * number // count, rows * (number + 1) // count


def _piece(rows: pyarrow.RecordBatch, columns: Columns, kind: Kind, stream: str) -> EncodedRows:
    if columns.fields:
        return _as_objects(lambda: objects.joined(rows, columns.fields), kind, stream)
    values = _values_of(rows, stream)
    joined = _joined(values, _BETWEEN[kind])
    if kind is not Kind.JSON:
        return joined + _BETWEEN[kind]
    if _is_messages(joined, values):
        return joined
    return b",".join([_one_message(value, stream) for value in values.to_pylist()])


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
