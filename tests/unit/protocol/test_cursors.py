"""Cursors: rule L3."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.cursors import (
    EPOCH_MS,
    INTERVAL_MS,
    MAX_JITTER_S,
    current_cursor,
    next_cursor,
    parse_cursor,
)


def test_intervals_of_20_seconds_are_counted_from_october_2024() -> None:
    """L3."""
    assert datetime.fromtimestamp(EPOCH_MS / 1000, UTC) == datetime(2024, 10, 9, tzinfo=UTC)
    assert [current_cursor(EPOCH_MS + ms) for ms in (0, 19_999, 20_000, 86_400_000)] == [0, 0, 1, 4320]
    assert current_cursor(0) == 0


@pytest.mark.parametrize(
    ("client", "jitter_s", "answer"),
    [
        (None, 3600, 100),
        (0, 3600, 100),
        (99, 3600, 100),
        (100, 1, 101),
        (100, 20, 101),
        (100, 40, 102),
        (100, 3600, 280),
        (500, 1, 501),
    ],
)
def test_a_client_that_is_not_behind_is_moved_ahead(client: int | None, jitter_s: int, answer: int) -> None:
    """L3."""
    assert next_cursor(EPOCH_MS + 100 * INTERVAL_MS, client, jitter_s) == answer


@given(st.integers(0, 2**42), st.integers(0, 10**9), st.integers(1, MAX_JITTER_S))
def test_no_client_meets_its_own_cursor_again(now_ms: int, client: int, jitter_s: int) -> None:
    """L3: the answer is ahead of the client and not behind the clock, by at most an hour."""
    answer = next_cursor(now_ms, client, jitter_s)
    assert client < answer
    assert current_cursor(now_ms) <= answer <= max(current_cursor(now_ms), client + 180)


@pytest.mark.parametrize(
    ("text", "cursor"),
    [(b"0", 0), (b"1234", 1234), (b"", None), (b"-1", None), (b"x", None), (b"1.5", None), (b"9" * 17, None)],
)
def test_a_cursor_that_we_cannot_have_given_counts_as_none(text: bytes, cursor: int | None) -> None:
    """L3."""
    assert parse_cursor(text) == cursor
