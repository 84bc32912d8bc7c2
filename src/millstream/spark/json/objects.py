"""Objects: rows as JSON, encoded column by column, without a Python object for each value.

Arrow formats numbers, booleans and text; only values of other types, and text that needs escapes, are
encoded one by one.

        n        text         {"n":     1    ,"text":"    one    "}
        1        one          {"n":     2    ,"text":"    two    "}
        2        two          `--------------- columns and literals, joined row by row
"""

from typing import Any

import msgspec
import numpy
import pyarrow
from pyarrow import compute, types

from millstream.client.core import bodies

_QUOTE = '"'
_SPECIAL = (b'"', b"\\")
_FIRST_PRINTABLE = 0x20


class UnsupportedTypeError(ValueError):
    """JSON has no representation for the type of a column."""


def _refuse(value: Any) -> Any:
    raise UnsupportedTypeError(
        f"JSON has no type for a {type(value).__name__}; cast the column, for instance to string"
    )


_encode = msgspec.json.Encoder(decimal_format="number", enc_hook=_refuse).encode


def objects(rows: pyarrow.RecordBatch, fields: tuple[str, ...], ending: str = "") -> pyarrow.Array:
    """Encode each row as an object, followed by `ending`; raises ValueError or KeyError."""
    columns: list[pyarrow.Array | str] = []
    before = "{"
    for name in fields:
        quote, texts = _texts(rows.column(rows.schema.get_field_index(name)))
        columns += [f"{before}{_encode(name).decode()}:{quote}", texts]
        before = f"{quote},"
    return compute.binary_join_element_wise(*columns, f"{before[:-1]}}}{ending}", "")


def joined(rows: pyarrow.RecordBatch, fields: tuple[str, ...]) -> tuple[memoryview, list[int]]:
    """Encode rows as objects, each followed by a comma; returns where each begins, and the end."""
    made = objects(rows, fields, ending=",")
    bounds = numpy.frombuffer(made.buffers()[1], numpy.int32)[made.offset : made.offset + len(made) + 1]
    return _content(made), (bounds - bounds[0]).tolist()


def _texts(column: pyarrow.Array) -> tuple[str, pyarrow.Array]:
    """Encode a column's values; returns the quotes separately if all values have them."""
    kind = column.type
    if types.is_string(kind) and not _has_special(column):
        if not column.null_count:
            return _QUOTE, column
        return "", compute.binary_join_element_wise(_QUOTE, column, _QUOTE, "").fill_null("null")
    if types.is_integer(kind) or types.is_boolean(kind):
        return "", column.cast(pyarrow.string()).fill_null("null")
    if types.is_float32(kind) or types.is_float64(kind):
        return "", _floats(column).fill_null("null")
    return "", pyarrow.array(_one_by_one(column), pyarrow.string())


def _has_special(column: pyarrow.Array) -> bool:
    """Return whether a text needs escapes in JSON."""
    content = bytes(_content(column))  # a copy, because `in` on bytes is the fastest search
    if not content:
        return False
    first = numpy.frombuffer(content, numpy.uint8).min()
    return first < _FIRST_PRINTABLE or any(special in content for special in _SPECIAL)


def _content(column: pyarrow.Array) -> memoryview:
    """Return the bytes of all texts, which are contiguous."""
    _, ends, content = column.buffers()
    if content is None:
        return memoryview(b"")
    bounds = numpy.frombuffer(ends, numpy.int32)
    return memoryview(content)[bounds[column.offset] : bounds[column.offset + len(column)]]


def _floats(column: pyarrow.Array) -> pyarrow.Array:
    """Format numbers so that they are read as floats again: Arrow omits the `.0`."""
    if not compute.all(compute.is_finite(column), min_count=0).as_py():
        bodies.refuse_nan(column.to_pylist())
    texts = column.cast(pyarrow.string())
    is_whole = compute.equal(column, compute.trunc(column))
    whole = texts.filter(is_whole)
    if not len(whole):
        return texts
    with_point = compute.binary_join_element_wise(whole, ".0", "")
    written = compute.if_else(compute.match_substring(whole, "e"), whole, with_point)
    return compute.replace_with_mask(texts, is_whole, written)


def _one_by_one(column: pyarrow.Array) -> list[bytes]:
    if _contains(column.type, types.is_map):
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    else:
        values = column.to_pylist()
    if _contains(column.type, types.is_floating):
        bodies.refuse_nan(values)
    return [_encode(value) for value in values]


def _contains(kind: pyarrow.DataType, wanted: Any) -> bool:
    return wanted(kind) or any(_contains(kind.field(n).type, wanted) for n in range(kind.num_fields))
