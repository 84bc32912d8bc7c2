"""Idempotent producers: rules R1 to R4, and how many of them a stream remembers (rule H4)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.content import kind_of
from millstream.protocol.errors import MalformedError
from millstream.protocol.producers import (
    MAX_ID_BYTES,
    Accepted,
    BadStart,
    Fenced,
    Gap,
    Limits,
    ProducerState,
    Repeated,
    Stamp,
    TooManyProducers,
    Verdict,
    judge,
    parse_stamp,
    plan_room,
)
from millstream.protocol.requests import AppendRequest
from millstream.protocol.streams import Append, Stream, apply_append, plan_append

LAST = (3, 5)  # the epoch and seq that were accepted last


@pytest.mark.parametrize(
    ("last", "epoch", "seq", "verdict"),
    [
        (None, 0, 0, Accepted()),
        (None, 9, 0, Accepted()),
        (None, 0, 1, Gap(0, 1)),
        (LAST, 3, 6, Accepted()),
        (LAST, 3, 5, Repeated(5)),
        (LAST, 3, 0, Repeated(5)),
        (LAST, 3, 7, Gap(6, 7)),
        (LAST, 2, 6, Fenced(3)),
        (LAST, 0, 0, Fenced(3)),
        (LAST, 4, 0, Accepted()),
        (LAST, 9, 0, Accepted()),
        (LAST, 4, 1, BadStart(1)),
        (LAST, 4, 6, BadStart(6)),
    ],
)
def test_a_stamp_is_judged_by_the_last_one(
    last: tuple[int, int] | None, epoch: int, seq: int, verdict: Verdict
) -> None:
    """R2."""
    accepted = ProducerState(*last) if last is not None else None
    assert judge(accepted, Stamp(b"p", epoch, seq)) == verdict


def deliver(stamps: list[Stamp]) -> list[Stamp]:
    """Feed stamps in order, as a stream does, and give those that were accepted."""
    accepted: list[Stamp] = []
    for stamp in stamps:
        last = ProducerState(accepted[-1].epoch, accepted[-1].seq) if accepted else None
        if isinstance(judge(last, stamp), Accepted):
            accepted.append(stamp)
    return accepted


sessions = st.lists(st.integers(0, 4), min_size=1, max_size=4)  # how many appends each epoch has


@given(sessions, st.data())
def test_retrying_every_append_changes_nothing(lengths: list[int], data: st.DataObject) -> None:
    """R4: however often and however late each append is sent again, each counts once."""
    sent = [Stamp(b"p", epoch, seq) for epoch, length in enumerate(lengths) for seq in range(length)]
    retried = [
        stamp
        for index in range(len(sent))
        for stamp in [
            sent[index],
            *data.draw(st.lists(st.sampled_from(sent[: index + 1]), max_size=3)),
        ]
    ]
    assert deliver(retried) == sent == deliver(sent)


@given(st.lists(st.builds(Stamp, st.just(b"p"), st.integers(0, 3), st.integers(0, 4)), max_size=40))
def test_what_is_accepted_has_no_gap_and_never_goes_back(stamps: list[Stamp]) -> None:
    """R2: whatever arrives, each epoch counts from zero without a hole, and epochs only rise."""
    accepted = [(stamp.epoch, stamp.seq) for stamp in deliver(stamps)]
    for (epoch, seq), (next_epoch, next_seq) in pairwise(accepted):
        assert (next_epoch, next_seq) == (epoch, seq + 1) or (next_epoch > epoch and next_seq == 0)
    assert not accepted or accepted[0][1] == 0


def headers(id: bytes | None, epoch: bytes | None, seq: bytes | None) -> dict[bytes, bytes]:
    fields = {b"producer-id": id, b"producer-epoch": epoch, b"producer-seq": seq}
    return {name: value for name, value in fields.items() if value is not None}


def test_a_stamp_is_three_headers_or_none() -> None:
    """R1."""
    assert parse_stamp({}) is None
    assert parse_stamp(headers(b"p", b"1", b"9007199254740991")) == Stamp(b"p", 1, 2**53 - 1)


@pytest.mark.parametrize(
    ("id", "epoch", "seq"),
    [
        (b"p", None, None),
        (None, b"0", None),
        (None, None, b"0"),
        (b"p", b"0", None),
        (b"p", None, b"0"),
        (None, b"0", b"0"),
        (b"", b"0", b"0"),
        (b"p", b"", b"0"),
        (b"p", b"-1", b"0"),
        (b"p", b"0", b"+1"),
        (b"p", b"0", b"1.0"),
        (b"p", b"0", b"9007199254740992"),
        (b"p", b"0x1", b"0"),
    ],
)
def test_anything_else_is_no_stamp(id: bytes | None, epoch: bytes | None, seq: bytes | None) -> None:
    """R1."""
    with pytest.raises(MalformedError):
        parse_stamp(headers(id, epoch, seq))


def test_an_id_has_a_longest_length() -> None:
    """R1, H4."""
    longest = b"p" * MAX_ID_BYTES
    assert parse_stamp(headers(longest, b"0", b"0")) == Stamp(longest, 0, 0)
    with pytest.raises(MalformedError) as refused:
        parse_stamp(headers(longest + b"p", b"0", b"0"))
    assert refused.value.code == "PRODUCER_ID_TOO_LONG"


# -- How many a stream remembers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used_ms", "now_ms", "room"),
    [
        ([], 0, ()),
        ([0, 0], 0, ()),
        ([0, 0, 0], 9, TooManyProducers(3)),
        ([0, 0, 0], 10, (b"0",)),
        ([5, 0, 0], 10, TooManyProducers(3)),  # the first is the one that was used least recently
        ([0, 0, 0, 0, 0], 10, (b"0", b"1", b"2")),  # the limit was lowered
        ([0, 9, 9, 9, 9], 10, (b"0",)),
    ],
)
def test_the_longest_idle_are_forgotten_for_a_new_one(
    used_ms: list[int], now_ms: int, room: tuple[bytes, ...] | TooManyProducers
) -> None:
    """H4."""
    known = {b"%d" % number: ProducerState(0, 0, ms) for number, ms in enumerate(used_ms)}
    assert plan_room(known, Limits(3, 10), now_ms) == room


@pytest.mark.parametrize(
    ("epoch", "seq", "verdict"),
    [(1, 0, Fenced(2)), (2, 0, Fenced(2)), (2, 7, Fenced(2)), (3, 0, Accepted()), (3, 1, Gap(0, 1))],
)
def test_an_unknown_producer_begins_above_all_that_were_forgotten(
    epoch: int, seq: int, verdict: Verdict
) -> None:
    """R2, H4."""
    assert judge(None, Stamp(b"p", epoch, seq), floor=2) == verdict
    assert judge(ProducerState(0, 4), Stamp(b"p", 0, 5), floor=2) == Accepted()


def send(stream: Stream, stamp: Stamp, limits: Limits, now_ms: int) -> bool:
    """Append a byte, and tell whether it was stored."""
    request = AppendRequest(b"x", b"text/plain", False, stamp, None)
    plan = plan_append(stream, request, 0, limits, now_ms)
    if isinstance(plan, Append):
        apply_append(stream, plan, now_ms)
    return isinstance(plan, Append)


def new_stream() -> Stream:
    return Stream(1, "/s", b"text/plain", kind_of(b"text/plain"), 0)


any_stamp = st.builds(
    Stamp, st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), st.integers(0, 3), st.integers(0, 3)
)


@given(st.lists(st.tuples(any_stamp, st.integers(0, 6)), max_size=80), st.integers(1, 3))
def test_what_is_forgotten_is_never_stored_twice(sent: list[tuple[Stamp, int]], count: int) -> None:
    """R4, H4: beside a stream that remembers everything, this one may refuse more, and stores nothing more.

    Every stamp that it stores is one that it never stored before, in the order of its producer.
    """
    unlimited, limited = new_stream(), new_stream()
    stored: dict[bytes, list[tuple[int, int]]] = {}
    now_ms = 0
    for stamp, pause_ms in sent:
        now_ms += pause_ms
        if not send(limited, stamp, Limits(count, 5), now_ms):
            continue
        before = stored.setdefault(stamp.id, [])
        assert all(earlier < (stamp.epoch, stamp.seq) for earlier in before)
        before.append((stamp.epoch, stamp.seq))
        assert send(unlimited, stamp, Limits(10**9, 5), now_ms), "only what is new to both is stored"
        assert len(limited.producers or {}) <= count
