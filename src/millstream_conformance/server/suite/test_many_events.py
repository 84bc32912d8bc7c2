"""Many streams on one connection: events with paths, globs, and positions to go on from (extension; X9)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import quote

from millstream_conformance.server.checks import each, needs, rule
from millstream_conformance.server.event_streams import Event, EventStream
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream


def followed(server: Server, *named: tuple[Stream, str], **params: str) -> EventStream:
    """Follow streams from offsets, and globs."""
    query = [f"stream={quote(stream.path)}@{offset}" for stream, offset in named]
    query += [f"{name.rstrip('_')}={quote(value, safe='')}" for name, value in params.items()]
    return server.events("/__ds/events", "&".join(query))


def id_of(event: Event) -> str:
    """The event's id."""
    return next((line[3:].strip() for line in event.lines if line.startswith("id:")), "")


def until(events: EventStream, kind: str, **expected: Any) -> list[Event]:
    """Events up to one of this kind whose JSON has these values."""
    found: list[Event] = []
    while (event := events.next()) is not None:
        found.append(event)
        fields = event.json() if event.kind == kind and kind != "data" else {}
        if event.kind == kind and expected.items() <= fields.items():
            return found
    raise AssertionError(f"the events ended before {kind} with {expected}")


def is_told(event: Event) -> bool:
    """Whether all streams that a glob matches have joined."""
    return event.kind == "globs" and bool(event.json().get("upToDate"))


def data_of(events: list[Event], stream: Stream) -> list[str]:
    """The payloads of one stream."""
    start = quote(stream.path) + "@"
    return [event.data for event in events if event.kind == "data" and id_of(event).startswith(start)]


@rule("X9")
@needs("events")
def test_events_name_their_stream_and_the_next_offset(server: Server) -> None:
    """Data and control events as for one stream, each with `id: <path>@<offset>`, and the path in control."""
    first, second = server.stream("text/plain", b"one"), server.stream("application/json", b"[2]")
    with followed(server, (first, "-1"), (second, "-1")) as events:
        assert events.answer.headers.get("Content-Type") == "text/event-stream"
        found: list[Event] = []
        for stream in (first, second):
            if not data_of(found, stream):
                found += until(events, "control", streamPath=stream.path, upToDate=True)
    assert data_of(found, first) == ["one"]
    assert data_of(found, second) == ["[2]"]
    for stream in (first, second):
        expected = f"{quote(stream.path)}@{stream.tail()}"
        data, control = next(
            pair for pair in pairwise(found) if pair[0].kind == "data" and id_of(pair[0]) == expected
        )
        assert control.kind == "control"
        assert id_of(control) == id_of(data)
        assert control.json()["streamPath"] == stream.path
        assert control.json()["streamNextOffset"] == stream.tail()


@rule("X9")
@needs("events")
def test_each_stream_begins_with_its_content_type(server: Server) -> None:
    """A control event with the type precedes all data, and says if data events are base64."""
    stream = server.stream("image/png", b"\x00\xff")
    with followed(server, (stream, "-1")) as events:
        first, *_, data, _ = until(events, "control", upToDate=True)
    assert first.kind == "control"
    assert first.json()["streamContentType"] == "image/png"
    assert first.json()["streamDataEncoding"] == "base64"
    assert data.decoded() == b"\x00\xff"


@rule("X9")
@needs("events")
def test_appends_to_any_of_them_arrive(server: Server) -> None:
    """Live, for each, from its own offset."""
    first, second = server.stream("text/plain", b"old"), server.stream("text/plain", b"old")
    with followed(server, (first, "now"), (second, first.tail())) as events:
        until(events, "control", streamPath=second.path, upToDate=True)
        second.append(b"2")
        assert data_of(until(events, "control", upToDate=True), second) == ["2"]
        first.append(b"1")
        assert data_of(until(events, "control", upToDate=True), first) == ["1"]


@rule("X9")
@needs("events")
def test_a_closed_stream_says_so_and_leaves(server: Server) -> None:
    """The others go on; after the last one the response ends."""
    first, second = server.stream("text/plain", b"x"), server.stream("text/plain", b"x")
    with followed(server, (first, "-1"), (second, "now")) as events:
        until(events, "control", streamPath=first.path, upToDate=True)
        first.close(b"last")
        found = until(events, "control", streamPath=first.path, streamClosed=True)
        assert data_of(found, first) == ["last"]
        second.append(b"still")
        assert data_of(until(events, "control", upToDate=True), second) == ["still"]
        second.close()
        until(events, "control", streamPath=second.path, streamClosed=True)
        assert events.ended()


@rule("X9")
@needs("events")
def test_a_deleted_stream_says_so_and_leaves(server: Server) -> None:
    """`streamDeleted`, and the others go on."""
    first, second = server.stream("text/plain", b"x"), server.stream("text/plain", b"x")
    with followed(server, (first, "now"), (second, "now")) as events:
        until(events, "control", streamPath=second.path)
        first.delete()
        until(events, "control", streamPath=first.path, streamDeleted=True)
        second.append(b"still")
        assert data_of(until(events, "control", upToDate=True), second) == ["still"]


