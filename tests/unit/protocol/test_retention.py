"""What streams keep, and what may go: rules X4, O4."""

from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol import forks, retention
from millstream.protocol.content import Kind
from millstream.protocol.errors import MalformedError
from millstream.protocol.retention import (
    KEEP_ALL,
    Mark,
    Retention,
    Shared,
    Trim,
    apply_trim,
    parse_retention,
    plan_trim,
)
from millstream.protocol.streams import Append, Stream, apply_append


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ((None, None), KEEP_ALL),
        ((b"1", None), Retention(bytes=1)),
        ((None, b"60"), Retention(seconds=60)),
        ((b"9007199254740991", b"9007199254740991"), Retention(2**53 - 1, 2**53 - 1)),
    ],
)
def test_limits_are_plain_numbers(fields: tuple[bytes | None, bytes | None], limits: Retention) -> None:
    """X4."""
    assert parse_retention(*fields) == limits


@pytest.mark.parametrize("text", [b"", b"0", b"01", b"-1", b"+1", b"1.5", b"1e3", b" 1", b"many", b"\xb2"])
def test_anything_else_is_refused(text: bytes) -> None:
    """X4: as strict as Stream-TTL; and to keep nothing is not a limit."""
    with pytest.raises(MalformedError, match="Stream-Retain-Bytes"):
        parse_retention(text, None)
    with pytest.raises(MalformedError, match="Stream-Retain-Seconds"):
        parse_retention(None, text)


def test_limits_that_are_not_given_are_taken_from_elsewhere() -> None:
    """X4."""
    assert Retention(bytes=1).or_else(Retention(2, 3)) == Retention(1, 3)
    assert KEEP_ALL.or_else(KEEP_ALL) == KEEP_ALL
    assert not KEEP_ALL
    assert Retention(seconds=1)


class Written:
    """Appends of given sizes."""

    def __init__(self, appends: list[tuple[int, int]]) -> None:
        self.ends = list(accumulate(size for size, _ in appends))
        self.times = list(accumulate(passed_ms for _, passed_ms in appends))

    def bounds(self, position: int) -> tuple[int, int]:
        index = bisect_right(self.ends, position)
        return self.ends[index - 1] if index else 0, self.ends[index]

    def count(self, position: int) -> int:
        return bisect_right(self.ends, position)

    def time_at(self, position: int) -> int:
        return self.times[self.count(position)]


history = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5000)), min_size=1, max_size=40)
limits = st.builds(Retention, st.none() | st.integers(1, 200), st.none() | st.integers(1, 30))


@given(history, limits, st.lists(st.booleans(), min_size=40, max_size=40), st.integers(0, 40_000))
def test_trimming_keeps_at_least_the_limits_and_not_much_more(
    appends: list[tuple[int, int]], limits: Retention, looks: list[bool], later_ms: int
) -> None:
    """X4: whatever was written when, and whenever the stream is looked at."""
    stream = Stream(1, "/s", b"text/plain", Kind.TEXT, 0, retention=limits)
    written, now_ms = Written(appends), 0
    times: list[tuple[int, int]] = []  # each append's end and time
    for (size, passed_ms), looked in zip(appends, looks, strict=False):
        now_ms += passed_ms
        apply_append(stream, Append(b"." * size, stream.tail + size, False, None, None), now_ms)
        times.append((stream.tail, now_ms))
        if looked:
            trimmed(stream, now_ms, written)
    now_ms += later_ms
    trimmed(stream, now_ms, written)
    assert stream.start in (0, *written.ends)
    assert stream.first_append == written.count(stream.start)
    is_empty = stream.start == stream.tail
    assert stream.first_time_ms == (0 if is_empty else written.time_at(stream.start))
    by_size, by_age = largest_start(stream, limits, times, now_ms)
    assert stream.start <= max(by_size, by_age)
    if limits.bytes is not None:
        allowed = limits.bytes + limits.bytes // 16 + max(size for size, _ in appends)
        assert stream.tail - stream.start <= allowed
    if limits.seconds is not None:
        old_ms = now_ms - limits.seconds * 1000 - limits.seconds * 1000 // 16 - 1
        assert stream.start >= max((end for end, ms in times if ms <= old_ms), default=0)
        assert len(stream.marks) <= 18
    assert plan_trim(stream, now_ms, written) is None  # once is enough


def trimmed(stream: Stream, now_ms: int, written: Written) -> None:
    change = plan_trim(stream, now_ms, written)
    if change is not None:
        assert stream.start < change.start <= stream.tail
        apply_trim(stream, change)


