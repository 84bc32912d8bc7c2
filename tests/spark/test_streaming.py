"""Streaming queries: restarts, replays, limits, and streams that come, end and go."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from spark.queries import TIMEOUT_S, Recorder, Streams


def numbers(first: int, end: int) -> list[dict[str, int]]:
    return [{"n": number} for number in range(first, end)]


def read_numbers(recorder: Recorder) -> list[int]:
    return [json.loads(value)["n"] for value in recorder.values]


def wait_until(is_so: Callable[[], bool], query: StreamingQuery) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_a_restarted_query_goes_on_where_it_was(streams: Streams, tmp_path: Path) -> None:
    log = streams.create("log", messages=numbers(0, 100))
    recorder = Recorder(tmp_path).run(streams.following("log"))
    assert read_numbers(recorder) == list(range(100))
    log.append_all(numbers(100, 150))
    recorder.run(streams.following("log"))
    recorder.run(streams.following("log"))  # nothing new
    assert read_numbers(recorder) == list(range(150))


@pytest.mark.parametrize("limit", [{}, {"maxBytesPerTrigger": 200}, {"maxRowsPerTrigger": 7}])
@pytest.mark.parametrize(
    "kind", ["streams", pytest.param("reference_streams", marks=pytest.mark.node)], ids=["ours", "reference"]
)
def test_a_replayed_batch_has_the_same_rows_although_the_stream_has_grown(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, limit: dict[str, int]
) -> None:
    streams: Streams = request.getfixturevalue(kind)
    log = streams.create("log", messages=numbers(0, 20))
    notes = streams.create("notes", "text/plain", ["grün, "] * 10)
    recorder = Recorder(tmp_path)
    recorder.fails_in = 1 if limit else 0
    with pytest.raises(StreamingQueryException, match="fails on purpose"):
        recorder.run(streams.following("log", "notes", **limit))
    failed = recorder.batches[recorder.fails_in]
    assert failed
    log.append_all(numbers(20, 40))
    notes.append("und mehr")
    recorder.fails_in, number = None, recorder.fails_in
    recorder.run(streams.following("log", "notes", **limit))
    assert recorder.batches[number] == failed
    of_log = [row.value for row in recorder.rows if row.stream == streams.name("log")]
    assert [json.loads(value)["n"] for value in of_log] == list(range(40))
    of_notes = [row.value for row in recorder.rows if row.stream == streams.name("notes")]
    assert "".join(of_notes) == "grün, " * 10 + "und mehr"
    assert len({(row.stream, row.offset) for row in recorder.rows}) == len(recorder.rows)


@pytest.mark.parametrize(
    "kind", ["streams", pytest.param("reference_streams", marks=pytest.mark.node)], ids=["ours", "reference"]
)
def test_a_batch_holds_no_more_than_its_limit(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    streams: Streams = request.getfixturevalue(kind)
    for name, count in (("many", 500), ("few", 20)):
        log = streams.create(name)
        for first in range(0, count, 10):
            log.append_all([{"n": n, "pad": "x" * 80} for n in range(first, first + 10)])
    by_bytes = Recorder(tmp_path / "bytes").run(streams.following("many", "few", maxBytesPerTrigger="10k"))
    sizes = [sum(len(row.value) for row in rows) for rows in by_bytes.batches.values()]
    assert len(by_bytes.rows) == 520
    assert max(sizes) <= 10 * 1024
    assert len(sizes) >= 5
    by_rows = Recorder(tmp_path / "rows").run(streams.following("many", "few", maxRowsPerTrigger=100))
    assert sum(map(len, by_rows.batches.values())) == 520
    assert max(map(len, by_rows.batches.values())) == 100


def test_a_message_larger_than_the_limit_holds_nobody_up(streams: Streams, tmp_path: Path) -> None:
    streams.create("log", messages=["x" * 5000, "small", "y" * 5000])
    recorder = Recorder(tmp_path).run(streams.following("log", maxBytesPerTrigger=100))
    assert [len(value) for value in recorder.values] == [5002, 7, 5002]


def test_available_now_ends_although_the_stream_grows(streams: Streams, tmp_path: Path) -> None:
    log = streams.create("log", messages=numbers(0, 30))
    recorder = Recorder(tmp_path)
    recorder.after_batch = lambda number: log.append_all(numbers(1000, 1010)) and None
    recorder.run(streams.following("log", maxRowsPerTrigger=10))
    assert read_numbers(recorder) == list(range(30))


def test_a_new_stream_joins_a_running_query(streams: Streams, tmp_path: Path) -> None:
    first = streams.create("chat/1", messages=numbers(0, 5))
    recorder = Recorder(tmp_path)
    query = recorder.start(streams.following(pattern=f"{streams.folder}/chat/*"), processingTime="0 seconds")
    try:
        wait_until(lambda: len(recorder.rows) == 5, query)
        streams.create("chat/2", messages=numbers(100, 105))
        streams.create("elsewhere", messages=numbers(0, 5))
        first.append_all(numbers(5, 6))
        wait_until(lambda: len(recorder.rows) >= 11, query)
    finally:
        query.stop()
    assert sorted(read_numbers(recorder)) == [0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104]


def test_a_stream_that_closes_in_mid_query_says_so_once(streams: Streams, tmp_path: Path) -> None:
    log = streams.create("log", messages=numbers(0, 5))
    streams.create("other", messages=numbers(0, 1))
    recorder = Recorder(tmp_path)
    frame = streams.following("log", "other", includeClosed=True)
    query = recorder.start(frame, processingTime="0 seconds")
    try:
        wait_until(lambda: len(recorder.rows) == 6, query)
        end = log.close().final_offset
        wait_until(lambda: len(recorder.rows) == 7, query)
    finally:
        query.stop()
    recorder.run(streams.following("log", "other", includeClosed=True))
    ends = [row for row in recorder.rows if row.closed]
    assert [(row.stream, row.offset, row.value) for row in ends] == [(streams.name("log"), end, None)]
    assert len(recorder.rows) == 7


@pytest.mark.parametrize(
    "kind", ["streams", pytest.param("reference_streams", marks=pytest.mark.node)], ids=["ours", "reference"]
)
def test_until_closed_ends_by_itself_when_all_is_read(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    streams: Streams = request.getfixturevalue(kind)
    one, two = (streams.create(name, messages=numbers(0, 5)) for name in ("one", "two"))
    recorder = Recorder(tmp_path)
    query = recorder.start(streams.following("one", "two", untilClosed=True))
    try:
        wait_until(lambda: len(recorder.rows) == 10, query)
        one.close()
        assert not query.awaitTermination(3), "one stream is still open"
        two.append_all(numbers(5, 8))
        wait_until(lambda: len(recorder.rows) == 13, query)
        two.close({"n": 8})
        assert query.awaitTermination(TIMEOUT_S), "the query did not end"
    finally:
        query.stop()
    assert sorted(read_numbers(recorder)) == sorted([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8])


def test_until_closed_needs_a_query_that_can_end(streams: Streams, tmp_path: Path) -> None:
    streams.create("log")
    with pytest.raises(PySparkException, match=r"option untilClosed: .* add trigger\(availableNow=True\)"):
        Recorder(tmp_path).run(streams.following("log", untilClosed=True), processingTime="0 seconds")


def test_ending_offsets_are_not_for_streaming(streams: Streams, tmp_path: Path) -> None:
    streams.create("log")
    with pytest.raises(PySparkException, match="option endingOffsets: is for batch reads"):
        Recorder(tmp_path).run(streams.following("log", endingOffsets="latest"))


def test_a_new_query_may_begin_at_the_end(streams: Streams, tmp_path: Path) -> None:
    log = streams.create("log", messages=numbers(0, 5))
    frame = streams.following("log", startingOffsets="latest")
    recorder = Recorder(tmp_path)
    query = recorder.start(frame, processingTime="0 seconds")
    appended = 5

    def append_one() -> bool:
        nonlocal appended
        log.append({"n": appended})
        appended += 1
        return len(recorder.rows) > 0

    try:
        wait_until(append_one, query)  # when a query has begun is not for us to know
    finally:
        query.stop()
    seen = read_numbers(recorder)
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    assert seen[0] >= 5


def test_a_deleted_stream_fails_the_query_and_says_what_to_do(streams: Streams, tmp_path: Path) -> None:
    for by in ({}, {"pattern": f"{streams.folder}/*"}):
        log = streams.create("log", messages=numbers(0, 5))
        names = () if by else ("log",)
        recorder = Recorder(tmp_path / str(len(by))).run(streams.following(*names, **by))
        log.delete()
        with pytest.raises(PySparkException, match="failOnDataLoss"):
            recorder.run(streams.following(*names, valueType="string", **by))


@pytest.mark.parametrize("by", ["name", "pattern"])
def test_a_stream_made_anew_is_not_spliced_in(streams: Streams, tmp_path: Path, by: str) -> None:
    def following(**more: Any) -> Any:
        return (
            streams.following("log", **more)
            if by == "name"
            else streams.following(pattern=f"{streams.folder}/*", **more)
        )

    log = streams.create("log", messages=numbers(0, 10))
    recorder = Recorder(tmp_path).run(following())
    log.delete()
    streams.create("log", messages=numbers(0, 30))  # offsets of the first one are offsets here, too
    with pytest.raises(PySparkException, match=r"deleted and made anew.*failOnDataLoss"):
        recorder.run(following())
    assert len(recorder.rows) == 10
    recorder.run(following(failOnDataLoss=False))
    assert read_numbers(recorder) == [*range(10), *range(30)]


def test_a_deleted_stream_is_left_behind_where_loss_is_allowed(streams: Streams, tmp_path: Path) -> None:
    log = streams.create("log", messages=numbers(0, 5))
    other = streams.create("other", messages=numbers(0, 5))
    recorder = Recorder(tmp_path).run(streams.following("log", "other", failOnDataLoss=False))
    log.delete()
    other.append_all(numbers(5, 6))
    recorder.run(streams.following("log", "other", failOnDataLoss=False))
    assert len(recorder.rows) == 11
    streams.create("log", messages=numbers(100, 102))  # created again, and shorter than before
    recorder.run(streams.following("log", "other", failOnDataLoss=False))
    assert sorted(read_numbers(recorder))[-2:] == [100, 101]
    assert len(recorder.rows) == 13


@pytest.mark.parametrize("tolerant", [False, True])
def test_content_that_is_gone_before_a_replay(streams: Streams, tmp_path: Path, tolerant: bool) -> None:
    log = streams.create("log", messages=numbers(0, 5))
    streams.create("other", messages=numbers(5, 10))
    options = {"failOnDataLoss": tolerant is False, "valueType": "string"}
    recorder = Recorder(tmp_path)
    recorder.fails_in = 0
    with pytest.raises(StreamingQueryException, match="fails on purpose"):
        recorder.run(streams.following("log", "other", **options))
    log.delete()
    recorder.fails_in = None
    if tolerant:
        recorder.run(streams.following("log", "other", **options))
        assert read_numbers(recorder) == [5, 6, 7, 8, 9]
    else:
        with pytest.raises(PySparkException, match="failOnDataLoss"):
            recorder.run(streams.following("log", "other", **options))


def test_a_checkpoint_of_something_else_is_refused(streams: Streams, tmp_path: Path) -> None:
    log = streams.create("log", messages=numbers(0, 5))
    recorder = Recorder(tmp_path).run(streams.following("log"))
    offsets = max((tmp_path / "offsets").glob("[0-9]*"))
    offsets.write_text(offsets.read_text().replace('"offset"', '"index"'))
    for crc in (tmp_path / "offsets").glob(".*.crc"):
        crc.unlink()
    log.append_all(numbers(5, 6))
    with pytest.raises(PySparkException, match="not written by this source"):
        recorder.run(streams.following("log"))
