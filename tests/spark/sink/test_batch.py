"""Batch writes: a table becomes the messages of streams."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row

from running import millstream
from spark.queries import Streams
from spark.sink.sinks import Sinks


def test_every_row_is_a_message_in_the_order_of_the_table(sinks: Sinks) -> None:
    sinks.write(sinks.numbers(5000, partitions=4))
    assert sinks.ns() == list(range(5000))


def test_a_table_of_many_parts_is_one_atomic_append(sinks: Sinks) -> None:
    sinks.write(sinks.numbers(5000), partBytes="1k")
    assert sinks.ns() == list(range(5000))


def test_json_keeps_its_bytes(sinks: Sinks) -> None:
    values = ['{"big": 12345678901234567890123, "e":1.50}', '"ä"', "[1, 2]", "null", " 7 "]
    sinks.write(sinks.spark.createDataFrame([(value,) for value in values], "value string").coalesce(1))
    assert sinks.content() == '[{"big": 12345678901234567890123, "e":1.50},"ä",[1, 2],null,7]'.encode()


@pytest.mark.parametrize("value", ["1,2", "1],[2", "", "{'a': 1}", "NaN", '"a', "{}x"])
def test_a_value_that_is_not_one_json_message_is_refused(sinks: Sinks, value: str) -> None:
    frame = sinks.spark.createDataFrame([("1",), (value,)], "value string").coalesce(1)
    with pytest.raises(PySparkException, match=r"out is not JSON: .*to_json"):
        sinks.write(frame)
    assert sinks.messages() == []


def test_two_halves_of_a_message_are_not_one(sinks: Sinks) -> None:
    """Joined by commas, as a body is, these three rows are JSON of three messages."""
    frame = sinks.spark.createDataFrame([("1,2",), ('"a',), ('b"',)], "value string").coalesce(1)
    with pytest.raises(PySparkException, match="'1,2'"):
        sinks.write(frame)


def test_other_columns_become_an_object(sinks: Sinks) -> None:
    row = Row(
        id=1,
        name='ä"\n',
        price=Decimal("1.50"),
        ratio=0.25,
        yes=True,
        none=None,
        day=datetime.date(2026, 2, 3),
        raw=bytearray(b"\x00\xff"),
        tags=["a", "b"],
        counts={"x": 1},
        inner=Row(a=1, b=None),
        value=3,
    )
    schema = (
        "id long, name string, price decimal(10,2), ratio double, yes boolean, none string, day date, "
        "raw binary, tags array<string>, counts map<string,int>, inner struct<a:int,b:int>, value int"
    )
    sinks.write(sinks.spark.createDataFrame([row], schema))
    assert sinks.messages() == [
        {"id": 1, "name": 'ä"\n', "price": 1.5, "ratio": 0.25, "yes": True, "none": None,
         "day": "2026-02-03", "raw": "AP8=", "tags": ["a", "b"], "counts": {"x": 1},
         "inner": {"a": 1, "b": None}, "value": 3}
    ]  # fmt: skip


def test_a_number_that_json_does_not_have_is_refused(sinks: Sinks) -> None:
    frame = sinks.spark.sql("select cast('NaN' as double) as ratio, null as nothing")
    with pytest.raises(PySparkException, match="nan is not JSON; replace"):
        sinks.write(frame)


def test_text_is_written_line_by_line(sinks: Sinks) -> None:
    frame = sinks.spark.createDataFrame([("eins",), ("zwei ä",)], "value string").coalesce(1)
    sinks.write(frame, contentType="text/plain")
    assert sinks.content() == "eins\nzwei ä\n".encode()
    assert sinks.handle().head().content_type == "text/plain"


def test_bytes_are_written_as_they_are(sinks: Sinks) -> None:
    rows = [(bytearray(range(256)),), (bytearray(b"\x00"),)]
    frame = sinks.spark.createDataFrame(rows, "value binary").coalesce(1)
    sinks.write(frame, contentType="application/octet-stream")
    assert sinks.content() == bytes(range(256)) + b"\x00"


def test_a_stream_that_is_there_says_how_rows_are_written(sinks: Sinks) -> None:
    sinks.streams.create("out", "text/plain", ["zero\n"])
    sinks.write(sinks.spark.createDataFrame([("one",)], "value string"))
    assert sinks.content() == b"zero\none\n"


def test_each_row_may_name_its_stream(sinks: Sinks) -> None:
    folder = sinks.streams.folder
    frame = sinks.spark.range(0, 300, 1, 3).selectExpr(
        f"concat('/{folder}/s', id % 7) as stream", "to_json(named_struct('n', id)) as value"
    )
    sinks.write(frame, short=None)
    for number in range(7):
        assert sinks.ns(f"s{number}") == list(range(number, 300, 7))


def test_many_streams_do_not_hold_more_than_two_parts_in_memory(sinks: Sinks) -> None:
    folder = sinks.streams.folder
    frame = sinks.spark.range(0, 4000, 1, 1).selectExpr(f"concat('{folder}/s', id % 20) as stream", "id as n")
    sinks.write(frame, short=None, partBytes="500")
    assert sorted(n for number in range(20) for n in sinks.ns(f"s{number}")) == list(range(4000))


def test_a_row_that_names_no_stream_is_refused(sinks: Sinks) -> None:
    frame = sinks.spark.sql("select cast(null as string) as stream, '1' as value")
    with pytest.raises(PySparkException, match="a row names no stream"):
        sinks.write(frame, short=None)


def test_a_row_without_a_value_is_refused(sinks: Sinks) -> None:
    with pytest.raises(PySparkException, match="has no value"):
        sinks.write(sinks.spark.sql("select cast(null as string) as value"))


def test_what_the_source_gives_the_sink_takes(sinks: Sinks) -> None:
    sinks.streams.create("in", messages=[{"n": n} for n in range(10)])
    sinks.write(sinks.streams.batch("in"))
    assert sinks.ns() == list(range(10))


def test_a_row_that_says_closed_ends_its_stream(sinks: Sinks) -> None:
    """EOF flows through: the source's last row of a stream closes the stream that it is mapped to."""
    sinks.streams.create("ended", messages=[{"n": 1}]).close()
    sinks.streams.create("open", messages=[{"n": 2}])
    rows = sinks.streams.batch("ended", "open", includeClosed=True)
    sinks.write(rows.selectExpr("concat(stream, '-copy') as stream", "value", "closed"), short=None)
    assert (sinks.ns("ended-copy"), sinks.ns("open-copy")) == ([1], [2])
    assert sinks.handle("ended-copy").head().stream_closed
    assert not sinks.handle("open-copy").head().stream_closed


