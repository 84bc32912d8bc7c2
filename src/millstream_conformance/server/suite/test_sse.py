"""Server-Sent Events: headers, control events, live updates, and the end (protocol 5.8)."""

from __future__ import annotations

import re
import time
from itertools import pairwise

from millstream_conformance.server.checks import case, each, patient, rule, stricter
from millstream_conformance.server.event_streams import Event
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suite.waiting import in_seconds

CONTROL_FIELDS = {"streamNextOffset": str, "streamCursor": str, "upToDate": bool, "streamClosed": bool}


def is_control(event: Event | None) -> bool:
    """Whether an event is a well-formed control event: one line, flat, known fields, right types."""
    if event is None or event.kind != "control":
        return False
    fields = event.json()
    one_line = [line for line in event.lines if line.startswith("data")]
    return (
        len(one_line) == 1
        and "streamNextOffset" in fields
        and all(
            isinstance(value, CONTROL_FIELDS[name])
            for name, value in fields.items()
            if name in CONTROL_FIELDS
        )
        and not any(isinstance(value, dict | list) for value in fields.values())
    )


@rule("L4")
@case("sse-headers")
def test_the_headers_of_an_event_stream(server: Server) -> None:
    """200 with the media type text/event-stream and without a fixed length."""
    with server.stream("text/plain", b"x").events("-1") as events:
        headers = events.answer.headers
        assert events.answer.status == 200
        assert (headers.get("Content-Type") or "").partition(";")[0].strip() == "text/event-stream"
        assert "Content-Length" not in headers


@rule("L4")
@stricter("section 12.7 says SHOULD for nosniff; the protocol does not mention caching of events")
def test_event_streams_are_not_cached_or_sniffed(server: Server) -> None:
    """The bare media type, Cache-Control: no-cache and nosniff."""
    with server.stream("text/plain", b"x").events("-1") as events:
        assert events.answer.headers.get("Content-Type") == "text/event-stream"
        assert "no-cache" in events.answer.cache_control
        assert events.answer.headers.get("X-Content-Type-Options") == "nosniff"


@rule("L4")
@stricter("nginx holds events back until its buffer is full, unless it is told not to")
def test_proxies_are_told_not_to_buffer(server: Server) -> None:
    """X-Accel-Buffering is no."""
    with server.stream("text/plain", b"x").events("-1") as events:
        assert events.answer.headers.get("X-Accel-Buffering") == "no"


@rule("L4", "L5")
@case("sse-catch-up-then-control", "sse-control-shape")
def test_existing_data_comes_first_then_control(server: Server) -> None:
    """A data event, then its control event with the next offset, a cursor and upToDate."""
    stream = server.stream("text/plain", b"hello")
    with stream.events("-1") as events:
        data, control = events.next(), events.next()
    assert data is not None
    assert data.kind == "data"
    assert data.data == "hello"
    assert control is not None
    assert is_control(control)
    fields = control.json()
    assert fields["streamNextOffset"] == stream.tail()
    assert re.fullmatch(r"\d+", fields["streamCursor"])
    assert fields.get("upToDate") is True
    assert "streamClosed" not in fields


@rule("L4")
@stricter("the standard for events allows other spellings; simple parsers need this one")
def test_the_exact_spelling_of_events(server: Server) -> None:
    """One space after `event:`, none after `data:`, a blank line after each event."""
    stream = server.stream("text/plain", b"hello", closed=True)
    with stream.events("-1") as events:
        events.events()
        raw = events.raw.decode()
    events_only = re.sub(r"(?m)^:.*\n+", "", raw)
    assert re.fullmatch(r"event: data\ndata:hello\n\nevent: control\ndata:\{[^\n]*\}\n\n", events_only)


@rule("L4")
@stricter("a reader that is cut off between the two would resume at the wrong place")
def test_data_and_control_are_one_write(server: Server) -> None:
    """A data event never arrives without its control event."""
    stream = server.stream()
    with stream.events("now") as events:
        assert is_control(events.next())
        stream.append(b"x" * 100)
        data, control = events.next(), events.next()
    assert data is not None
    assert control is not None
    assert (data.kind, control.kind) == ("data", "control")
    assert data.piece == control.piece


@rule("L5")
@each("offset", {"empty-stream": "-1", "tail": "", "now": "now"})
@stricter("section 8 demands it for offset=now only", rows=["empty-stream", "tail"])
def test_the_first_event_comes_at_once(server: Server, offset: str) -> None:
    """With nothing to send, a control event with upToDate says so immediately."""
    stream = server.stream("text/plain", b"" if offset == "-1" else b"old")
    started = time.monotonic()
    with stream.events(offset or stream.tail()) as events:
        first = events.next(timeout_s=2)
    assert time.monotonic() - started < 0.4
    assert first is not None
    assert is_control(first)
    assert first.json().get("upToDate") is True
    assert first.json()["streamNextOffset"] == stream.tail()


@rule("L5", "O2")
@case("sse-live-updates")
def test_appends_arrive_while_connected(server: Server) -> None:
    """Each append is followed by its data and a control event with the append's own next offset."""
    stream = server.stream("text/plain", b"old")
    with stream.events("now") as events:
        assert is_control(events.next())
        for word in (b"one", b"two", b"three"):
            appended = stream.append(word)
            data, control = events.next(), events.next()
            assert data is not None
            assert control is not None
            assert data.data == word.decode()
            assert is_control(control)
            assert control.json()["streamNextOffset"] == appended.next_offset
            assert control.json().get("upToDate") is True


