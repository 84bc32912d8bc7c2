"""Planning: ranges are covered without gap or overlap, in portions of the size that was asked for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.source.offsets import Position, bytes_between
from millstream.spark.source.planning import Range, Step, admit_bytes, partitions

MAX_STEP = 50


def at(count: int) -> str:
    return f"{0:016d}_{count:016d}"


def step_by(message: int) -> Step:
    """A server whose messages all have one size, and whose answers are small."""

    def step(stream: str, start: str, until: str, limit: int) -> str:
        left = bytes_between(start, until) or 0
        whole = max(message, min(limit, MAX_STEP) // message * message)
        return at(int(start[17:]) + min(left, whole))

    return step


@given(
    messages=st.lists(st.integers(0, 200), min_size=1, max_size=5),
    size=st.integers(1, 20),
    partition_bytes=st.integers(1, 500),
    min_partitions=st.none() | st.integers(1, 50),
)
def test_partitions_cover_everything_once_and_in_order(
    messages: list[int], size: int, partition_bytes: int, min_partitions: int | None
) -> None:
    start = {f"s{number}": Position(at(0)) for number in range(len(messages))}
    end = {f"s{number}": Position(at(count * size)) for number, count in enumerate(messages)}
    limits = {"partition_bytes": partition_bytes, "min_partitions": min_partitions}
    found = partitions(start, end, step_by(size), **limits)
    assert found == partitions(start, end, step_by(size), **limits)
    for name in start:
        parts = [one for partition in found for one in partition if one.stream == name]
        if start[name] == end[name]:
            assert parts == []
            continue
        assert parts[0].start == start[name]
        assert parts[-1].end == end[name]
        for one, following in pairwise(parts):
            assert one.end == following.start
    largest = max((one.size or 0 for partition in found for one in partition), default=0)
    assert largest <= max(partition_bytes, size)
    assert all(sum(one.size or 0 for one in partition) <= max(partition_bytes, size) for partition in found)


def test_the_end_of_a_stream_stands_on_its_last_range_only() -> None:
    start, end = {"s": Position(at(0))}, {"s": Position(at(100), closed=True)}
    found = [one for part in partitions(start, end, step_by(10), partition_bytes=30) for one in part]
    assert [one.ends_stream for one in found] == [False] * (len(found) - 1) + [True]


def test_a_stream_that_only_closed_is_planned_where_that_is_shown() -> None:
    start, end = {"s": Position(at(7))}, {"s": Position(at(7), closed=True)}
    assert partitions(start, end, step_by(1), partition_bytes=30) == []
    shown = partitions(start, end, step_by(1), partition_bytes=30, shows_closed=True)
    assert shown == [(Range("s", start["s"], end["s"]),)]


def test_a_stream_that_has_just_joined_and_one_made_anew_hold_nothing_yet() -> None:
    assert partitions({}, {"new": Position(at(0))}, step_by(1), partition_bytes=30) == []
    assert partitions({"s": Position(at(9))}, {"s": Position(at(0))}, step_by(1), partition_bytes=30) == []


def test_each_part_of_a_range_knows_which_of_the_streams_of_its_name_it_is_of() -> None:
    start, end = Position(at(0), incarnation="a"), Position(at(100), incarnation="a")
    found = partitions({"s": start}, {"s": end}, step_by(1), partition_bytes=30)
    assert len(found) > 1
    assert {one.start.incarnation for partition in found for one in partition} == {"a"}


def test_ranges_whose_size_nobody_knows_stay_whole_and_alone() -> None:
    start = {name: Position("x", total=0) for name in "ab"}
    end = {name: Position("y", total=9) for name in "ab"}
    found = partitions(start, end, step_by(1), partition_bytes=1, min_partitions=10)
    assert [len(partition) for partition in found] == [1, 1]


@given(
    lags=st.lists(st.integers(0, 100), min_size=1, max_size=6),
    size=st.integers(1, 30),
    max_bytes=st.integers(1, 2000),
)
def test_admission_keeps_to_its_limit_and_always_gets_on(lags: list[int], size: int, max_bytes: int) -> None:
    start = {f"s{number}": Position(at(0)) for number in range(len(lags))}
    end = {f"s{number}": Position(at(lag * size), closed=True) for number, lag in enumerate(lags)}
    rounds = 0
    while start != end:
        admitted = admit_bytes(start, end, max_bytes, step_by(size))
        taken = sum(bytes_between(start[name].offset, admitted[name].offset) or 0 for name in start)
        assert taken <= max(max_bytes, size)
        assert admitted != start
        assert all(one.closed == (one.offset == end[name].offset) for name, one in admitted.items())
        start = admitted
        rounds += 1
        assert rounds <= sum(lags) + 1
