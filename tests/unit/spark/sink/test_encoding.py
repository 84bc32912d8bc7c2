"""Encoding: every row is one message, in pieces that are never too large."""

import json
from collections.abc import Iterator
from typing import Any

import numpy
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.content import Kind
from millstream.spark.sink.columns import Columns, RowError
from millstream.spark.sink.encoding import EncodedRows, Encoder, join, messages

VALUE = Columns(by_row=False, fields=(), has_closed=False)
OBJECT = Columns(by_row=False, fields=("a b", "n"), has_closed=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def pieces(
    rows: pyarrow.RecordBatch, columns: Columns, kind: Kind, stream: str, max_bytes: int
) -> Iterator[EncodedRows]:
    return Encoder(rows, columns).pieces(0, rows.num_rows, kind, stream, max_bytes)


def _values(values: list[Any]) -> pyarrow.RecordBatch:
    return pyarrow.record_batch([pyarrow.array(values, pyarrow.string())], names=["value"])


@given(st.lists(JSON, min_size=1, max_size=30), st.integers(1, 200), st.booleans())
def test_json_arrives_as_it_was_in_pieces_of_any_size(found: list[Any], max_bytes: int, spaced: bool) -> None:
    texts = [json.dumps(one) + (" " if spaced else "") for one in found]
    made = list(pieces(_values(texts), VALUE, Kind.JSON, "s", max_bytes))
    assert json.loads(join(made, Kind.JSON)) == found
    assert join(made, Kind.JSON) == join(messages(_values(texts), VALUE, Kind.JSON, "s"), Kind.JSON)
    longest = max(len(text.encode()) for text in texts)
    assert all(len(piece) <= max(max_bytes, longest) for piece in made)


@given(st.lists(st.text(max_size=9), min_size=1, max_size=6))
def test_what_is_not_one_message_never_passes(values: list[str]) -> None:
    """However rows complete each other when they are joined, each must be JSON by itself."""
    try:
        expected = [json.loads(value, parse_constant=_refuse) for value in values]
    except ValueError:
        with pytest.raises(RowError):
            list(pieces(_values(values), VALUE, Kind.JSON, "s", 1000))
    else:
        made = list(pieces(_values(values), VALUE, Kind.JSON, "s", 1000))
        assert json.loads(join(made, Kind.JSON)) == expected


@given(st.lists(st.tuples(st.text(max_size=9), st.none() | st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_objects_have_all_columns_by_their_names(rows: list[tuple[str, int | None]]) -> None:
    texts, numbers = zip(*rows, strict=True)
    batch = pyarrow.record_batch(
        [pyarrow.array(texts, pyarrow.string()), pyarrow.array(numbers, pyarrow.int64())],
        names=["a b", "n"],
    )
    made = list(pieces(batch, OBJECT, Kind.JSON, "s", 50))
    assert json.loads(join(made, Kind.JSON)) == [{"a b": text, "n": number} for text, number in rows]
    assert join(made, Kind.JSON) == join(messages(batch, OBJECT, Kind.JSON, "s"), Kind.JSON)


PLAIN: list[tuple[pyarrow.DataType, st.SearchStrategy[Any]]] = [
    (pyarrow.int8(), st.integers(-128, 127)),
    (pyarrow.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pyarrow.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pyarrow.float32(), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    (pyarrow.bool_(), st.booleans()),
    (pyarrow.string(), st.text(max_size=5)),
    (pyarrow.string(), st.text("ab\u00e9\U0001f600", max_size=5)),
    (pyarrow.list_(pyarrow.float64()), st.lists(st.floats(-9, 9), max_size=3)),
    (
        pyarrow.struct([("x", pyarrow.string())]),
        st.fixed_dictionaries({"x": st.none() | st.text(max_size=3)}),
    ),
]


@given(st.data(), st.integers(0, 3))
def test_every_value_is_what_it_was_and_so_is_its_type(data: st.DataObject, skipped: int) -> None:
    """Columns are written as a whole, also those that are a part of a larger one."""
    rows = skipped + data.draw(st.integers(1, 12))
    chosen = data.draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=4))
    columns = [data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows)) for _, values in chosen]
    names = tuple(f"c{number}" for number in range(len(chosen)))
    arrays = [pyarrow.array(found, kind) for found, (kind, _) in zip(columns, chosen, strict=True)]
    batch = pyarrow.record_batch(arrays, names=list(names)).slice(skipped)
    made = join(list(pieces(batch, Columns(False, names, False), Kind.JSON, "s", 10**6)), Kind.JSON)
    for number, (row, wanted) in enumerate(zip(json.loads(made), batch.to_pylist(), strict=True)):
        for name, (kind, _) in zip(names, chosen, strict=True):
            if kind == pyarrow.float32() and row[name] is not None:  # as short as 32 bits allow
                row[name] = float(numpy.float32(row[name]))
        assert repr(row) == repr(wanted), f"row {number}"


def test_text_ends_every_row_with_a_line_break_and_bytes_nothing() -> None:
    for kind, expected in ((Kind.TEXT, b"a\nb\n"), (Kind.BINARY, b"ab")):
        assert join(list(pieces(_values(["a", "b"]), VALUE, kind, "s", 100)), kind) == expected
        assert join(messages(_values(["a", "b"]), VALUE, kind, "s"), kind) == expected


@given(st.lists(st.lists(JSON, min_size=1, max_size=5), min_size=1, max_size=6), st.integers(1, 60))
def test_streams_whose_rows_are_encoded_together_have_what_each_would_have_alone(
    streams: list[list[Any]], max_bytes: int
) -> None:
    texts = [[json.dumps(one, separators=(",", ":")) for one in found] for found in streams]
    for columns, name in ((VALUE, "value"), (Columns(False, ("a b",), False), "a b")):
        whole = pyarrow.record_batch([[text for found in texts for text in found]], names=[name])
        encoder, begin = Encoder(whole, columns), 0
        for found in texts:
            alone = pyarrow.record_batch([found], names=[name])
            kinds = [Kind.JSON] if columns.fields else [Kind.JSON, Kind.TEXT, Kind.BINARY]
            for kind in kinds:
                made = list(encoder.pieces(begin, begin + len(found), kind, "s", max_bytes))
                assert join(made, kind) == join(messages(alone, columns, kind, "s"), kind)
            begin += len(found)


def test_a_stream_whose_row_is_at_fault_is_named_and_the_others_are_encoded() -> None:
    encoder = Encoder(_values(["1", "2", "no", "3"]), VALUE)
    assert join(list(encoder.pieces(0, 2, Kind.JSON, "first", 100)), Kind.JSON) == b"[1,2]"
    with pytest.raises(RowError, match="a row for second is not JSON: 'no'"):
        list(encoder.pieces(2, 3, Kind.JSON, "second", 100))
    assert join(list(encoder.pieces(3, 4, Kind.JSON, "third", 100)), Kind.JSON) == b"[3]"


def test_numbers_that_json_lacks_are_found_however_deep() -> None:
    for column in (
        pyarrow.array([1.0, float("nan")]),
        pyarrow.array([[1.0], [float("inf")]]),
        pyarrow.array([{"x": 1.0}, {"x": float("-inf")}]),
    ):
        batch = pyarrow.record_batch([column], names=["n"])
        with pytest.raises(RowError, match="is not JSON"):
            list(pieces(batch, Columns(False, ("n",), False), Kind.JSON, "s", 100))


def _refuse(name: str) -> None:
    raise ValueError(name)
