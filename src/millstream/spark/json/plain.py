"""Plain columns: JSON messages as numbers, booleans and text, parsed in bulk.

Most schemas are flat. For those msgspec decodes an array of messages into typed rows, and rejects all of
it if one value has another type. This is faster than splitting the array and parsing with Arrow.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow
from pyarrow import types

from millstream.spark.json.messages import ColumnArrays, Message

_UNUSUAL = (
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
    OverflowError,
    pyarrow.ArrowInvalid,
)


class PlainParser:
    """Parses an array of messages into columns."""

    def __init__(self, schema: pyarrow.Schema) -> None:
        self._schema = schema
        self._getters = [attrgetter(f"f{number}") for number in range(len(schema))]
        self._row = _row_type(schema)
        self._array = msgspec.json.Decoder(list[self._row])  # type: ignore[name-defined]  # made here
        self._message = msgspec.json.Decoder(self._row)

    def columns(self, array: bytes) -> ColumnArrays | None:
        """Parse an array of messages; None if one of them is unusual."""
        try:
            return self._columns(self._array.decode(array))
        except _UNUSUAL:
            return None

    def each(self, messages: Sequence[Message]) -> tuple[ColumnArrays | None, list[int]]:
        """Parse messages one by one: the columns of the usual ones, and the numbers of the unusual ones.

        The columns are None if a value is too large for one.
        """
        rows, unusual, decode = [], [], self._message.decode
        for number, message in enumerate(messages):
            try:
                rows.append(decode(message))
            except _UNUSUAL:
                unusual.append(number)
        try:
            return self._columns(rows), unusual
        except _UNUSUAL:
            return None, unusual

    def _columns(self, rows: list[Any]) -> ColumnArrays:
        return {
            field.name: pyarrow.array(list(map(get, rows)), field.type)
            for field, get in zip(self._schema, self._getters, strict=True)
        }


def plain_parser(schema: pyarrow.Schema) -> PlainParser | None:
    """Make a parser; None if the schema is not flat."""
    if not len(schema) or not all(_python_type(field.type) for field in schema):
        return None
    try:
        return PlainParser(schema)
    except ValueError:  # names that must be escaped in JSON
        return None


def _row_type(schema: pyarrow.Schema) -> type[msgspec.Struct]:
    fields = [(f"f{number}", _python_type(field.type) | None, None) for number, field in enumerate(schema)]
    names = {f"f{number}": field.name for number, field in enumerate(schema)}
    return msgspec.defstruct("Row", fields, rename=names, gc=False)


def _python_type(kind: pyarrow.DataType) -> Any:
    if types.is_boolean(kind):
        return bool
    if types.is_integer(kind):
        return int
    if types.is_float32(kind) or types.is_float64(kind):
        return float
    return str if types.is_string(kind) else None