@pytest.mark.parametrize("commit", ["parts", "driver", "producer"])
def test_close_on_end_closes_with_the_write(sinks: Sinks, commit: str) -> None:
    sinks.write(sinks.numbers(10, partitions=3), closeOnEnd=True, commit=commit)
    assert sorted(sinks.ns()) == list(range(10))
    assert sinks.handle().head().stream_closed


def test_close_on_end_closes_a_stream_that_nothing_was_written_to(sinks: Sinks) -> None:
    sinks.write(sinks.numbers(0), closeOnEnd=True)
    assert sinks.handle().head().stream_closed


@pytest.mark.parametrize("commit", ["parts", "driver", "producer"])
@pytest.mark.parametrize("closes", [False, True])
def test_a_repeated_write_with_the_same_key_changes_nothing(sinks: Sinks, commit: str, closes: bool) -> None:
    if closes and commit == "producer":
        pytest.skip("a closed stream does not remember what other producers wrote")
    for _ in range(2):
        options = {"idempotencyKey": "import of Ümläut/1", "closeOnEnd": closes, "commit": commit}
        sinks.write(sinks.numbers(100), **options)
    assert sorted(sinks.ns()) == list(range(100))
    assert sinks.handle().head().stream_closed is closes


def test_a_repeated_write_with_a_key_is_the_first_one_whatever_it_holds(sinks: Sinks) -> None:
    sinks.write(sinks.numbers(100, partitions=4), idempotencyKey="k")
    sinks.write(sinks.numbers(50, partitions=1, first=1000), idempotencyKey="k")
    assert sinks.ns() == list(range(100))
    sinks.write(sinks.numbers(1, first=1000), idempotencyKey="k", sinkId="another")
    assert sinks.ns() == [*range(100), 1000]


