"""A schema of one's own: fields of messages as typed columns, as Spark's own JSON source gives them."""

import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark.queries import Recorder, Streams

SCHEMA = (
    "n long, small byte, d double, b boolean, text string, price decimal(10,2), list array<long>, "
    "inner struct<x: long, y: string>, counts map<string, long>, _corrupt_record string"
)
LINES = [
    '{"n":1,"small":2,"d":0.5,"b":true,"text":"ä","price":1.5,"list":[1,null],"inner":{"x":1,"y":"z"}}',
    '{"counts":{"a":1,"b":2},"unknown":[{}]}',
    "{}",
    '{"n":null,"text":null,"list":null,"inner":null}',
    '{"n":9223372036854775807,"text":12345678901234567890123}',
    '{"n":9223372036854775808,"text":"kept"}',
    '{"n":1.0}',
    '{"n":"1"}',
    '{"small":300}',  # from 128 to 255 Spark wraps around; the source does not
    '{"d":1,"price":1}',
    '{"d":"NaN"}',
    '{"d":"Infinity"}',
    '{"d":"x"}',
    '{"b":"true"}',
    '{"text":1.50}',
    '{"text":true}',
    '{"text":{"a":[1,"b",null]}}',
    '{"price":1.555}',
    '{"price":123456789.5}',
    '{"list":[1,"x"],"text":"kept"}',
    '{"list":1}',
    '{"inner":{"x":"no","y":"kept"}}',
    '{"inner":1}',
    '{"inner":{"z":1}}',
    '{"n":1,"n":2}',
    '{"N":1}',
    "1",
    '"text"',
]


def with_schema(streams: Streams, schema: str, *shorts: str, **options: Any) -> DataFrame:
    reader = streams.spark.read.format("durable-streams").option("url", streams.url).schema(schema)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.option("streams", ",".join(map(streams.name, shorts))).load()


def comparable(frame: DataFrame) -> list[Any]:
    return [
        ["nan" if isinstance(value, float) and math.isnan(value) else value for value in row]
        for row in frame.collect()
    ]


def test_a_schema_gives_what_spark_gives_for_the_same_lines_of_json(streams: Streams, tmp_path: Path) -> None:
    streams.create("log", messages=[line.encode() for line in LINES])
    lines = tmp_path / "lines.json"
    lines.write_text("\n".join(LINES) + "\n")
    ours = comparable(with_schema(streams, SCHEMA, "log"))
    theirs = comparable(streams.spark.read.schema(SCHEMA).json(str(lines)))
    assert dict(zip(LINES, ours, strict=True)) == dict(zip(LINES, theirs, strict=True))


def test_fields_stand_beside_the_sources_own_columns_and_many_batches_keep_their_order(
    streams: Streams,
) -> None:
    log = streams.create("log", messages=[{"n": number} for number in range(25_000)])
    log.close()
    frame = with_schema(
        streams, "n long, offset string, closed boolean, value string", "log", includeClosed=True
    )
    rows = frame.collect()
    assert [row.n for row in rows] == [*range(25_000), None]
    assert [row.value for row in rows] == [*(f'{{"n":{number}}}' for number in range(25_000)), None]
    assert rows[-1].closed
    assert rows[-1].offset == rows[-2].offset == log.head().offset


def test_failfast_fails_with_the_message(streams: Streams) -> None:
    streams.create("log", messages=[{"n": 1}, {"n": "x"}])
    assert [row.n for row in with_schema(streams, "n long", "log").collect()] == [1, None]
    with pytest.raises(PySparkException, match=r'does not fit the schema: \{"n":"x"\}'):
        with_schema(streams, "n long", "log", mode="FAILFAST").collect()
    kept = with_schema(streams, "n long, bad string", "log", columnNameOfCorruptRecord="bad")
    assert [row.bad for row in kept.collect()] == [None, '{"n":"x"}']


def test_a_streaming_query_has_typed_columns(streams: Streams, tmp_path: Path) -> None:
    streams.create("log", messages=[{"n": number, "text": "x"} for number in range(100)])
    reader = streams.spark.readStream.format("durable-streams").option("url", streams.url)
    frame = reader.option("streams", streams.name("log")).schema("n long, stream string").load()
    rows = Recorder(tmp_path / "checkpoint").run(frame.selectExpr("n + 1 AS n", "stream")).rows
    assert [row.n for row in rows] == list(range(1, 101))
    assert {row.stream for row in rows} == {streams.name("log")}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("t timestamp_ntz", "the column t cannot be timestamp_ntz.*to_timestamp_ntz"),
        ("a struct<b: array<interval day>>", r"the column a\.b\[\] cannot be interval day"),
        ("n long NOT NULL", "the column n is NOT NULL"),
        ("m map<int, string>", "the keys of m are text"),
        ("_corrupt_record long", "_corrupt_record holds the text of messages"),
        ("offset long", "the column offset is string, not bigint"),
    ],
)
def test_a_schema_that_cannot_be_had_is_refused(streams: Streams, schema: str, message: str) -> None:
    streams.create("log", messages=[{"n": 1}])
    with pytest.raises(PySparkException, match=message):
        with_schema(streams, schema, "log").collect()


def test_text_has_no_fields(streams: Streams) -> None:
    streams.create("notes", "text/plain", ["hello"])
    with pytest.raises(PySparkException, match="holds text/plain, which has no fields"):
        with_schema(streams, "n long", "notes").collect()
