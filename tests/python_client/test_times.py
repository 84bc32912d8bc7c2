"""Reads from a time and of the last messages, by both shells: rules X7, X8."""

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from millstream import BadRequestError, last, since

JSON = "application/json"
LIVES = [False, True, "long-poll", "sse"]


@pytest.fixture
def spaced(shell: Any, url: str) -> Any:
    """A stream of three messages that arrived some milliseconds apart, and is closed."""
    log = shell.DurableStream.create(url, content_type=JSON)
    for number in range(3):
        log.append(number)
        time.sleep(0.005)
    log.close()
    return log


def test_batches_say_when_they_arrived(shell: Any, spaced: Any) -> None:
    """X7."""
    found = spaced.head()
    reading = shell.stream(spaced.url, live="sse", params={"times": "true"})
    batches = [batch for batch in reading.iter_json_batches() if batch.items]
    assert [batch.items for batch in batches] == [[0], [1], [2]]
    times = [batch.last_time for batch in batches]
    assert times == sorted(set(times))
    assert (times[0], times[-1]) == (found.first_time, found.last_time)
    for chunks in ("iter_byte_chunks", "iter_text_chunks"):
        *_, chunk = getattr(shell.stream(spaced.url, live=False), chunks)()
        assert chunk.last_time == found.last_time


@pytest.mark.parametrize("live", LIVES)
def test_a_read_begins_at_a_time(shell: Any, spaced: Any, live: Any) -> None:
    """X7: in every mode, and the response says where that is."""
    moment = datetime.fromisoformat(spaced.head().last_time)
    for when in (
        moment,
        moment.astimezone(timezone(timedelta(hours=5))),
        moment - timedelta(microseconds=900),
    ):
        response = shell.stream(spaced.url, offset=since(when), live=live)
        assert list(response.iter_json()) == [2]
        assert response.start_offset == "0000000000000000_0000000000000004"
    assert list(shell.stream(spaced.url, offset=since(timedelta(hours=1)), live=live).iter_json()) == [
        0,
        1,
        2,
    ]
    assert shell.stream(spaced.url, offset=since(datetime.now(UTC)), live=live).read_json() == []


@pytest.mark.parametrize("live", LIVES)
def test_a_read_begins_with_the_last_messages(shell: Any, spaced: Any, live: Any) -> None:
    """X8."""
    response = shell.stream(spaced.url, offset=last(2), live=live)
    assert list(response.iter_json()) == [1, 2]
    assert response.start_offset == "0000000000000000_0000000000000002"
    assert list(shell.stream(spaced.url, offset=last(99), live=live).iter_json()) == [0, 1, 2]


def test_a_time_becomes_an_offset(shell: Any, spaced: Any) -> None:
    """X7: HEAD with the parameters of a read."""
    found = spaced.head()
    handle = shell.DurableStream(spaced.url, params={"offset": f"time:{found.last_time}"})
    assert handle.head().start_offset == "0000000000000000_0000000000000004"
    assert found.start_offset is None


def test_what_is_no_time_is_told(shell: Any, spaced: Any) -> None:
    """X7, X8."""
    with pytest.raises(BadRequestError, match="s, m, h or d"):
        shell.stream(spaced.url, offset="time:-10 minutes", live=False)
    with pytest.raises(BadRequestError, match="at most 100000"):
        shell.stream(spaced.url, offset=last(100_001), live=False)
    with pytest.raises(ValueError, match="future"):
        since(timedelta(seconds=-1))
    with pytest.raises(ValueError, match="negative"):
        last(-1)


def test_a_part_of_a_second_is_rounded_to_more() -> None:
    """X7: what arrived in it is read."""
    assert since(timedelta(milliseconds=100)) == "time:-1s"
    assert since(datetime(2030, 1, 31, 12, 0, 0, 500_900, tzinfo=UTC)) == "time:2030-01-31T12:00:00.500Z"
