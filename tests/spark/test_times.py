"""When rows arrived: the column `timestamp`, and reads of a range of time."""

import datetime
import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from millstream import DurableStream
from spark.queries import Recorder, Streams


def appended_apart(log: DurableStream, *contents: Any) -> list[datetime.datetime]:
    """Append each with a time of its own, and return the times, as the server has them."""
    times = []
    for content in contents:
        if isinstance(content, list):
            log.append_all(content)
        else:
            log.append(content)
        written = log.head().last_time
        assert written is not None
        times.append(datetime.datetime.fromisoformat(written))
        time.sleep(0.003)
    assert len(set(times)) == len(times)
    return times


def arrivals(frame: DataFrame) -> list[datetime.datetime | None]:
    """Return the column `timestamp`; as numbers, because Python has it in the machine's zone."""
    rows = frame.orderBy("stream", "offset").select(f.unix_micros("timestamp").alias("us")).collect()
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return [None if row.us is None else epoch + datetime.timedelta(microseconds=row.us) for row in rows]


def test_each_row_has_the_time_of_its_append_where_that_is_asked_for(streams: Streams) -> None:
    log = streams.create("log")
    one, two, three = appended_apart(log, [{"n": 0}, {"n": 1}], [{"n": 2}], [{"n": 3}, {"n": 4}])
    log.close()
    assert "timestamp" not in streams.batch("log").columns
    frame = streams.batch("log", includeTimestamp=True, includeClosed=True)
    assert dict(frame.dtypes)["timestamp"] == "timestamp"
    assert arrivals(frame.where("not closed")) == [one, one, two, three, three]
    assert arrivals(frame.where("closed")) == [None], "a close has no time"


def test_text_and_bytes_have_rows_of_one_time_each(streams: Streams) -> None:
    notes = streams.create("notes", "text/plain")
    text = "aä€😀b".encode()
    at = appended_apart(notes, text[:2], text[2:7], text[7:], "x" * 100_000)
    frame = streams.batch("notes", includeTimestamp=True)
    rows = frame.orderBy("offset").collect()
    assert "".join(row.value for row in rows) == text.decode() + "x" * 100_000
    assert arrivals(frame) == [at[0], at[1], at[2], at[3], at[3]], "a character comes with its last byte"

    blob = streams.create("blob", "application/octet-stream")
    at = appended_apart(blob, b"\x00\xff", b"\xc3")
    frame = streams.batch("blob", includeTimestamp=True)
    assert [bytes(row.value) for row in frame.orderBy("offset").collect()] == [b"\x00\xff", b"\xc3"]
    assert arrivals(frame) == at


def test_in_a_schema_it_is_a_field_unless_the_option_is_set(streams: Streams) -> None:
    log = streams.create("log")
    at = appended_apart(log, {"n": 1, "timestamp": "mine"}, {"n": 2})
    reader = streams.spark.read.format("durable-streams").option("url", streams.url)
    reader = reader.option("streams", streams.name("log"))
    assert [row.timestamp for row in reader.schema("timestamp string").load().collect()] == ["mine", None]
    asked = reader.option("includeTimestamp", True)
    frame = asked.schema("n long, timestamp timestamp").load()
    rows = frame.select("n", f.unix_micros("timestamp").alias("us")).collect()
    assert [row.n for row in rows] == [1, 2]
    assert [row.us for row in rows] == [round(one.timestamp() * 1e6) for one in at]
    assert [row.n for row in asked.schema("n long").load().collect()] == [1, 2]
    with pytest.raises(PySparkException, match="the column timestamp is timestamp, not string"):
        asked.schema("timestamp string").load().collect()


def test_batches_that_follow_have_the_same_times_when_they_are_repeated(
    streams: Streams, tmp_path: Path
) -> None:
    log = streams.create("log")
    at = appended_apart(log, *({"n": n} for n in range(6)))
    frame = streams.following("log", includeTimestamp=True, maxRowsPerTrigger=2)
    taken = frame.select("value", f.unix_micros("timestamp").alias("us"))
    rows = Recorder(tmp_path).run(taken).rows
    assert [json.loads(row.value)["n"] for row in rows] == list(range(6))
    assert [row.us for row in rows] == [round(one.timestamp() * 1e6) for one in at]


