"""What each decision says over HTTP: rules A1, C1, C2, R3, G1 to G4, G8, L2, L4."""

import typing

import pytest

from millstream.protocol import caching, forks, lifecycle, parts, reads, replies, streams
from millstream.protocol.caching import entity_tag
from millstream.protocol.content import Kind
from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.http import Header, Reply
from millstream.protocol.offsets import NOW, format_offset
from millstream.protocol.producers import Stamp
from millstream.protocol.reads import Chunk
from millstream.protocol.replies import reply_to
from millstream.protocol.streams import Append, Duplicate, Stream

TEN = format_offset(10)
NEXT = (b"stream-next-offset", TEN)
CLOSED = (b"stream-closed", b"true")
UP_TO_DATE = (b"stream-up-to-date", b"true")
NO_STORE = (b"cache-control", b"no-store")


def stream(**state: typing.Any) -> Stream:
    fields = {
        "id": 1,
        "name": "/s",
        "content_type": b"Text/Plain",
        "kind": Kind.TEXT,
        "created_ms": 0,
        "tail": 10,
    }
    return Stream(**(fields | state))


def chunk(
    data: bytes = b"hi", *, kind: Kind = Kind.TEXT, up_to_date: bool = True, closed: bool = False
) -> Chunk:
    content_type = {Kind.TEXT: b"Text/Plain", Kind.JSON: b"application/json", Kind.BINARY: b"image/x"}[kind]
    return Chunk(255, content_type, kind, FOREVER, 10 - len(data), 10, data, up_to_date, closed)


PRODUCER = [(b"producer-epoch", b"3"), (b"producer-seq", b"5")]
STAMP = Stamp(b"p", 3, 5)
ABOUT = [(b"content-type", b"Text/Plain"), NEXT, (b"stream-incarnation", stream().incarnation)]


@pytest.mark.parametrize(
    ("decision", "status", "headers"),
    [
        (Append(b"a", 10, False, None, None), 204, [NEXT]),
        (Append(b"a", 10, True, None, None), 204, [NEXT, CLOSED]),
        (Append(b"", 10, True, None, None), 204, [NEXT, CLOSED]),
        (Append(b"a", 10, False, STAMP, None), 200, [NEXT, *PRODUCER]),
        (Append(b"a", 10, True, STAMP, None), 200, [NEXT, CLOSED, *PRODUCER]),
        (Append(b"", 10, True, STAMP, None), 204, [NEXT, CLOSED, *PRODUCER]),
        (Duplicate(10, False, 3, 5), 204, [NEXT, *PRODUCER]),
        (Duplicate(10, True, 3, 5), 204, [NEXT, CLOSED, *PRODUCER]),
        (streams.AlreadyClosed(10), 204, [NEXT, CLOSED]),
        (lifecycle.Exists(stream()), 200, [*ABOUT]),
        (lifecycle.Exists(stream(closed=True)), 200, [*ABOUT, CLOSED]),
    ],
)
def test_a_success_says_where_the_stream_is_now(decision: object, status: int, headers: list[Header]) -> None:
    """A1, R3, C1."""
    assert reply_to(decision) == Reply(status, headers)


ANSWERED_WITH_MORE = {lifecycle.Create, reads.Chunk, Stream}


@pytest.mark.parametrize(
    "decisions",
    [
        streams.AppendPlan,
        lifecycle.CreatePlan,
        forks.ForkRefusal,
        parts.StagePlan,
        parts.CommitPlan,
        reads.OffsetGone | reads.OffsetUnaligned,
        streams.NotFound | streams.SoftDeleted | streams.Unstored,
    ],
)
def test_every_decision_has_a_reply(decisions: object) -> None:
    """H2: what is not answered by `reply_to` needs a location or a body beside it."""
    for decision in set(typing.get_args(decisions)) - ANSWERED_WITH_MORE:
        assert decision in replies._REPLIES, decision.__name__


def test_a_new_stream_says_where_it_is() -> None:
    """C2, C6."""
    reply = replies.created(stream(), b"http://host/s")
    assert reply == Reply(201, [(b"location", b"http://host/s"), *ABOUT])


@pytest.mark.parametrize(
    ("found", "flags"),
    [
        (chunk(), [UP_TO_DATE]),
        (chunk(up_to_date=False), []),
        (chunk(closed=True), [UP_TO_DATE, CLOSED]),
        (chunk(closed=True, up_to_date=False), []),
    ],
)
def test_a_partial_answer_carries_no_flag(found: Chunk, flags: list[Header]) -> None:
    """G1."""
    reply = replies.read(found)
    assert (reply.status, reply.body) == (200, b"hi")
    assert [header for header in reply.headers if header in (UP_TO_DATE, CLOSED)] == flags
    assert (b"content-type", b"Text/Plain") in reply.headers
    assert NEXT in reply.headers
    assert (b"etag", entity_tag(found.incarnation, 8, 10, found.at_end)) in reply.headers


