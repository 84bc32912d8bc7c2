"""Output that goes to many streams: a few requests, and as exact as that to one."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from millstream.spark.lookups import Server
from millstream.spark.options import sink_options
from spark.sink.sinks import Sinks

STREAMS, ROWS = 120, 480


def spread(sinks: Sinks, frame: DataFrame) -> DataFrame:
    """Rows that name their streams by their numbers."""
    number = sql.get_json_object("value", "$.n").cast("int")
    name = sql.concat(sql.lit(sinks.streams.name("wide/")), number % STREAMS)
    return frame.select(name.alias("stream"), "value")


def test_every_stream_has_its_rows_once_however_often_the_batch_is_repeated(sinks: Sinks) -> None:
    sinks.streams.create("wide/0", messages=[{"n": -1}])
    ended = sinks.streams.create("wide/other", "text/plain", ["kept"])
    sinks.streams.create("in", messages=[{"n": n} for n in range(ROWS)])
    rows = spread(sinks, sinks.streams.following("in").select("value"))
    for _ in range(2):
        sinks.run(rows.repartition(3), short=None)
        sinks.forget_last_batch()
    found = Server(sink_options({"url": sinks.streams.url}, streaming=False)).matching(
        sinks.streams.name("wide/*")
    )
    assert len(found) == STREAMS + 1
    assert sorted(sinks.ns("wide/0")) == [-1, 0, 120, 240, 360]
    for number in range(1, STREAMS, 17):
        assert sorted(sinks.ns(f"wide/{number}")) == list(range(number, ROWS, STREAMS))
    assert ended.head().offset == "0000000000000000_0000000000000004"


def test_a_stream_that_refuses_is_named_and_the_others_have_their_rows(sinks: Sinks) -> None:
    sinks.streams.create("wide/7").close()
    sinks.streams.create("in", messages=[{"n": n} for n in range(STREAMS)])
    rows = spread(sinks, sinks.streams.following("in").select("value"))
    with pytest.raises(StreamingQueryException, match=r"wide/7"):
        sinks.run(rows, short=None)
    sinks.handle("wide/7").delete()
    sinks.run(rows, short=None)
    assert [sinks.ns(f"wide/{number}") for number in range(STREAMS)] == [[n] for n in range(STREAMS)]