def largest_start(
    stream: Stream, limits: Retention, times: list[tuple[int, int]], now_ms: int
) -> tuple[int, int]:
    """How far each limit would let a stream's start move, at most."""
    by_size = max(0, stream.tail - limits.bytes) if limits.bytes is not None else 0
    if limits.seconds is None:
        return by_size, 0
    old = [end for end, ms in times if ms + limits.seconds * 1000 <= now_ms]
    return by_size, max(old, default=0)


def test_a_clock_that_was_set_back_makes_nothing_older() -> None:
    """X4."""
    marks = retention.marked((), Retention(seconds=16), 10, 5000)
    marks = retention.marked(marks, Retention(seconds=16), 20, 1000)
    assert marks == (Mark(5000, 5000, 20),)


def test_a_stream_is_due_when_its_oldest_is_old_enough() -> None:
    """X4; a deadline that comes first comes first."""
    stream = Stream(1, "/s", b"text/plain", Kind.TEXT, 0, retention=Retention(seconds=10))
    assert stream.due_ms is None
    stream.marks = (Mark(1000, 1500, 5), Mark(3000, 3000, 9))
    assert stream.due_ms == 11_500
    stream.deadline_ms = 8000
    assert stream.due_ms == 8000
    stream.deadline_ms = 20_000
    assert stream.due_ms == 11_500


@pytest.mark.parametrize(
    ("marks", "base", "expected"),
    [
        ((Mark(1, 2, 10), Mark(3, 4, 20)), 20, (Mark(1, 2, 10), Mark(3, 4, 20))),
        ((Mark(1, 2, 10), Mark(3, 4, 20)), 10, (Mark(1, 2, 10),)),
        ((Mark(1, 2, 10), Mark(3, 4, 20)), 15, (Mark(1, 2, 10), Mark(9000, 9000, 15))),
        ((), 15, (Mark(9000, 9000, 15),)),
        ((), 5, ()),
    ],
)
def test_a_fork_takes_over_how_old_things_are(
    marks: retention.Marks, base: int, expected: retention.Marks
) -> None:
    """X4: and what nobody knows the age of counts as new."""
    assert retention.inherited(marks, Retention(seconds=10), 5, base, 9000) == expected
    assert retention.inherited(marks, Retention(bytes=10), 5, base, 9000) == ()


@pytest.mark.parametrize(
    ("start", "shared", "ranges"),
    [
        (0, None, [(0, 100)]),
        (40, None, [(40, 100)]),
        (100, None, []),
        (40, Shared(10, 1, 30), [(10, 30), (40, 100)]),
        (40, Shared(10, 1, 40), [(10, 40), (40, 100)]),
        (40, Shared(10, 1, 60), [(10, 40), (40, 100)]),
        (10, Shared(10, 1, 60), [(10, 100)]),
        (40, Shared(30, 1, 20), [(40, 100)]),
    ],
)
def test_what_is_needed_is_what_readers_and_forks_may_ask_for(
    start: int, shared: Shared | None, ranges: list[tuple[int, int]]
) -> None:
    """X4, F1."""
    assert list(retention.needed(start, 100, shared)) == ranges


def test_forks_share_from_the_first_ones_beginning_until_the_last_one_ends() -> None:
    """X4, F1."""
    source = Stream(1, "/s", b"text/plain", Kind.TEXT, 0, retention=Retention(bytes=1), tail=100)
    apply_trim(source, Trim(20, 2, 0))
    for count, base in ((1, 50), (2, 30)):
        source.fork_count = count
        forks.share(source, base)
        assert source.shared == Shared(20, 2, 50)
    apply_trim(source, Trim(90, 9, 0))
    source.fork_count = 3
    forks.share(source, 95)
    assert source.shared == Shared(20, 2, 95)
    source.fork_count = 1
    forks.unshare(source)
    assert source.shared == Shared(20, 2, 95)
    source.fork_count = 0
    forks.unshare(source)
    assert source.shared is None


def test_a_stream_that_keeps_everything_shares_it_for_a_later_trim() -> None:
    """F1, X10: limits may be set later, and a client may trim."""
    source = Stream(1, "/s", b"text/plain", Kind.TEXT, 0, tail=100, fork_count=1)
    forks.share(source, 50)
    assert source.shared == Shared(0, 0, 50)


def test_forks_of_a_former_version_keep_everything() -> None:
    """F1, X10: a stream that kept everything did not note what its forks share."""
    source = Stream(1, "/s", b"text/plain", Kind.TEXT, 0, tail=100, fork_count=2)
    forks.share(source, 50)  # the second one
    assert source.shared == Shared(0, 0, 100)
    source = Stream(1, "/s", b"text/plain", Kind.TEXT, 0, tail=100, fork_count=1)
    retention.apply_trim(source, retention.Trim(80, 8, 0))
    assert (source.start, source.shared) == (80, Shared(0, 0, 100))
