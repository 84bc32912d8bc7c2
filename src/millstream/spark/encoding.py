"""Encoding: from Arrow columns to the messages of a stream.

JSON      each row is one message: its `value`, which must be JSON, or an object of its columns
text      each row is a line
other     each row's bytes, one after the other
"""

import json
from typing import Any

import msgspec
import pyarrow

from millstream.client import bodies
from millstream.protocol.content import Kind
from millstream.spark.columns import VALUE, Columns

_rows = msgspec.json.Encoder(decimal_format="number")
_array = msgspec.json.Decoder(list[msgspec.Raw])
_SHOWN = 80


class RowError(ValueError):
    """A row cannot be written as its stream wants it."""


def encode(batch: pyarrow.RecordBatch, columns: Columns, kind: Kind, stream: str) -> list[bytes]:
    """Give each row as the bytes of its stream."""
    if columns.fields:
        if kind is not Kind.JSON:
            raise RowError(
                f"{stream} does not hold JSON, so its rows need a column value of text or bytes; "
                "make one, or write to a stream of application/json"
            )
        return _objects(batch, columns.fields, stream)
    values = _bytes_of(batch.column(batch.schema.get_field_index(VALUE)), stream)
    if kind is Kind.JSON:
        return _checked(values, stream)
    if kind is Kind.TEXT:
        return [value + b"\n" for value in values]
    return values


def join(messages: list[bytes], kind: Kind) -> bytes:
    """Put messages into one body."""
    return bodies.join(messages, as_json=kind is Kind.JSON)


def _bytes_of(column: pyarrow.Array, stream: str) -> list[bytes]:
    if column.null_count:
        raise RowError(
            f"a row for {stream} has no value (null), which a stream cannot hold; leave such rows out, "
            "for instance with where('value is not null')"
        )
    values: list[bytes] = column.cast(pyarrow.binary()).to_pylist()
    return values


def _checked(values: list[bytes], stream: str) -> list[bytes]:
    """Make sure that each value is one message: text such as `1,2` would be two, without a word."""
    try:
        found = _array.decode(b"[%b]" % b",".join(values))
    except (msgspec.MsgspecError, RecursionError):
        found = []
    # Pieces of the same lengths, with one comma between them, are the same pieces.
    if list(map(len, found)) == list(map(len, values)):
        return values
    return [_one_message(value, stream) for value in values]


def _one_message(value: bytes, stream: str) -> bytes:
    try:
        return bodies.message(value.strip(b" \t\r\n"), as_json=True)
    except ValueError as error:
        shown = value[:_SHOWN].decode(errors="replace") + ("..." if len(value) > _SHOWN else "")
        raise RowError(
            f"a row for {stream} is not JSON: {shown!r} ({error}). Make it JSON, for instance with "
            "to_json, or write to a stream of another content type"
        ) from None


def _objects(batch: pyarrow.RecordBatch, fields: tuple[str, ...], stream: str) -> list[bytes]:
    try:
        found = [
            batch.column(batch.schema.get_field_index(name)).to_pylist(maps_as_pydicts="strict")
            for name in fields
        ]
        rows: list[dict[str, Any]] = [dict(zip(fields, row, strict=True)) for row in zip(*found, strict=True)]
        written = [_rows.encode(row) for row in rows]
    except UnicodeEncodeError:
        written = [json.dumps(row, allow_nan=False, separators=(",", ":")).encode() for row in rows]
    except (msgspec.MsgspecError, TypeError, ValueError, KeyError) as error:
        raise RowError(f"a row for {stream} cannot be JSON: {error}; cast its columns") from None
    for row, text in zip(rows, written, strict=True):
        if b"null" in text:
            _refuse_nan(row, stream)
    return written


def _refuse_nan(row: dict[str, Any], stream: str) -> None:
    """Tell a null from a number that JSON does not have."""
    try:
        bodies.refuse_nan(row)
    except ValueError as error:
        raise RowError(
            f"a row for {stream} cannot be JSON: {error}; replace it, for instance by null"
        ) from None
