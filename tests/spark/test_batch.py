"""Batch reads: what the streams hold now, as a table."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sql

from spark.queries import Streams


def test_every_message_of_a_json_stream_is_a_row_and_keeps_its_bytes(streams: Streams) -> None:
    messages = [
        b'{"big": 12345678901234567890123, "e":1.50}',
        b'{"b":1,"a":2}',
        b'"\xc3\xa4"',
        b"[1, 2]",
        b"null",
    ]
    log = streams.create("log", messages=messages)
    rows = streams.batch("log").orderBy("offset").collect()
    assert [row.value.encode() for row in rows] == messages
    assert {row.stream for row in rows} == {streams.name("log")}
    assert rows[-1].offset == log.head().offset


def test_reading_on_from_a_rows_offset_gives_what_follows_it(streams: Streams) -> None:
    streams.create("log", messages=[{"n": number} for number in range(100)])
    offset = streams.batch("log").where("value = '{\"n\":41}'").first().offset
    rest = streams.batch("log", startingOffsets=json.dumps({streams.name("log"): offset}))
    assert [json.loads(row.value)["n"] for row in rest.orderBy("offset").collect()] == list(range(42, 100))
    first = streams.batch("log", endingOffsets=json.dumps({streams.name("log"): offset}))
    assert first.count() == 42


def test_text_is_a_string_and_its_pieces_make_the_whole(streams: Streams) -> None:
    content = "ä€😀line\n" * 30_000  # 12 bytes each, so that rows and partitions end inside characters
    streams.create("notes", "text/plain", [content])
    frame = streams.batch("notes", partitionBytes="100001")
    assert dict(frame.dtypes)["value"] == "string"
    assert frame.rdd.getNumPartitions() >= 4
    assert "".join(row.value for row in frame.orderBy("offset").collect()) == content


def test_bytes_are_binary_and_their_pieces_make_the_whole(streams: Streams) -> None:
    content = bytes(range(256)) * 2000
    streams.create("blob", "application/octet-stream", [content])
    frame = streams.batch("blob")
    assert dict(frame.dtypes)["value"] == "binary"
    assert b"".join(bytes(row.value) for row in frame.orderBy("offset").collect()) == content


def test_json_and_text_can_be_read_as_bytes(streams: Streams) -> None:
    streams.create("log", messages=[{"n": 1}])
    streams.create("notes", "text/plain", [b"caf\xe9"])
    rows = streams.batch("log", "notes", valueType="binary").collect()
    assert {bytes(row.value) for row in rows} == {b'{"n":1}', b"caf\xe9"}


def test_bytes_do_not_pass_for_text(streams: Streams) -> None:
    streams.create("blob", "application/octet-stream", [b"\x00\xff"])
    with pytest.raises(PySparkException, match="set the option valueType to binary"):
        streams.batch("blob", valueType="string").collect()


def test_a_glob_reads_what_it_matches_and_nothing_else(streams: Streams) -> None:
    for name in ("chat/1", "chat/2", "chat/deep/3", "other"):
        streams.create(name, messages=[name])
    found = streams.batch(pattern=f"{streams.folder}/chat/*").collect()
    assert {row.stream for row in found} == {streams.name("chat/1"), streams.name("chat/2")}
    deep = streams.batch(pattern=f"{streams.folder}/chat/**").collect()
    assert {row.stream for row in deep} >= {streams.name("chat/deep/3")}


def test_names_may_hold_anything_that_a_path_may(streams: Streams) -> None:
    short = "ä b,c%2F?#"
    streams.create(short, messages=[1])
    assert streams.batch(streams=json.dumps([streams.name(short)])).first().stream == streams.name(short)
    assert streams.batch(pattern=f"{streams.folder}/*").first().stream == streams.name(short)


def test_a_long_stream_is_read_by_many_tasks_and_every_row_once(streams: Streams) -> None:
    log = streams.create("log")
    for first in range(0, 20_000, 1000):
        log.append_all([{"n": number, "pad": "x" * 40} for number in range(first, first + 1000)])
    for options, at_least in (({"partitionBytes": "100k"}, 10), ({"minPartitions": 4}, 4)):
        frame = streams.batch("log", **options)
        assert frame.rdd.getNumPartitions() >= at_least
        assert sorted(json.loads(row.value)["n"] for row in frame.collect()) == list(range(20_000))
        assert frame.select("offset").distinct().count() == 20_000


def test_many_short_streams_share_a_partition(streams: Streams) -> None:
    for number in range(30):
        streams.create(f"s{number}", messages=[number])
    frame = streams.batch(pattern=f"{streams.folder}/*")
    assert frame.rdd.getNumPartitions() == 1
    assert sorted(int(row.value) for row in frame.collect()) == list(range(30))


def test_an_empty_stream_is_an_empty_table(streams: Streams) -> None:
    streams.create("log")
    assert streams.batch("log").collect() == []
    assert streams.batch("log", startingOffsets="latest").collect() == []
    assert streams.batch(pattern=f"{streams.folder}/none/*").collect() == []


def test_a_schema_picks_columns(streams: Streams) -> None:
    streams.create("log", messages=[1, 2])
    reader = streams.spark.read.format("durable-streams").option("url", streams.url)
    frame = reader.option("streams", streams.name("log")).schema("value string").load()
    assert frame.columns == ["value"]
    assert [row.value for row in frame.collect()] == ["1", "2"]
    with pytest.raises(PySparkException, match="the column value is string or binary, not int"):
        reader.schema("value int").load().collect()


def test_the_end_of_a_stream_is_a_row_where_that_is_asked_for(streams: Streams) -> None:
    ended = streams.create("ended", messages=[1])
    ended.close()
    streams.create("open", messages=[2])
    rows = streams.batch("ended", "open", includeClosed=True).collect()
    assert [(row.value, row.closed) for row in rows if row.stream == streams.name("ended")] == [
        ("1", False),
        (None, True),
    ]
    assert [(row.value, row.closed) for row in rows if row.stream == streams.name("open")] == [("2", False)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "x", "url": "localhost"}, "option url: 'localhost' is not a URL"),
        ({"stream": "x"}, "option stream: .*did you mean streams"),
        ({"streams": "x", "partitionByte": "1"}, "option partitionByte: .*did you mean partitionBytes"),
        ({"streams": "x", "untilClosed": "true"}, "option untilClosed: is for streaming queries"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named_before_anything_is_read(
    streams: Streams, options: dict[str, Any], message: str
) -> None:
    streams.create("log")
    if "streams" in options:
        options = {**options, "streams": streams.name("log")}
    with pytest.raises(PySparkException, match="(?i)" + message):
        streams.batch(**options).collect()


@pytest.mark.parametrize(
    ("starting", "ending", "message"),
    [
        ("garbage", "latest", "gives .* the offset 'garbage', which is"),
        ("0000000000000000_0000000000000001", "latest", "nowhere in the stream"),
        ("0000000000000000_0000000000009999", "latest", "after the stream's end"),
        ("latest", "0000000000000000_0000000000000008", "before its start"),
        ("earliest", "0000000000000000_0000000000000003", "nowhere in the stream"),
    ],
)
def test_an_impossible_range_is_refused(streams: Streams, starting: str, ending: str, message: str) -> None:
    streams.create("log", messages=[{"n": 1}, {"n": 2}])
    name = streams.name("log")
    options = {
        "startingOffsets": json.dumps({name: starting}),
        "endingOffsets": json.dumps({name: ending}),
    }
    with pytest.raises(PySparkException, match=message):
        streams.batch("log", **options).collect()


def test_a_table_of_sql_takes_its_options_with_the_query(streams: Streams) -> None:
    """Spark does not pass on the options of CREATE TABLE; the error says so, and what to do."""
    streams.create("log", messages=[1, 2])
    name = streams.name("log")
    spark = streams.spark
    options = f"url '{streams.url}', streams '{name}'"
    columns = "stream STRING, offset STRING, value STRING"
    spark.sql(f"CREATE TABLE by_sql ({columns}) USING `durable-streams` OPTIONS ({options})")
    try:
        with pytest.raises(PySparkException, match=r"option url: is missing.*CREATE TABLE.*WITH \(url"):
            spark.sql("SELECT * FROM by_sql").collect()
        given = options.replace(" '", " = '")
        found = spark.sql(f"SELECT value FROM by_sql WITH ({given})").collect()
        assert [row.value for row in found] == ["1", "2"]
    finally:
        spark.sql("DROP TABLE by_sql")


def test_a_stream_that_is_not_there_is_named(streams: Streams) -> None:
    with pytest.raises(PySparkException, match="nobody cannot be read"):
        streams.batch("nobody")
    assert streams.batch("nobody", failOnDataLoss=False).collect() == []


def test_rows_can_be_counted_without_being_made(streams: Streams) -> None:
    log = streams.create("log", messages=[1, [2], "three", None])
    log.append_all([{"n": number} for number in range(5000)])
    streams.create("notes", "text/plain", ["x" * 100_000])
    streams.create("empty")
    counted = streams.batch("log", "notes", "empty", counts="true", partitionBytes="20k")
    assert counted.dtypes == [("stream", "string"), ("rows", "bigint")]
    by_stream = {
        row.stream: row.n for row in counted.groupBy("stream").agg(sql.sum("rows").alias("n")).collect()
    }
    pieces = streams.batch("notes", partitionBytes="20k").count()
    assert by_stream == {streams.name("log"): 5004, streams.name("notes"): pieces}
    with pytest.raises(PySparkException, match="option includeClosed: has no effect"):
        streams.batch("log", counts="true", includeClosed="true").collect()
    with pytest.raises(PySparkException, match="columns are stream and rows"):
        reader = streams.spark.read.format("durable-streams").options(url=streams.url, counts="true")
        reader.option("streams", streams.name("log")).schema("n long").load().collect()


def test_what_was_read_before_comes_from_files_and_means_the_same(streams: Streams, tmp_path: Path) -> None:
    rows = [{"n": number, "pad": "x" * 100} for number in range(20_000)]
    log = streams.create("log", messages=rows)
    streams.create("small", messages=[{"n": -1}])

    def read(**options: str) -> list[int]:
        reader = streams.spark.read.format("durable-streams").options(url=streams.url, **options)
        reader = reader.options(cacheDirectory=str(tmp_path / "kept"), partitionBytes="1m")
        found = reader.option("pattern", f"{streams.folder}/*").schema("n long").load().collect()
        return sorted(row.n for row in found)

    def files() -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in (tmp_path / "kept").iterdir()}

    assert read() == list(range(-1, 20_000))
    first = files()
    assert len(first) >= 2
    assert read() == list(range(-1, 20_000))
    assert files() == first
    log.append({"n": 20_000})
    assert read() == list(range(-1, 20_001))
    assert len(first.keys() & files().keys()) >= len(first) - 1  # all but the last range, which has grown
    log.delete()
    log = streams.create("log", messages=[{"n": row["n"] + 100_000, "pad": row["pad"]} for row in rows])
    assert read() == [-1, *range(100_000, 120_000)]


def test_a_query_whose_stream_was_trimmed_or_deleted_is_told_so_though_there_are_files(
    streams: Streams, tmp_path: Path
) -> None:
    log = streams.create("log", messages=[{"n": number, "pad": "x" * 100} for number in range(10_000)])
    kept = {"cacheDirectory": str(tmp_path / "kept"), "failOnDataLoss": "true"}
    reader = streams.spark.read.format("durable-streams").options(url=streams.url, **kept)
    frame = reader.option("streams", streams.name("log")).schema("n long").load()
    assert frame.count() == 10_000
    planned = frame.rdd.getNumPartitions()  # Spark plans a frame once
    assert planned == 1
    log.delete()
    with pytest.raises(PySparkException, match=r"was read only in part|cannot be read"):
        frame.collect()
