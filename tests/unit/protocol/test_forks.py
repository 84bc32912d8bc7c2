"""Where forks begin, what they inherit, and when their source goes: rules F1, F2."""

from typing import Any

import pytest

from millstream.protocol import forks
from millstream.protocol.boundaries import Index
from millstream.protocol.content import Kind, kind_of
from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.forks import (
    ForkBeforeStart,
    ForkBeyondTail,
    ForkUnaligned,
    SourceDeleted,
    SubOffsetOvershoot,
)
from millstream.protocol.json_frames import frame
from millstream.protocol.producers import NO_FLOOR, ProducerState, Stamp
from millstream.protocol.requests import CreateRequest
from millstream.protocol.streams import Fork, Stream, TypeMismatch

TEXT, BINARY, JSON = b"text/plain", b"application/octet-stream", b"application/json"
TAIL = 10
TTL = Lifetime(ttl_s=60)
NOON = Lifetime(expires_at=b"2030-01-01T12:00:00Z", expires_ms=1_893_499_200_000)
NOON_ELSEWHERE = Lifetime(expires_at=b"2030-01-01T13:00:00+01:00", expires_ms=1_893_499_200_000)


def stream(content_type: bytes = TEXT, **state: Any) -> Stream:
    state = {"tail": TAIL, "created_ms": 0} | state
    return Stream(id=1, name="/s", content_type=content_type, kind=kind_of(content_type), **state)


def fork_put(**wish: Any) -> CreateRequest:
    return CreateRequest(**({"forked_from": "/source", "fork_offset": 4, "fork_sub_offset": 2} | wish))


@pytest.mark.parametrize(
    ("state", "wish", "earliest", "anchor"),
    [
        ({}, {}, 0, TAIL),
        ({}, {"fork_offset": 0}, 0, 0),
        ({}, {"fork_offset": 4}, 0, 4),
        ({}, {"fork_offset": TAIL}, 0, TAIL),
        ({}, {"fork_offset": TAIL + 1}, 0, ForkBeyondTail(TAIL)),
        ({}, {"fork_offset": 3}, 4, ForkBeforeStart(4)),
        ({}, {"fork_offset": 4}, 4, 4),
        ({"closed": True}, {"fork_offset": 4}, 0, 4),
        ({}, {"content_type": b"TEXT/plain"}, 0, TAIL),
        ({}, {"content_type": b"text/html"}, 0, TypeMismatch(TEXT, b"text/html")),
        ({"soft_deleted": True}, {"content_type": b"text/html"}, 0, SourceDeleted("/s")),
    ],
)
def test_a_fork_begins_inside_its_source(
    state: dict[str, Any], wish: dict[str, Any], earliest: int, anchor: object
) -> None:
    """F1, F2, O3, O4."""
    request = CreateRequest(forked_from="/s", **wish)
    assert forks.fork_anchor(stream(**state), request, earliest, OneAppend(b"")) == anchor


class OneAppend:
    """Content that came in one piece."""

    def __init__(self, stored: bytes) -> None:
        self._stored = stored

    def bounds(self, position: int) -> tuple[int, int]:
        assert 0 <= position < len(self._stored)
        return 0, len(self._stored)

    def fetch(self, start: int, end: int) -> bytes:
        return self._stored[start:end]

    def index(self, start: int) -> Index:
        raise AssertionError("this append is small")


THREE = frame(b'[{"a":1}, 22, "3"]')


def test_a_json_fork_begins_between_messages() -> None:
    """F1, O3."""
    source = stream(b"application/json", tail=len(THREE))
    anchors = [
        forks.fork_anchor(source, CreateRequest(forked_from="/s", fork_offset=offset), 0, OneAppend(THREE))
        for offset in range(len(THREE) + 1)
    ]
    assert anchors == [at if at in (0, 8, 11, 15) else ForkUnaligned() for at in range(len(THREE) + 1)]


@pytest.mark.parametrize(
    ("content_type", "sub_offset", "next_append", "base"),
    [
        (TEXT, 0, b"", 0),
        (TEXT, 0, b"abc", 0),
        (TEXT, 1, b"abc", 1),
        (TEXT, 3, b"abc", 3),
        (TEXT, 4, b"abc", SubOffsetOvershoot(3)),
        (TEXT, 1, b"", SubOffsetOvershoot(0)),
        (BINARY, 2, b"\x00\xff", 2),
        (JSON, 0, THREE, 0),
        (JSON, 1, THREE, 8),
        (JSON, 2, THREE, 11),
        (JSON, 3, THREE, 15),
        (JSON, 4, THREE, SubOffsetOvershoot(3)),
        (JSON, 1, b"", SubOffsetOvershoot(0)),
        (JSON, 1, b'"\\ud800",', 9),
    ],
)
def test_a_sub_offset_counts_messages_on_json_and_bytes_elsewhere(
    content_type: bytes, sub_offset: int, next_append: bytes, base: object
) -> None:
    """F1."""
    source = stream(content_type, tail=len(next_append))
    assert forks.fork_base(source, 0, sub_offset, OneAppend(next_append)) == base


@pytest.mark.parametrize("requested", [FOREVER, Lifetime(ttl_s=5), NOON_ELSEWHERE])
@pytest.mark.parametrize("inherited", [FOREVER, TTL, NOON])
def test_a_forks_lifetime_is_its_own_or_its_sources(inherited: Lifetime, requested: Lifetime) -> None:
    """F1, the table of 4.2: what was asked for, else what the source has."""
    source = stream(lifetime=inherited, deadline_ms=inherited.deadline_ms(0))
    plan = forks.plan_fork(2, "/f", source, 4, 6, fork_put(lifetime=requested), now_ms=7_000, inherited_ms=1)
    wanted = requested if requested is not FOREVER else inherited
    assert plan.stream.lifetime == wanted
    assert plan.stream.requested_lifetime == requested
    assert plan.stream.deadline_ms == wanted.deadline_ms(7_000)


def test_a_fork_is_an_open_stream_of_its_own() -> None:
    """F1: it has its source's type and bytes, but not its closure, producers or seq."""
    closer = Stamp(b"closer", 0, 2)
    known = {b"closer": ProducerState(closer.epoch, closer.seq)}
    source = stream(closed=True, closed_by=closer, last_seq=b"b", producers=known, producer_floor=3)
    fork = forks.plan_fork(2, "/f", source, 4, 6, fork_put(body=b"own"), now_ms=0, inherited_ms=0).stream
    assert (fork.content_type, fork.kind, fork.tail, fork.base) == (TEXT, Kind.TEXT, 9, 6)
    assert (fork.closed, fork.closed_by, fork.producers, fork.last_seq) == (False, None, None, None)
    assert fork.producer_floor == NO_FLOOR
    assert fork.fork == Fork(source_id=1, source_name="/s", offset=4, sub_offset=2, base=6)
    assert source.fork_count == 0  # counted by whoever commits the plan


def test_a_fork_may_be_created_closed() -> None:
    """C4, F1."""
    assert forks.plan_fork(
        2, "/f", stream(), 4, 6, fork_put(closed=True), now_ms=0, inherited_ms=0
    ).stream.closed


@pytest.mark.parametrize(
    ("soft_deleted", "fork_count", "goes"), [(True, 0, True), (True, 1, False), (False, 0, False)]
)
def test_a_source_goes_with_its_last_fork_if_it_was_deleted(
    soft_deleted: bool, fork_count: int, goes: bool
) -> None:
    """F2."""
    assert forks.releases_source(stream(soft_deleted=soft_deleted, fork_count=fork_count)) is goes
