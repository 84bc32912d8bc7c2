"""The 21 closure cases of the seed `000_56312ea3a202122a.txt`, by name, and its state matrix.

Each runs through both shells, on our server and on the public reference server.
"""

import threading
import time
from typing import Any

import pytest

import millstream
from millstream import CloseResult, StreamClosedError

JSON = "application/json"
SOON_S = 15.0  # a long-poll that nothing ends takes 20
BIG = "x" * 700_000
"""Two of these do not fit into one answer of ours, so a reader passes a middle."""


def later(work: Any, after_s: float = 0.2) -> threading.Timer:
    """Do something else while the test waits, through the sync client."""
    timer = threading.Timer(after_s, work)
    timer.start()
    return timer


def states(batches: Any) -> list[tuple[bool, bool]]:
    return [(batch.up_to_date, batch.stream_closed) for batch in batches]


# -- Writers -------------------------------------------------------------------------------------


def test_close_empty_stream(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    result = stream.close()
    assert result.final_offset == stream.head().offset
    assert stream.head().stream_closed is True
    assert shell.stream(any_url, live=False).read_json() == []


def test_close_with_content(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    appended = stream.append({"n": 1})
    assert stream.close() == CloseResult(final_offset=appended.next_offset)
    with shell.stream(any_url, live=False) as response:
        assert response.read_json() == [{"n": 1}]
        assert response.stream_closed is True


def test_close_with_final_message(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    appended = stream.append({"n": 1})
    result = stream.close({"n": 2})
    assert result.final_offset > appended.next_offset
    assert list(shell.stream(any_url).iter_json()) == [{"n": 1}, {"n": 2}]


def test_close_returns_result(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type="text/plain")
    result = stream.close("bye")
    assert isinstance(result, CloseResult)
    assert isinstance(result.final_offset, str)
    assert result.final_offset == shell.DurableStream.head(any_url).offset


def test_close_idempotent(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    stream.append(1)
    assert stream.close() == stream.close() == stream.close()
    with pytest.raises(StreamClosedError):
        stream.close("with a body it is an append")


def test_create_closed_stream(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON, closed=True)
    assert stream.head().stream_closed is True
    with shell.stream(any_url) as response:
        assert list(response.iter_json()) == []
        assert response.stream_closed is True


def test_create_closed_stream_with_body(shell: Any, any_url: str) -> None:
    shell.DurableStream.create(any_url, content_type=JSON, body=[{"n": 1}, {"n": 2}], closed=True)
    with shell.stream(any_url) as response:
        assert response.read_json() == [{"n": 1}, {"n": 2}]
        assert (response.up_to_date, response.stream_closed) == (True, True)


def test_append_to_closed_stream_fails(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    final = stream.close({"n": 1}).final_offset
    with pytest.raises(StreamClosedError, match="closed stream") as caught:
        stream.append({"n": 2})
    error = caught.value
    assert (error.code, error.status, error.stream_closed) == ("STREAM_CLOSED", 409, True)
    assert error.final_offset == final
    assert error.url == any_url
    assert shell.stream(any_url, live=False).read_json() == [{"n": 1}]


# -- Readers that catch up -----------------------------------------------------------------------


def test_read_closed_stream_catchup(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    stream.append_all([1, 2, 3])
    final = stream.close().final_offset
    with shell.stream(any_url, live=False) as response:
        assert response.read_json() == [1, 2, 3]
        assert (response.offset, response.up_to_date, response.stream_closed) == (final, True, True)


def test_read_closed_stream_partial(shell: Any, cut_url: str) -> None:
    stream = shell.DurableStream.create(cut_url, content_type="text/plain")
    stream.append(BIG)
    stream.append(BIG)
    stream.close()
    with shell.stream(cut_url, live=False) as response:
        chunks = list(response.iter_byte_chunks())
    assert len(chunks) > 1, "the stream fits into one answer: this test shows nothing"
    assert [chunk.stream_closed for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert b"".join(chunk.data for chunk in chunks).decode() == 2 * BIG


def test_read_closed_stream_empty_eof(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    tail = stream.append(1).next_offset
    with shell.stream(any_url, live=False) as response:
        assert response.read_json() == [1]
        assert response.stream_closed is False
    stream.close()
    with shell.stream(any_url, offset=tail, live=False) as response:
        batches = list(response.iter_json_batches())
    assert [(batch.items, batch.stream_closed) for batch in batches] == [([], True)]


def test_head_closed_stream(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    assert stream.head().stream_closed is False
    final = stream.close().final_offset
    found = shell.DurableStream.head(any_url)
    assert (found.exists, found.stream_closed, found.offset) == (True, True, final)


# -- Readers that are live -------------------------------------------------------------------------


def test_long_poll_closed_stream_immediate(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    final = stream.close(1).final_offset
    started = time.monotonic()
    with shell.stream(any_url, offset=final, live="long-poll") as response:
        assert list(response.iter_json()) == []
        assert response.stream_closed is True
    assert time.monotonic() - started < SOON_S


def test_long_poll_closed_during_wait(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    stream.append(1)
    closer = later(millstream.DurableStream(any_url).close)
    started = time.monotonic()
    with shell.stream(any_url, live="long-poll") as response:
        assert list(response.iter_json()) == [1]
        assert response.stream_closed is True
    assert time.monotonic() - started < SOON_S
    closer.join()


def test_sse_closed_stream_final_event(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    stream.append(1)
    final = stream.close(2).final_offset
    with shell.stream(any_url, live="sse") as response:
        batches = list(response.iter_json_batches())
        assert [item for batch in batches for item in batch.items] == [1, 2]
        last = batches[-1]
        assert (last.offset, last.up_to_date, last.stream_closed) == (final, True, True)
        assert response.cursor is None or len(batches) > 1  # the closing event carries none


def test_sse_closed_stream_connection_closes(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    stream.append(1)
    closer = later(lambda: millstream.DurableStream(any_url, content_type=JSON).close(2))
    started = time.monotonic()
    with shell.stream(any_url, live="sse") as response:
        assert list(response.iter_json()) == [1, 2]
        assert response.stream_closed is True
    assert time.monotonic() - started < SOON_S
    closer.join()


def test_sse_already_closed_at_tail(shell: Any, any_url: str) -> None:
    final = shell.DurableStream.create(any_url, content_type=JSON, body=[1], closed=True).head().offset
    with shell.stream(any_url, offset=final, live="sse") as response:
        batches = list(response.iter_json_batches())
    assert [(batch.items, batch.up_to_date, batch.stream_closed) for batch in batches] == [([], True, True)]


# -- The state matrix ------------------------------------------------------------------------------


def test_state_catching_up(shell: Any, cut_url: str) -> None:
    stream = shell.DurableStream.create(cut_url, content_type="text/plain")
    stream.append(BIG)
    stream.append(BIG)
    with shell.stream(cut_url, live=False) as response:
        seen = states(response.iter_byte_chunks())
    assert seen[0] == (False, False)
    assert seen[-1] == (True, False)


def test_state_caught_up_open(shell: Any, any_url: str) -> None:
    shell.DurableStream.create(any_url, content_type=JSON).append(1)
    with shell.stream(any_url, live=False) as response:
        assert states(response.iter_json_batches()) == [(True, False)]


def test_state_complete(shell: Any, any_url: str) -> None:
    shell.DurableStream.create(any_url, content_type=JSON, body=[1], closed=True)
    with shell.stream(any_url, live=False) as response:
        assert states(response.iter_json_batches()) == [(True, True)]


@pytest.mark.parametrize("live", [False, True, "long-poll"])
def test_state_catching_up_closed_stream(shell: Any, cut_url: str, live: Any) -> None:
    catches_up_to_the_end(shell, cut_url, live)


def test_state_catching_up_closed_stream_by_events(shell: Any, url: str) -> None:
    """On our server: the reference server puts all it has into one event, so there is no middle to see."""
    catches_up_to_the_end(shell, url, "sse")


def catches_up_to_the_end(shell: Any, url: str, live: Any) -> None:
    stream = shell.DurableStream.create(url, content_type="text/plain")
    stream.append(BIG)
    stream.append(BIG)
    stream.close()
    with shell.stream(url, live=live) as response:
        seen = states(response.iter_byte_chunks())
    assert seen[-1] == (True, True)
    assert set(seen[:-1]) == {(False, False)}


# -- Every row of the seed's summary table ---------------------------------------------------------


@pytest.mark.parametrize("live", [True, "long-poll", "sse"])
@pytest.mark.parametrize("method", ["iter_json", "iter_bytes", "iter_text"])
def test_iterators_end_by_themselves_and_hide_the_empty_last_batch(
    shell: Any, any_url: str, method: str, live: Any
) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    stream.append({"n": 1})
    closer = later(millstream.DurableStream(any_url).close)
    with shell.stream(any_url, live=live) as response:
        items = list(getattr(response, method)())
        assert len(items) == 1, items
        assert response.stream_closed is True
    closer.join()


@pytest.mark.parametrize("live", [True, "long-poll", "sse"])
@pytest.mark.parametrize("method", ["subscribe_json", "subscribe_bytes", "subscribe_text"])
def test_subscribers_are_told_of_the_end(shell: Any, any_url: str, method: str, live: Any) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    stream.append({"n": 1})
    closer = later(millstream.DurableStream(any_url).close)
    seen: list[Any] = []
    with shell.stream(any_url, live=live) as response:
        getattr(response, method)(seen.append).wait(60)
        assert response.stream_closed is True
    assert [chunk.stream_closed for chunk in seen] == [False] * (len(seen) - 1) + [True]
    assert {(chunk.up_to_date, chunk.stream_closed) for chunk in seen} <= {(True, False), (True, True)}
    closer.join()


@pytest.mark.parametrize("live", [False, True, "long-poll", "sse"])
@pytest.mark.parametrize(
    ("method", "expected"),
    [("read_json", [{"n": 1}]), ("read_text", '[{"n":1}]'), ("read_bytes", b'[{"n":1}]')],
)
def test_accumulators_stop_when_up_to_date(
    shell: Any, any_url: str, method: str, expected: Any, live: Any
) -> None:
    shell.DurableStream.create(any_url, content_type=JSON).append({"n": 1})
    with shell.stream(any_url, live=live) as response:
        assert getattr(response, method)() == expected
        assert (response.up_to_date, response.stream_closed) == (True, False)


def test_a_producer_closes_idempotently_with_a_last_message(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    producer = shell.IdempotentProducer(stream, "writer-1")
    producer.append({"event": "start"})
    result = producer.close({"event": "end"})
    assert producer.close({"event": "end"}) == result
    assert list(shell.stream(any_url).iter_json()) == [{"event": "start"}, {"event": "end"}]
    assert stream.head().offset == result.final_offset


def test_a_producer_detaches_and_leaves_the_stream_open(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    with shell.IdempotentProducer(stream, "writer-1") as first:
        first.append(1)
    first.detach()
    assert stream.head().stream_closed is False
    with shell.IdempotentProducer(stream, "writer-2") as second:
        second.append(2)
    assert shell.stream(any_url, live=False).read_json() == [1, 2]