def test_writes_without_a_key_are_independent(sinks: Sinks) -> None:
    sinks.write(sinks.numbers(10))
    sinks.write(sinks.numbers(10))
    assert sinks.ns() == [*range(10), *range(10)]


def test_a_stream_that_is_not_there_can_be_an_error(sinks: Sinks) -> None:
    with pytest.raises(
        PySparkException, match="There is no such stream, and the option createMissing is false"
    ):
        sinks.write(sinks.numbers(1), createMissing=False)


def test_another_content_type_than_the_one_asked_for_is_an_error(sinks: Sinks) -> None:
    sinks.streams.create("out", "text/plain")
    with pytest.raises(PySparkException, match="The stream holds text/plain, and the option contentType is"):
        sinks.write(sinks.numbers(1), contentType="application/json")


def test_a_closed_stream_fails_the_write_loudly(sinks: Sinks) -> None:
    sinks.streams.create("out").close()
    with pytest.raises(PySparkException, match="was not written: Cannot append to a closed stream"):
        sinks.write(sinks.numbers(1))


def test_the_driver_takes_small_batches_only(sinks: Sinks) -> None:
    frame = sinks.spark.range(10).selectExpr(f"repeat('x', {2**20}) as value")
    with pytest.raises(PySparkException, match="is driver, which is for small batches"):
        sinks.write(frame.coalesce(1), commit="driver", contentType="text/plain")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.mode("overwrite"), r"streams can only be appended to; use mode\(.append.\)"),
        (lambda frame: frame.mode("error"), "cannot be written in the .ErrorIfExists. mode"),
        (lambda frame: frame.mode("ignore"), "cannot be written in the .Ignore. mode"),
        (lambda frame: frame.option("streams", "x"), "did you mean stream?"),
        (lambda frame: frame.option("comit", "parts"), "did you mean commit?"),
        (lambda frame: frame.option("commit", "maybe"), "is not one of parts, producer, driver"),
        (lambda frame: frame.option("partBytes", "9m"), "is more than 8m"),
        (lambda frame: frame.option("txnAppId", "a"), "option txnVersion: is missing"),
        (lambda frame: frame.option("txnVersion", "1"), "option txnAppId: is missing"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_written(
    sinks: Sinks, change: Callable[[Any], Any], message: str
) -> None:
    writer = sinks.numbers(1).write.format("durable-streams").options(**sinks.options()).mode("append")
    with pytest.raises(PySparkException, match=message):
        change(writer).save()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select '1' as value, 2 as other", "the column 'other' would be lost"),
        ("select 1 as a, 2 as a", "(?i)(two columns|duplicate|already exists)"),
    ],
)
def test_columns_that_would_be_lost_are_an_error(sinks: Sinks, sql: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        sinks.write(sinks.spark.sql(sql))


def test_rows_without_a_stream_need_the_option(sinks: Sinks) -> None:
    with pytest.raises(PySparkException, match="no column stream and no option stream"):
        sinks.write(sinks.numbers(1), short=None)


def test_a_failed_write_leaves_no_part_behind(sinks: Sinks, tmp_path: Path) -> None:
    """The server has room for the parts of one write, so what failed ones leave would fill it."""
    wrong = sinks.spark.sql("select if(id = 1999, 'no json', '1234567') as value from range(2000)").coalesce(
        1
    )
    with millstream("--max-staged-bytes", "20000") as server:
        there = Sinks(Streams(sinks.spark, server.url, "small"), tmp_path)
        for _ in range(3):
            with pytest.raises(PySparkException, match="no json"):
                there.write(wrong, partBytes="100")
        there.write(sinks.numbers(1000))
        assert there.ns() == list(range(1000))


def test_rows_can_be_many_columns_wide_and_still_json(sinks: Sinks) -> None:
    frame = sinks.spark.range(0, 2000, 1, 2).selectExpr(
        *[f"id + {column} as c{column}" for column in range(20)]
    )
    sinks.write(frame)
    assert [message["c7"] for message in sinks.messages()] == [n + 7 for n in range(2000)]
