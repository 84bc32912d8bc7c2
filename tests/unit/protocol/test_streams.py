"""What may happen to a stream: rules C1, C4, C5, A1 to A9, R2, F1, F2, X6."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol import lifecycle, parts, streams
from millstream.protocol.caching import tail_tag
from millstream.protocol.conditions import Condition, OffsetConflict, TagConflict
from millstream.protocol.content import Kind, kind_of
from millstream.protocol.errors import MalformedError
from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.incarnations import incarnation
from millstream.protocol.lifecycle import ConfigMismatch, Delete, Exists, NameInUse
from millstream.protocol.producers import BadStart, Fenced, Gap, ProducerState, Stamp
from millstream.protocol.requests import AppendRequest, CreateRequest, parse_append
from millstream.protocol.streams import (
    AlreadyClosed,
    Append,
    Closed,
    Duplicate,
    Fork,
    SeqRegressed,
    SoftDeleted,
    Stream,
    StreamFull,
    TypeMismatch,
)

TEXT = b"text/plain"
TAIL = 10
TAG = tail_tag(incarnation(1, 0), TAIL, closed=False)
LAST = ProducerState(3, 5)
CLOSER = Stamp(b"closer", 0, 2)


def stream(content_type: bytes = TEXT, **state: Any) -> Stream:
    state = {"tail": TAIL, "created_ms": 0} | state
    return Stream(id=1, name="/s", content_type=content_type, kind=kind_of(content_type), **state)


def post(
    data: bytes = b"",
    *,
    content_type: bytes = TEXT,
    closes: bool = False,
    stamp: tuple[bytes, int, int] | None = None,
    seq: bytes | None = None,
    expected: int | None = None,
    tag: bytes | None = None,
) -> AppendRequest:
    producer = Stamp(*stamp) if stamp is not None else None
    tags = (tag,) if tag is not None else None
    condition = Condition(expected, tags) if expected is not None or tags is not None else None
    return AppendRequest(data, content_type, closes, producer, seq, condition)


OPEN = {"producers": {b"p": LAST}, "last_seq": b"b"}
CLOSED = OPEN | {"closed": True}
CLOSED_BY_PRODUCER = CLOSED | {"closed_by": CLOSER, "producers": {b"p": LAST, b"closer": ProducerState(0, 2)}}


@pytest.mark.parametrize(
    ("state", "request_", "plan"),
    [
        # An open stream takes data, closure, or both (A1, A4).
        (OPEN, post(b"abc"), Append(b"abc", 13, False, None, None)),
        (OPEN, post(b"abc", closes=True), Append(b"abc", 13, True, None, None)),
        (OPEN, post(closes=True), Append(b"", 10, True, None, None)),
        (OPEN, post(closes=True, content_type=b""), Append(b"", 10, True, None, None)),
        (OPEN, post(closes=True, content_type=b"image/png"), Append(b"", 10, True, None, None)),
        # The content type must match, and is asked before producer and seq (A2).
        (OPEN, post(b"a", content_type=b"Text/Plain;x=1"), Append(b"a", 11, False, None, None)),
        (OPEN, post(b"a", content_type=b"text/html"), TypeMismatch(TEXT, b"text/html")),
        (OPEN, post(b"a", content_type=b"a/b", stamp=(b"p", 0, 0), seq=b"a"), TypeMismatch(TEXT, b"a/b")),
        # The producer decides next (R2).
        (OPEN, post(b"a", stamp=(b"p", 3, 6)), Append(b"a", 11, False, Stamp(b"p", 3, 6), None)),
        (OPEN, post(b"a", stamp=(b"q", 7, 0)), Append(b"a", 11, False, Stamp(b"q", 7, 0), None)),
        (OPEN, post(b"a", stamp=(b"p", 4, 0)), Append(b"a", 11, False, Stamp(b"p", 4, 0), None)),
        (OPEN, post(b"a", stamp=(b"p", 3, 5)), Duplicate(TAIL, False, 3, 5)),
        (OPEN, post(b"a", stamp=(b"p", 3, 1)), Duplicate(TAIL, False, 3, 5)),
        (OPEN, post(b"a", stamp=(b"p", 2, 6)), Fenced(3)),
        (OPEN, post(b"a", stamp=(b"p", 4, 1)), BadStart(1)),
        (OPEN, post(b"a", stamp=(b"p", 3, 8)), Gap(6, 8)),
        (OPEN, post(b"a", stamp=(b"q", 0, 1)), Gap(0, 1)),
        (OPEN, post(closes=True, stamp=(b"p", 3, 6)), Append(b"", 10, True, Stamp(b"p", 3, 6), None)),
        (OPEN, post(closes=True, stamp=(b"p", 3, 5)), Duplicate(TAIL, False, 3, 5)),
        # Then Stream-Seq: bytewise, strictly rising, and only when nothing was refused before (A2, A9).
        (OPEN, post(b"a", seq=b"c"), Append(b"a", 11, False, None, b"c")),
        (OPEN, post(b"a", seq=b"b0"), Append(b"a", 11, False, None, b"b0")),
        (OPEN, post(b"a", seq=b"b"), SeqRegressed(b"b", b"b", TAIL)),
        (OPEN, post(b"a", seq=b"B"), SeqRegressed(b"b", b"B", TAIL)),
        (OPEN, post(b"a", seq=b"a9"), SeqRegressed(b"b", b"a9", TAIL)),
        (OPEN, post(b"a", stamp=(b"p", 3, 5), seq=b"a"), Duplicate(TAIL, False, 3, 5)),
        (OPEN, post(b"a", stamp=(b"p", 3, 9), seq=b"a"), Gap(6, 9)),
        (OPEN, post(b"a", stamp=(b"p", 3, 6), seq=b"a"), SeqRegressed(b"b", b"a", TAIL)),
        (OPEN, post(closes=True, seq=b"a"), SeqRegressed(b"b", b"a", TAIL)),
        ({}, post(b"a", seq=b"\x00"), Append(b"a", 11, False, None, b"\x00")),
        # Last of all, where the writer expects the tail: by offset, by tag, or both (X6).
        (OPEN, post(b"a", expected=TAIL), Append(b"a", 11, False, None, None)),
        (OPEN, post(b"a", expected=9), OffsetConflict(9, TAIL)),
        (OPEN, post(b"a", expected=11), OffsetConflict(11, TAIL)),
        (OPEN, post(closes=True, expected=TAIL), Append(b"", 10, True, None, None)),
        (OPEN, post(closes=True, expected=0), OffsetConflict(0, TAIL)),
        (OPEN, post(b"a", tag=TAG), Append(b"a", 11, False, None, None)),
        (OPEN, post(b"a", tag=b'"other"'), TagConflict(TAIL, TAG)),
        (OPEN, post(b"a", tag=tail_tag(incarnation(2, 0), TAIL, closed=False)), TagConflict(TAIL, TAG)),
        (OPEN, post(b"a", expected=TAIL, tag=TAG), Append(b"a", 11, False, None, None)),
        (OPEN, post(b"a", expected=TAIL, tag=b'"other"'), TagConflict(TAIL, TAG)),
        (OPEN, post(b"a", expected=9, tag=b'"other"'), OffsetConflict(9, TAIL)),
        (OPEN, post(b"a", expected=9, content_type=b"a/b"), TypeMismatch(TEXT, b"a/b")),
        (OPEN, post(b"a", expected=9, stamp=(b"p", 3, 5)), Duplicate(TAIL, False, 3, 5)),
        (OPEN, post(b"a", expected=9, stamp=(b"p", 2, 0)), Fenced(3)),
        (OPEN, post(b"a", expected=9, stamp=(b"p", 3, 8)), Gap(6, 8)),
        (OPEN, post(b"a", expected=9, stamp=(b"p", 3, 6)), OffsetConflict(9, TAIL)),
        (OPEN, post(b"a", expected=9, seq=b"a"), SeqRegressed(b"b", b"a", TAIL)),
        (OPEN, post(b"a", expected=9, seq=b"c"), OffsetConflict(9, TAIL)),
        (CLOSED, post(b"a", expected=9), Closed(TAIL)),
        (CLOSED, post(b"a", tag=b'"other"'), Closed(TAIL)),
        (CLOSED, post(closes=True, expected=9), AlreadyClosed(TAIL)),
        (CLOSED, post(closes=True, tag=b'"other"'), AlreadyClosed(TAIL)),
        # A closed stream says so first (A2, A5).
        (CLOSED, post(b"a"), Closed(TAIL)),
        (CLOSED, post(b"a", closes=True), Closed(TAIL)),
        (CLOSED, post(b"a", content_type=b"a/b"), Closed(TAIL)),
        (CLOSED, post(b"a", seq=b"a"), Closed(TAIL)),
        (CLOSED, post(b"a", stamp=(b"p", 3, 5)), Closed(TAIL)),
        (CLOSED, post(b"a", stamp=(b"p", 2, 0)), Closed(TAIL)),
        # Closing again is fine, unless another producer says so (A6).
        (CLOSED, post(closes=True), AlreadyClosed(TAIL)),
        (CLOSED, post(closes=True, seq=b"a"), AlreadyClosed(TAIL)),
        (CLOSED_BY_PRODUCER, post(closes=True), AlreadyClosed(TAIL)),
        (CLOSED_BY_PRODUCER, post(closes=True, stamp=(b"closer", 0, 2)), Duplicate(TAIL, True, 0, 2)),
        (CLOSED_BY_PRODUCER, post(closes=True, stamp=(b"closer", 0, 1)), Closed(TAIL)),
        (CLOSED_BY_PRODUCER, post(closes=True, stamp=(b"closer", 0, 3)), Closed(TAIL)),
        (CLOSED_BY_PRODUCER, post(closes=True, stamp=(b"closer", 1, 0)), Closed(TAIL)),
        (CLOSED_BY_PRODUCER, post(closes=True, stamp=(b"p", 3, 5)), Closed(TAIL)),
        (CLOSED_BY_PRODUCER, post(closes=True, stamp=(b"p", 2, 0)), Closed(TAIL)),
        (CLOSED_BY_PRODUCER, post(closes=True, stamp=(b"new", 0, 0)), Closed(TAIL)),
        (CLOSED, post(closes=True, stamp=(b"p", 3, 6)), Closed(TAIL)),
        # The tuple that closed it may come again, with whatever body (A7).
        (CLOSED_BY_PRODUCER, post(b"x", closes=True, stamp=(b"closer", 0, 2)), Duplicate(TAIL, True, 0, 2)),
        (CLOSED_BY_PRODUCER, post(b"x", stamp=(b"closer", 0, 2)), Duplicate(TAIL, True, 0, 2)),
        (CLOSED_BY_PRODUCER, post(b"x", closes=True, stamp=(b"closer", 0, 3)), Closed(TAIL)),
        (CLOSED_BY_PRODUCER, post(b"x", closes=True), Closed(TAIL)),
    ],
)
def test_an_append_is_decided_in_the_order_of_the_rules(
    state: dict[str, Any], request_: AppendRequest, plan: streams.AppendPlan
) -> None:
    """A2 to A9, R2, X6."""
    assert streams.plan_append(stream(**state), request_) == plan


appends = st.builds(
    post,
    st.sampled_from([b"", b"x", b"yy"]),
    content_type=st.sampled_from([TEXT, b"text/html"]),
    closes=st.booleans(),
    stamp=st.none() | st.tuples(st.sampled_from([b"p", b"q"]), st.integers(0, 2), st.integers(0, 3)),
    seq=st.none() | st.sampled_from([b"a", b"b", b"c"]),
    expected=st.none() | st.integers(8, 16),
    tag=st.none() | st.sampled_from([TAG, b'"other"']),
)


def apply(state: Stream, request: AppendRequest) -> streams.AppendPlan:
    plan = streams.plan_append(state, request)
    if isinstance(plan, Append):
        streams.apply_append(state, plan, now_ms=0)
    return plan


@given(st.lists(appends, max_size=20))
def test_a_plan_changes_nothing_and_a_refusal_repeats_itself(requests: list[AppendRequest]) -> None:
    """R4."""
    state = stream(tail=0)
    for request in requests:
        before = msgspec.structs.asdict(state)
        first = streams.plan_append(state, request)
        assert msgspec.structs.asdict(state) == before
        assert apply(state, request) == first
        if not isinstance(first, Append):
            assert streams.plan_append(state, request) == first


@given(st.lists(appends, max_size=20))
def test_a_producers_retry_is_a_duplicate_or_refused_again(requests: list[AppendRequest]) -> None:
    """R4, A7: an accepted stamped append that is sent again is recognised, whatever it did."""
    state = stream(tail=0)
    for request in requests:
        plan = apply(state, request)
        if isinstance(plan, Append) and request.stamp is not None:
            assert isinstance(streams.plan_append(state, request), Duplicate)


@given(st.lists(appends, max_size=20))
def test_nothing_comes_after_the_end(requests: list[AppendRequest]) -> None:
    """A5."""
    state = stream(tail=0)
    tail_at_close = None
    for request in requests:
        plan = apply(state, request)
        assert state.closed or tail_at_close is None
        if tail_at_close is None and state.closed:
            tail_at_close = state.tail
        elif tail_at_close is not None:
            assert not isinstance(plan, Append)
            assert state.tail == tail_at_close


def test_an_append_renews_a_sliding_window_and_leaves_a_fixed_time() -> None:
    """G8."""
    sliding = stream(lifetime=Lifetime(ttl_s=10), deadline_ms=10_000)
    fixed = stream(lifetime=Lifetime(expires_ms=10_000), deadline_ms=10_000)
    for state in (sliding, fixed):
        streams.apply_append(state, Append(b"a", 11, False, None, None), now_ms=5_000)
    assert (sliding.deadline_ms, fixed.deadline_ms) == (15_000, 10_000)


def test_a_stream_has_ended_at_its_deadline_not_before() -> None:
    """F4."""
    state = stream(deadline_ms=1000)
    assert not state.expired(999)
    assert state.expired(1000)
    assert not stream().expired(2**60)


@pytest.mark.parametrize(
    ("own", "added", "limit", "plan"),
    [(5, 5, 10, None), (5, 6, 10, StreamFull(10)), (5, 6, 0, None), (0, 11, 10, StreamFull(10))],
)
def test_a_stream_grows_up_to_its_limit(own: int, added: int, limit: int, plan: StreamFull | None) -> None:
    """H4."""
    assert streams.refuse_growth(own, added, limit) == plan


# -- Creating ------------------------------------------------------------------------------------

FORK = Fork(source_id=7, source_name="/source", offset=4, sub_offset=2, base=6)
TTL = Lifetime(ttl_s=60)
NOON = Lifetime(expires_at=b"2030-01-01T12:00:00Z", expires_ms=1_893_499_200_000)
NOON_ELSEWHERE = Lifetime(expires_at=b"2030-01-01T13:00:00+01:00", expires_ms=1_893_499_200_000)


def put(**wish: Any) -> CreateRequest:
    return CreateRequest(**wish)


def fork_put(**wish: Any) -> CreateRequest:
    return CreateRequest(**({"forked_from": "/source", "fork_offset": 4, "fork_sub_offset": 2} | wish))


SAME, OTHER = True, False
OCTETS = {"content_type": b"application/octet-stream"}
WITH_TTL = {"lifetime": TTL, "requested_lifetime": TTL}
INHERITED_TTL = {"lifetime": TTL, "requested_lifetime": FOREVER}


@pytest.mark.parametrize(
    ("state", "request_", "what"),
    [
        ({}, put(content_type=TEXT), None),
        ({}, put(content_type=b"TEXT/plain; charset=utf-8"), None),
        ({}, put(content_type=TEXT, body=b"whatever"), None),
        ({}, put(content_type=b"text/html"), "content type"),
        ({}, put(), "content type"),
        (OCTETS, put(), None),
        ({}, put(content_type=TEXT, lifetime=TTL), "TTL or expiry"),
        (WITH_TTL, put(content_type=TEXT, lifetime=TTL), None),
        (WITH_TTL, put(content_type=TEXT), "TTL or expiry"),
        (WITH_TTL, put(content_type=TEXT, lifetime=Lifetime(ttl_s=61)), "TTL or expiry"),
        (WITH_TTL, put(content_type=TEXT, lifetime=NOON), "TTL or expiry"),
        ({"requested_lifetime": NOON}, put(content_type=TEXT, lifetime=NOON_ELSEWHERE), None),
        ({}, put(content_type=TEXT, closed=True), "closed flag"),
        ({"closed": True}, put(content_type=TEXT), "closed flag"),
        ({"closed": True}, put(content_type=TEXT, closed=True), None),
        ({}, put(content_type=TEXT, forked_from="/source"), "fork source"),
        ({"fork": FORK}, put(content_type=TEXT), "fork source"),
        ({"fork": FORK}, fork_put(), None),
        ({"fork": FORK}, fork_put(content_type=TEXT), None),
        ({"fork": FORK}, fork_put(content_type=b"text/html"), "content type"),
        ({"fork": FORK}, fork_put(forked_from="/other"), "fork source"),
        ({"fork": FORK}, fork_put(fork_offset=5), "fork offset"),
        ({"fork": FORK}, fork_put(fork_offset=None), None),
        ({"fork": FORK}, fork_put(fork_sub_offset=0), "fork sub-offset"),
        ({"fork": FORK} | INHERITED_TTL, fork_put(), None),
        ({"fork": FORK} | INHERITED_TTL, fork_put(lifetime=TTL), "TTL or expiry"),
    ],
)
def test_a_put_on_a_taken_name_wants_the_same_configuration(
    state: dict[str, Any], request_: CreateRequest, what: str | None
) -> None:
    """C1."""
    taken = stream(**state)
    expected = Exists(taken) if what is None else ConfigMismatch("/s", what)
    assert lifecycle.plan_existing(taken, request_) == expected


def test_the_name_of_a_soft_deleted_stream_stays_taken() -> None:
    """F2."""
    assert lifecycle.plan_existing(stream(soft_deleted=True), put(content_type=TEXT)) == NameInUse("/s")


@pytest.mark.parametrize(
    ("request_", "content_type", "data"),
    [
        (put(), b"application/octet-stream", b""),
        (put(content_type=b"Text/Plain; a=b", body=b"hi"), b"Text/Plain; a=b", b"hi"),
        (put(content_type=b"application/json", body=b"[1, 2]"), b"application/json", b"1,2,"),
        (put(content_type=b"application/json", body=b"[]"), b"application/json", b""),
        (put(content_type=b"application/json"), b"application/json", b""),
    ],
)
@pytest.mark.parametrize("closed", [False, True])
def test_a_new_stream_begins_with_the_requests_body(
    request_: CreateRequest, content_type: bytes, data: bytes, closed: bool
) -> None:
    """C4, C6."""
    plan = lifecycle.plan_create(5, "/new", msgspec.structs.replace(request_, closed=closed), now_ms=99)
    created = plan.stream
    assert plan.data == data
    assert (created.id, created.name, created.created_ms) == (5, "/new", 99)
    assert (created.content_type, created.tail, created.closed) == (content_type, len(data), closed)
    assert (created.producers, created.last_seq, created.fork, created.deadline_ms) == (
        None,
        None,
        None,
        None,
    )


def test_a_body_that_is_not_json_creates_nothing() -> None:
    """A3, C4."""
    with pytest.raises(MalformedError):
        lifecycle.plan_create(1, "/new", put(content_type=b"application/json", body=b"{"), now_ms=0)


@pytest.mark.parametrize(
    ("lifetime", "deadline_ms"), [(FOREVER, None), (TTL, 61_000), (NOON, 1_893_499_200_000)]
)
def test_a_new_stream_knows_its_deadline(lifetime: Lifetime, deadline_ms: int | None) -> None:
    """C3, F4."""
    assert lifecycle.plan_create(1, "/n", put(lifetime=lifetime), 1_000).stream.deadline_ms == deadline_ms


# -- Deleting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "plan"),
    [({}, False), ({"closed": True}, False), ({"fork_count": 1}, True), ({"fork_count": 9}, True)],
)
def test_a_stream_with_forks_is_deleted_softly(state: dict[str, Any], plan: bool) -> None:
    """F2."""
    doomed = stream(**state)
    assert lifecycle.plan_delete(doomed) == Delete(doomed, soft=plan)


def test_a_stream_is_deleted_once() -> None:
    """F2."""
    assert lifecycle.plan_delete(stream(soft_deleted=True, fork_count=1)) == SoftDeleted("/s")


def test_an_older_stream_of_a_json_type_goes_on_as_bytes() -> None:
    """X10: one with the suffix `+json` that was created when that was no JSON."""
    fields = {b"content-type": b"application/ld+json"}
    request = parse_append(fields, b" [1] ")
    newer, older = stream(b"application/ld+json"), stream(b"application/ld+json")
    older.kind = Kind.BINARY
    assert streams.plan_append(newer, request) == Append(b"1,", TAIL + 2, False, None, None)
    assert streams.plan_append(older, request) == Append(b" [1] ", TAIL + 5, False, None, None)
    part = parts.parse_stage("a", fields, b" [1] ")
    assert parts.plan_stage(older, part, 100, lambda _: b"") == parts.Stage("a", b" [1] ")