@pytest.mark.parametrize(("stored", "body"), [(b"", b"[]"), (b"1,", b"[1]"), (b'1,{"a":2},', b'[1,{"a":2}]')])
def test_a_json_body_is_an_array(stored: bytes, body: bytes) -> None:
    """G4."""
    reply = replies.read(chunk(stored, kind=Kind.JSON))
    assert reply.body == body
    assert (b"content-type", b"application/json") in reply.headers


def test_now_is_not_for_caches() -> None:
    """G2."""
    reply = replies.read(chunk(b""), b"*", cache=caching.for_read(NOW, caching.PUBLIC))
    assert (reply.status, reply.body) == (200, b"")
    assert NO_STORE in reply.headers
    assert b"etag" not in dict(reply.headers)


def test_a_client_that_has_the_chunk_gets_its_headers_only() -> None:
    """G3."""
    fresh = replies.read(chunk(closed=True))
    again = replies.read(chunk(closed=True), dict(fresh.headers)[b"etag"])
    assert again == Reply(304, fresh.headers)
    assert replies.read(chunk(closed=True), b'"other"') == fresh


def test_closing_changes_the_tag() -> None:
    """G3: a 304 never hides EOF."""
    tag = dict(replies.read(chunk()).headers)[b"etag"]
    assert replies.read(chunk(closed=True), tag).status == 200


def test_a_live_answer_has_a_cursor() -> None:
    """L2, L3."""
    assert (b"stream-cursor", b"7") in replies.read(chunk(), cursor=7).headers
    always = [NEXT, UP_TO_DATE, (b"stream-incarnation", chunk().incarnation), NO_STORE]
    waiting, ended = replies.nothing_new(chunk(b""), 7), replies.nothing_new(chunk(b"", closed=True), 7)
    assert (waiting.status, sorted(waiting.headers)) == (204, sorted([*always, (b"stream-cursor", b"7")]))
    assert (ended.status, sorted(ended.headers)) == (204, sorted([*always, CLOSED]))


@pytest.mark.parametrize(
    ("kind", "encoding"), [(Kind.TEXT, None), (Kind.JSON, None), (Kind.BINARY, b"base64")]
)
def test_an_event_stream_says_how_it_is_encoded(kind: Kind, encoding: bytes | None) -> None:
    """L4."""
    reply = replies.event_stream(chunk(kind=kind))
    headers = dict(reply.headers)
    assert reply.status == 200
    assert headers[b"content-type"] == b"text/event-stream"
    assert b"no-cache" in headers[b"cache-control"]
    assert headers[b"x-accel-buffering"] == b"no"
    assert headers.get(b"stream-sse-data-encoding") == encoding
    assert b"content-length" not in headers


@pytest.mark.parametrize(
    ("state", "headers"),
    [
        ({}, []),
        ({"closed": True}, [CLOSED]),
        ({"lifetime": Lifetime(ttl_s=60), "deadline_ms": 5}, [(b"stream-ttl", b"60")]),
        (
            {"lifetime": Lifetime(expires_at=b"2030-01-01T00:00:00+01:00", expires_ms=5)},
            [(b"stream-expires-at", b"2030-01-01T00:00:00+01:00")],
        ),
    ],
)
def test_head_describes_the_stream_as_it_was_configured(
    state: dict[str, typing.Any], headers: list[Header]
) -> None:
    """G8, F3: fork headers never appear."""
    reply = replies.head(stream(**state, fork=streams.Fork(1, "/source", 0, 0, 0)))
    tag = (b"etag", caching.tail_tag(stream().incarnation, 10, closed="closed" in state))
    expected = [*ABOUT, NO_STORE, replies.EXTENSIONS, tag, *headers]
    assert reply.status == 200
    assert sorted(reply.headers) == sorted(expected)


def test_head_says_when_the_tail_is_where_the_client_knows_it() -> None:
    """G3, X6: the tag is that of a read at the tail, and another one after every change."""
    found = dict(replies.head(stream(id=255)).headers)
    assert found[b"etag"] == dict(replies.read(chunk(b"")).headers)[b"etag"]
    assert replies.head(stream(id=255), found[b"etag"]).status == 304
    assert replies.head(stream(id=255, tail=11), found[b"etag"]).status == 200
    assert replies.head(stream(id=255, closed=True), found[b"etag"]).status == 200