@rule("X9")
@needs("events")
def test_a_stream_that_cannot_be_read_is_an_error_alone(server: Server) -> None:
    """An error event with its path and a code; the others are followed."""
    stream, missing = server.stream("text/plain", b"x"), server.at(server.path("missing"))
    with followed(server, (missing, "-1"), (stream, "-1")) as events:
        assert events.answer.status == 200
        found = until(events, "control", streamPath=stream.path, upToDate=True)
    [error] = [event.json() for event in found if event.kind == "error"]
    assert error["streamPath"] == missing.path
    assert error["status"] == 404
    assert error["code"]
    assert data_of(found, stream) == ["x"]


@rule("X9")
@needs("events")
def test_a_glob_finds_streams_that_are_there(server: Server) -> None:
    """From now on, unless from=-1; streams that do not match are left out."""
    base = server.path()
    inside = server.stream("text/plain", b"old", path=f"{base}/a/1")
    outside = server.stream("text/plain", b"old", path=f"{base}/b/1")
    with followed(server, glob=f"{base}/a/*") as events:
        assert not data_of(until(events, "control", streamPath=inside.path, upToDate=True), inside)
        outside.append(b"out")
        inside.append(b"in")
        found = until(events, "control", streamPath=inside.path, upToDate=True)
        assert data_of(found, inside) == ["in"]
        assert not data_of(found, outside)
    with followed(server, glob=f"{base}/a/*", from_="-1") as events:
        found = until(events, "control", streamPath=inside.path, upToDate=True)
    assert "".join(data_of(found, inside)) == "oldin"


@rule("X9")
@needs("events")
def test_a_stream_that_is_created_joins_with_its_content(server: Server) -> None:
    """A stream that begins to match delivers what it was created with, also one of a former name."""
    base = server.path()
    with followed(server, glob=f"{base}/**") as events:
        until(events, "globs")
        stream = server.stream("text/plain", b"first", path=f"{base}/x/new")
        found = until(events, "control", streamPath=stream.path, upToDate=True)
        assert data_of(found, stream) == ["first"]
        stream.delete()
        until(events, "control", streamPath=stream.path, streamDeleted=True)
        again = server.stream("text/plain", b"second", path=stream.path)
        found = until(events, "control", streamPath=again.path, upToDate=True)
        assert data_of(found, again) == ["second"]


@rule("X9")
@needs("events")
def test_a_reader_goes_on_from_its_ids(server: Server) -> None:
    """With the last ids as `stream`, and the last `from`, nothing comes twice and nothing is missing."""
    base = server.path()
    stream = server.stream("text/plain", b"1", path=f"{base}/open")
    closed = server.stream("text/plain", b"1", path=f"{base}/closed")
    closed.close()
    with followed(server, glob=f"{base}/*", from_="-1") as events:
        found = until(events, "control", streamPath=stream.path, upToDate=True)
        while not data_of(found, closed) or not any(is_told(event) for event in found):
            event = events.next()
            assert event is not None
            found.append(event)
    ids = [id_of(event) for event in found if id_of(event).startswith(quote(stream.path) + "@")]
    origin = [event.json()["from"] for event in found if event.kind == "globs"][-1]
    stream.append(b"2")
    new = server.stream("text/plain", b"new", path=f"{base}/new")
    query = f"stream={ids[-1]}&glob={quote(base)}/*&from={quote(origin, safe='')}"
    with server.events("/__ds/events", query) as events:
        found = []
        while not (data_of(found, new) and data_of(found, stream)):
            event = events.next()
            assert event is not None
            found.append(event)
    assert data_of(found, stream) == ["2"]
    assert data_of(found, new) == ["new"]
    assert not data_of(found, closed)


@rule("X9")
@needs("events")
def test_parameters_may_come_in_a_form(server: Server) -> None:
    """A POST with the same parameters in its body, for more streams than fit into a URL."""
    stream = server.stream("text/plain", b"x")
    stream.close()
    body = f"stream={quote(stream.path)}@-1".encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = server.request("POST", "/__ds/events", form, body)
    assert answer.status == 200
    assert b"\ndata:x\n" in answer.body
    assert b'"streamClosed":true' in answer.body


@rule("X9")
@needs("events")
@each(
    "query",
    [
        "",
        "stream=/a",
        "stream=/a@",
        "stream=/a@x",
        "stream=a@-1",
        "stream=/a@-1&stream=/a@now",
        "stream=/__ds/streams@-1",
        "glob=",
        "glob=/a&from=5",
        "from=-1",
    ],
)
def test_malformed_parameters_are_400(server: Server, query: str) -> None:
    """Nothing to follow, no offset, a bad one, a stream twice, a bad `from`."""
    assert server.request("GET", "/__ds/events", query=query).status == 400


@rule("X9")
@needs("events")
def test_more_than_a_thousand_streams_are_refused(server: Server) -> None:
    """1,000 may be named, which takes a form; one more is 400."""
    names = "&".join(f"stream={quote(server.path())}@-1" for _ in range(1001)).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert server.request("POST", "/__ds/events", form, names).status == 400
