"""Texts: columns of times, dates and bytes, which JSON writes as text.

They are parsed as text, and then converted, a column at once where it is all of the usual form. If a text is
not of its column's type, nothing is converted: the messages are then parsed one by one.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

import pyarrow
from pyarrow import compute, types

from millstream.spark.json.messages import ColumnArrays
from millstream.spark.json.parsing import Formats

_DAY = r"^\d{4}-\d{2}-\d{2}$"
_TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?"
_WITH_ZONE = rf"{_TIME}(Z|[+-](0\d|1[0-7]):[0-5]\d)$"
_WITHOUT_ZONE = rf"{_TIME}$"
_MICROS = pyarrow.timestamp("us")

Convert = Callable[[pyarrow.Array, pyarrow.DataType], pyarrow.Array | None]


class Texts:
    """The columns of a schema that are text in JSON."""

    def __init__(self, schema: pyarrow.Schema, formats: Formats) -> None:
        self._formats = formats
        self._columns = {
            field.name: (field.type, self._converter(field.type)) for field in schema if _is_text(field.type)
        }
        self.raw = pyarrow.schema(
            [field.with_type(pyarrow.string()) if _is_text(field.type) else field for field in schema]
        )
        """The schema as which messages are parsed."""
        self.are_nested = any(_holds_text(field.type) for field in self.raw)
        """Whether such values are inside of others; these are parsed one by one."""

    def converted(self, made: ColumnArrays) -> ColumnArrays | None:
        """Convert the columns; None if a value does not fit its type."""
        for name, (kind, convert) in self._columns.items():
            column = convert(made[name], kind)
            if column is None:
                return None
            made[name] = column
        return made

    def _converter(self, kind: pyarrow.DataType) -> Convert:
        if types.is_timestamp(kind):
            one_by_one = _each(self._formats.micros())
            if self._formats.timestamp is not None:
                return one_by_one
            return _usual_or(self._formats.zone == "UTC", one_by_one)
        if types.is_date32(kind):
            one_by_one = _each(self._formats.days())
            return one_by_one if self._formats.date is not None else _usual_or(True, one_by_one)
        return _each(_bytes)


def _usual_or(is_utc: bool, one_by_one: Convert) -> Convert:
    """Let Arrow convert columns of the usual form, and others value by value."""

    def convert(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array | None:
        try:
            if types.is_date32(kind):
                if _all_match(column, _DAY):
                    return column.cast(kind)
            elif _all_match(column, _WITH_ZONE):
                return column.cast(kind)
            elif is_utc and _all_match(column, _WITHOUT_ZONE):
                return column.cast(_MICROS).cast(kind)
        except pyarrow.ArrowInvalid:  # a day or a time that there is not
            pass
        return one_by_one(column, kind)

    return convert


def _each(parse: Callable[[str], Any]) -> Convert:
    """Convert value by value, each only once."""

    def convert(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array | None:
        coded = column.dictionary_encode()
        values = [parse(text) for text in coded.dictionary.to_pylist()]
        if any(value is None for value in values):
            return None
        return pyarrow.array(values, kind).take(coded.indices)

    return convert


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _all_match(column: pyarrow.Array, pattern: str) -> bool:
    matching = compute.match_substring_regex(column, pattern)
    return bool(compute.all(matching, min_count=0).as_py())


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(types.is_timestamp(kind) or types.is_date32(kind) or types.is_binary(kind))


def _holds_text(kind: pyarrow.DataType) -> bool:
    return _is_text(kind) or any(_holds_text(kind.field(n).type) for n in range(kind.num_fields))
