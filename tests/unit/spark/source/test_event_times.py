"""Catching up by event time: whatever is read, nothing that stays unread is older."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.json.messages import Message
from millstream.spark.source.event_times import Lane, admit_by_time, time_reader

ZERO = "0000000000000000_"
AT = time_reader("at")
times = st.lists(st.integers(0, 50), max_size=30).map(sorted)


def lane(messages: list[bytes], piece: int) -> Lane:
    """A lane over messages that are all there, fetched some at a time."""
    starts = [0]
    for message in messages:
        starts.append(starts[-1] + len(message) + 1)

    def fetch(offset: str, until: str) -> list[Message]:
        first = starts.index(int(offset.removeprefix(ZERO)))
        return list(messages[first : first + piece])

    made = Lane(ZERO, 0, fetch, AT)
    made.look(f"{ZERO}{starts[-1]:016d}")
    return made


def read_batches(
    streams: dict[str, list[int]], max_rows: int | None, max_bytes: int | None, piece: int
) -> list[list[int]]:
    """The times that each batch holds, until everything is read."""
    texts = {name: [json.dumps({"at": at}).encode() for at in found] for name, found in streams.items()}
    lanes = {name: lane(found, piece) for name, found in texts.items()}
    batches: list[list[int]] = []
    taken = dict.fromkeys(streams, 0)
    while any(taken[name] < len(streams[name]) for name in streams):
        admit_by_time(lanes, max_rows, max_bytes)
        batch = []
        for name, one in lanes.items():
            ends = [0]
            for text in texts[name]:
                ends.append(ends[-1] + len(text) + 1)
            now = ends.index(one.position)
            batch += streams[name][taken[name] : now]
            taken[name] = now
        assert batch, "every batch reads something"
        batches.append(batch)
    return batches


@given(
    st.dictionaries(st.sampled_from("abcdef"), times, max_size=6),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 300),
    st.integers(1, 7),
)
def test_no_batch_makes_a_later_one_late(
    streams: dict[str, list[int]], max_rows: int | None, max_bytes: int | None, piece: int
) -> None:
    batches = read_batches(streams, max_rows, max_bytes, piece)
    assert sorted(at for batch in batches for at in batch) == sorted(
        at for found in streams.values() for at in found
    )
    latest = -1
    for batch in batches:
        assert min(batch) >= latest
        latest = max(batch)
        assert max_rows is None or len(batch) <= max_rows


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 5))
def test_a_stream_is_read_in_its_own_order_whatever_its_times(found: list[int], piece: int) -> None:
    """One that is out of order waits for nobody: it comes with those before it."""
    batches = read_batches({"a": found, "b": [100] * 3}, 4, None, piece)
    read = [at for batch in batches for at in batch if at < 100]
    assert read == found
    assert batches[-1][-1] == 100


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        (b'{"at": "2026-01-01T00:00:30Z"}', 1767225630.0),
        (b'{"at": "2026-01-01T01:00:30+01:00", "x": [1]}', 1767225630.0),
        (b'{"at": "2026-01-01 00:00:30"}', 1767225630.0),
        (b'{"at": "2026-01-01"}', 1767225600.0),
        (b'{"at": 5}', 5.0),
        (b'{"at": true}', None),
        (b'{"at": "soon"}', None),
        (b'{"other": 1}', None),
        (b"[1]", None),
        (b"\xff", None),
    ],
)
def test_the_time_of_a_message(message: bytes, seconds: float | None) -> None:
    read: Callable[[Message], float | None] = AT
    assert read(message) == seconds
