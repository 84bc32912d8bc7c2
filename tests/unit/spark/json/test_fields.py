"""Fields: what Arrow parses at once and what is parsed one by one mean the same."""

import math
from decimal import Decimal
from typing import Any

import numpy
import pyarrow
import pytest

from millstream.spark.json.fields import RUN_ROWS, CorruptRecordError, FieldParser, Fields
from millstream.spark.json.parsing import MessageParser

TEXT, LONG = pyarrow.string(), pyarrow.int64()


def parse(
    messages: list[bytes], schema: dict[str, Any], *, corrupt: str | None = None, fails: bool = False
) -> list[dict[str, Any]]:
    fields = Fields(pyarrow.schema(list(schema.items())), corrupt, fails)
    lengths = numpy.array([len(message) for message in messages], numpy.int64)
    columns = FieldParser(fields).columns(messages, lengths, "log")
    return pyarrow.RecordBatch.from_arrays(list(columns.values()), list(columns)).to_pylist()


def parse_alone_and_with_others(message: bytes, kind: Any, other: bytes) -> list[Any]:
    """Parse a message alone, beside usual ones, and where something unusual makes Arrow refuse."""
    schema = {"a": kind}
    alone = parse([message], schema)[0]["a"]
    usual = parse([b"{}", message, b"{}"], schema)[1]["a"]
    unusual = parse([b"null", message, other], schema)[1]["a"]
    return [alone, usual, unusual]


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (LONG, b"9223372036854775807", 2**63 - 1),
        (LONG, b"-0", 0),
        (LONG, b"9223372036854775808", None),
        (LONG, b"1.0", None),
        (LONG, b'"1"', None),
        (LONG, b"true", None),
        (LONG, b"null", None),
        (pyarrow.int8(), b"-128", -128),
        (pyarrow.int8(), b"128", None),
        (pyarrow.float64(), b"1", 1.0),
        (pyarrow.float64(), b"0.1", 0.1),
        (pyarrow.float64(), b'"-Infinity"', float("-inf")),
        (pyarrow.float64(), b'"1"', None),
        (pyarrow.bool_(), b"true", True),
        (pyarrow.bool_(), b"1", None),
        (TEXT, b'"\\u00e4\\ud83d\\ude00\\n"', "ä😀\n"),
        (TEXT, b'"\\ud83d!"', "?!"),
        (TEXT, b"12345678901234567890123", "12345678901234567890123"),
        (TEXT, b"1.50", "1.50"),
        (TEXT, b"true", "true"),
        (TEXT, b'{"b": [1.0, null, "\xc3\xa4"]}', '{"b":[1.0,null,"ä"]}'),
        (pyarrow.decimal128(10, 2), b"1.5", Decimal("1.50")),
        (pyarrow.decimal128(10, 2), b"1.555", Decimal("1.56")),
        (pyarrow.decimal128(10, 2), b"123456789.5", None),
        (pyarrow.decimal128(10, 2), b'"NaN"', None),
        (pyarrow.decimal128(38, 0), b"12345678901234567890123", Decimal(12345678901234567890123)),
        (pyarrow.list_(LONG), b"[1, null]", [1, None]),
        (pyarrow.list_(LONG), b'[1, "x"]', None),
        (pyarrow.list_(LONG), b"1", None),
        (pyarrow.struct([("b", LONG), ("c", TEXT)]), b'{"b": 1}', {"b": 1, "c": None}),
        (pyarrow.struct([("b", LONG), ("c", TEXT)]), b'{"b": "x", "c": "y"}', {"b": None, "c": "y"}),
        (pyarrow.map_(TEXT, LONG), b'{"x": 1, "y": null}', [("x", 1), ("y", None)]),
    ],
)
def test_a_value_means_the_same_however_it_is_parsed(kind: Any, written: bytes, value: Any) -> None:
    message = b'{"z": 0, "a": %b}' % written
    assert parse_alone_and_with_others(message, kind, b"[]") == [value] * 3


