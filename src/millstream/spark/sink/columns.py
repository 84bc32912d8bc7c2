"""Columns: what the columns of a table mean.

    stream    names the row's stream, if the option `stream` does not
    value     text or bytes: the content. The source's column `offset` is ignored
    closed    beside `value`, a flag: the row's stream ends with this batch

Without a `value` of text or bytes, a row is an object of all its columns but `stream`, as JSON.
"""

import msgspec
from pyspark.sql.types import BinaryType, BooleanType, StringType, StructType

from millstream.spark.options import SinkOptions

STREAM, VALUE, OFFSET, CLOSED = "stream", "value", "offset", "closed"


class ColumnsError(ValueError):
    """The columns of a table do not say what to write, or where."""


class RowError(ValueError):
    """A row cannot be written to its stream."""


class Columns(msgspec.Struct, frozen=True):
    """What a table's columns mean; `fields` are those of the object, empty if there is a `value`."""

    by_row: bool
    fields: tuple[str, ...]
    has_closed: bool


def columns_of(schema: StructType, options: SinkOptions) -> Columns:
    """Decide what the columns mean."""
    names = schema.fieldNames()
    kinds = {field.name: field.dataType for field in schema.fields}
    if len(kinds) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ColumnsError(f"there are two columns {twice!r}; rename one of them")
    by_row = options.stream is None
    if by_row and STREAM not in kinds:
        raise ColumnsError("there is no column stream and no option stream; name the output with one of them")
    if by_row and not isinstance(kinds[STREAM], StringType):
        raise ColumnsError(f"the column stream is a string, not {kinds[STREAM].simpleString()}")
    if not isinstance(kinds.get(VALUE), StringType | BinaryType):
        fields = tuple(name for name in names if name != STREAM or not by_row)
        if not fields:
            raise ColumnsError("there is nothing to write; add a column value, or columns for an object")
        return Columns(by_row, fields, has_closed=False)
    others = set(names) - {STREAM, VALUE, OFFSET, CLOSED}
    if others:
        raise ColumnsError(
            f"the column {min(others)!r} would be lost, because value alone is written; drop it, "
            "or make one value of all of them with to_json(struct('*'))"
        )
    has_closed = isinstance(kinds.get(CLOSED), BooleanType)
    return Columns(by_row, (), has_closed)