def numbers_of(frame: DataFrame) -> list[int]:
    return sorted(json.loads(row.value)["n"] for row in frame.collect())


def test_a_range_of_time_is_read(streams: Streams) -> None:
    log, other = streams.create("log"), streams.create("other")
    at = appended_apart(log, *({"n": n} for n in range(5)))
    later = appended_apart(other, {"n": 10})
    end = later[0] + datetime.timedelta(seconds=1)

    def between(since: Any, until: Any) -> list[int]:
        options = {"startingTimestamp": since, "endingTimestamp": until}
        given = {name: value for name, value in options.items() if value is not None}
        return numbers_of(streams.batch("log", "other", **given))

    assert between(at[2].isoformat(), None) == [2, 3, 4, 10]
    assert between(at[1].isoformat(), at[4].isoformat()) == [1, 2, 3]
    assert between(round(at[3].timestamp() * 1000), None) == [3, 4, 10], "milliseconds since 1970"
    assert between(end.isoformat(), None) == [], "where nothing is that late yet, it begins at the end"
    assert between("-1 day", "-10 hours") == []
    assert between(None, end.isoformat()) == [0, 1, 2, 3, 4, 10]
    each = json.dumps({streams.name("log"): at[4].isoformat()})
    assert between(each, None) == [4, 10], "a stream that is not named begins at its beginning"


def test_a_query_that_begins_at_a_time_goes_on_where_it_was(streams: Streams, tmp_path: Path) -> None:
    log = streams.create("log")
    at = appended_apart(log, *({"n": n} for n in range(4)))
    recorder = Recorder(tmp_path)
    ends = {"startingTimestamp": at[1].isoformat(), "endingTimestamp": at[3].isoformat()}
    recorder.run(streams.following("log", **ends))
    assert [json.loads(value)["n"] for value in recorder.values] == [1, 2]
    recorder.run(streams.following("log", **ends))
    assert len(recorder.values) == 2
    recorder.run(streams.following("log"))
    recorder.run(streams.following("log", **ends))  # what was read beyond it stays read
    assert [json.loads(value)["n"] for value in recorder.values] == [1, 2, 3]
    with pytest.raises(PySparkException, match=r"option endingTimestamp: .* add trigger\(availableNow"):
        recorder.run(streams.following("log", **ends), processingTime="0 seconds")


@pytest.mark.node
def test_a_server_without_times_is_named(reference_streams: Streams) -> None:
    reference_streams.create("log", messages=[{"n": 1}])
    with pytest.raises(PySparkException, match="option includeTimestamp: needs a server that knows"):
        reference_streams.batch("log", includeTimestamp=True).collect()
    with pytest.raises(PySparkException, match="option startingTimestamp: needs a server that knows"):
        reference_streams.batch("log", startingTimestamp="-1 day").collect()


def test_few_rows_wait_for_more_but_not_for_ever(streams: Streams, tmp_path: Path) -> None:
    log = streams.create("log", messages=[{"n": 0}])
    held = {"minRowsPerTrigger": 5, "maxTriggerDelay": "1h"}
    recorder = Recorder(tmp_path / "held")
    query = recorder.start(streams.following("log", **held), processingTime="0 seconds")
    try:
        deadline = time.monotonic() + 60
        while len(recorder.rows) < 1:  # the first batch does not wait
            assert time.monotonic() < deadline, query.exception()
            time.sleep(0.05)
        for n in range(1, 6):
            assert len(recorder.rows) == 1
            log.append({"n": n})
            time.sleep(0.1)
        while len(recorder.rows) < 6:
            assert time.monotonic() < deadline, query.exception()
            time.sleep(0.05)
    finally:
        query.stop()
    assert [len(rows) for rows in recorder.batches.values()] == [1, 5]

    recorder = Recorder(tmp_path / "once").run(streams.following("log", **held))
    assert len(recorder.rows) == 6
    log.append({"n": 6})
    recorder.run(streams.following("log", **held))
    assert len(recorder.rows) == 7, "a query that ends holds nothing back"

    recorder = Recorder(tmp_path / "ended").run(streams.following("log", untilClosed=False, **held))
    log.close({"n": 7})
    recorder.run(streams.following("log", untilClosed=True, **held))
    assert len(recorder.rows) == 8, "the streams have ended, so nothing will come"