@rule("L4", "L5")
def test_every_data_event_has_its_control_event(server: Server) -> None:
    """Each data event is followed by a control event, and their offsets increase to the tail."""
    stream = server.stream("application/json")
    for number in range(20):
        stream.append(f"[{number},{number}]".encode())
    stream.close()
    with stream.events("-1") as events:
        found = events.events()
    kinds = [event.kind for event in found]
    assert not any(pair == ("data", "data") for pair in pairwise(kinds))
    assert kinds[-1] == "control"
    offsets = [event.json()["streamNextOffset"] for event in found if event.kind == "control"]
    assert offsets == sorted(offsets)
    assert offsets[-1] == stream.tail()


@rule("L5")
def test_resuming_from_a_control_offset_misses_nothing(server: Server) -> None:
    """Reconnecting at the last streamNextOffset continues exactly there."""
    stream = server.stream("text/plain", b"one ")
    with stream.events("-1") as events:
        control = events.until_control()[-1]
    stream.append(b"two")
    with stream.events(control.json()["streamNextOffset"]) as events:
        data = events.next()
    assert data is not None
    assert data.data == "two"


@rule("L5")
@case("sse-closed-stream-control-event", "sse-closed-stream-connection-closes")
def test_the_last_control_event_says_closed_and_ends(server: Server) -> None:
    """Data, then control with streamClosed, then the end of the connection."""
    stream = server.stream("text/plain", b"all", closed=True)
    with stream.events("-1") as events:
        data, control = events.next(), events.next()
        assert events.ended()
    assert data is not None
    assert data.data == "all"
    assert control is not None
    assert is_control(control)
    fields = control.json()
    assert fields.get("streamClosed") is True
    assert fields["streamNextOffset"] == stream.tail()


@rule("L5")
@case("sse-closed-stream-no-cursor")
@stricter("section 5.8 says MAY for both")
@each("offset", {"start": "-1", "tail": ""})
def test_the_last_control_event_is_up_to_date_without_a_cursor(server: Server, offset: str) -> None:
    """With streamClosed there is upToDate and no streamCursor."""
    stream = server.stream("text/plain", b"all", closed=True)
    with stream.events(offset or stream.tail()) as events:
        fields = events.events()[-1].json()
    assert fields.get("streamClosed") is True
    assert fields.get("upToDate") is True
    assert "streamCursor" not in fields


@rule("L5")
@case("sse-already-closed-at-tail")
@each("offset", {"tail": "", "now": "now"})
def test_connecting_at_the_end_says_closed_at_once(server: Server, offset: str) -> None:
    """One control event with streamClosed, then the end."""
    stream = server.stream("text/plain", b"all", closed=True)
    with stream.events(offset or stream.tail()) as events:
        control = events.next()
        assert events.ended()
    assert control is not None
    assert is_control(control)
    assert control.json().get("streamClosed") is True
    assert control.json().get("upToDate") is not False
    assert control.json()["streamNextOffset"] == stream.tail()


@rule("L5")
@each("body", {"close-only": b"", "with-data": b"last"})
def test_closing_ends_a_live_connection(server: Server, body: bytes) -> None:
    """A close while connected: the data if any, control with streamClosed, the end."""
    stream = server.stream("text/plain", b"x")
    with stream.events("now") as events:
        assert is_control(events.next())
        final = stream.close(body).next_offset
        rest = events.events()
    if body:
        assert rest[0].data == "last"
    assert is_control(rest[-1])
    assert rest[-1].json().get("streamClosed") is True
    assert rest[-1].json()["streamNextOffset"] == final


@rule("L5")
def test_all_readers_get_everything(server: Server) -> None:
    """Readers that connect at different times see the same content."""
    stream = server.stream("text/plain", b"1")
    with stream.events("-1") as early:
        early.until_control()
        stream.append(b"2")
        with stream.events("-1") as late:
            stream.append(b"3")
            stream.close()
            seen = [[e.data for e in reader.events() if e.kind == "data"] for reader in (early, late)]
    assert "".join(seen[0]) == "23"
    assert "".join(seen[1]) == "123"


@rule("L6", "F4")
@patient
@stricter("section 5.4 only says that later requests may be 404")
def test_deleting_ends_the_events(server: Server) -> None:
    """Deleting a stream ends its event connections."""
    stream = server.stream("text/plain", b"x")
    with stream.events("now") as events:
        events.next()
        stream.delete()
        started = time.monotonic()
        while events.next(timeout_s=2) is not None:
            pass
    assert time.monotonic() - started < 1


@rule("L6", "F4")
@patient
@stricter("the protocol does not say what happens to connected readers at expiry")
def test_expiry_ends_the_events(server: Server) -> None:
    """Expiry of a stream ends its event connections."""
    stream = server.stream("text/plain", b"x", headers={"Stream-Expires-At": in_seconds(1.2)})
    with stream.events("now") as events:
        started = time.monotonic()
        while events.next(timeout_s=4) is not None:
            pass
    assert time.monotonic() - started < 2.5