@pytest.mark.parametrize("message", [b"1", b'"x"', b"[]", b'[{"a":1}]', b"true", b"{"])
def test_what_is_no_object_is_corrupt(message: bytes) -> None:
    rows = parse([message, b'{"a":2}'], {"a": LONG}, corrupt="bad")
    assert rows == [{"a": None, "bad": message.decode()}, {"a": 2, "bad": None}]


def test_a_null_and_an_empty_object_have_no_fields_and_are_not_corrupt() -> None:
    assert parse([b"null", b"{}"], {"a": LONG}, corrupt="bad") == [{"a": None, "bad": None}] * 2


def test_the_last_of_repeated_names_counts() -> None:
    assert parse([b'{"a":1,"a":2}'], {"a": LONG}) == [{"a": 2}]


def test_line_breaks_inside_messages_separate_nothing() -> None:
    assert parse([b'{\n"a":\r\n1\n}', b'{"a":2}'], {"a": LONG}) == [{"a": 1}, {"a": 2}]


def test_a_misfit_keeps_what_fits_and_its_text_and_its_neighbours() -> None:
    messages = [b'{"a":%d,"b":"x"}' % number for number in range(3 * RUN_ROWS)]
    messages[RUN_ROWS + 7] = b'{"a":"?","b":"y"}'
    rows = parse(messages, {"a": LONG, "b": TEXT}, corrupt="bad")
    assert rows[RUN_ROWS + 7] == {"a": None, "b": "y", "bad": '{"a":"?","b":"y"}'}
    others = [row for number, row in enumerate(rows) if number != RUN_ROWS + 7]
    assert all(row["b"] == "x" and row["bad"] is None for row in others)
    assert [row["a"] for row in others] == [n for n in range(3 * RUN_ROWS) if n != RUN_ROWS + 7]


def test_failing_fast_names_the_stream_and_the_message() -> None:
    with pytest.raises(CorruptRecordError, match=r'log has a message .*\{"a":"x"\}.*option mode'):
        parse([b'{"a":1}', b'{"a":"x"}'], {"a": LONG}, fails=True)


def test_text_that_is_not_utf8_is_replaced() -> None:
    assert parse([b'{"a":"caf\xe9"}'], {"a": TEXT}) == [{"a": "caf\ufffd"}]


def test_deep_nesting_is_passed_over_and_corrupt_only_where_it_must_be_looked_into() -> None:
    nested = b"[" * 50_000 + b"]" * 50_000
    assert parse([b'{"z":%b,"a":1}' % nested], {"a": LONG}) == [{"a": 1}]
    rows = parse([b'{"a":%b}' % nested], {"a": TEXT}, corrupt="bad")
    assert rows == [{"a": None, "bad": f'{{"a":{nested.decode()}}}'}]


@pytest.mark.parametrize("nested", [False, True])
def test_an_integer_has_no_signed_zero_however_it_is_parsed(nested: bool) -> None:
    """Spark and msgspec read -0 as 0 and -0.0 as -0.0; Arrow does not tell them apart."""
    schema = pyarrow.schema([("a", pyarrow.list_(pyarrow.float64()) if nested else pyarrow.float64())])
    texts = [b"-0", b"-0.0", b"0", b"-0e0"]
    messages = [b'{"a": [%b]}' % text if nested else b'{"a": %b}' % text for text in texts]
    lengths = numpy.array([len(message) for message in messages])
    made = FieldParser(Fields(schema, None, fails=False)).columns(messages, lengths, "s")["a"].to_pylist()
    found = [one[0] if nested else one for one in made]
    assert [math.copysign(1, one) for one in found] == [1, -1, 1, -1]
    exact = [MessageParser(schema).parse(message).values["a"] for message in messages]
    assert [math.copysign(1, one[0] if nested else one) for one in exact] == [1, -1, 1, -1]
