"""Long-poll and server-sent events through the wire: rules L1 to L7, F3, F4."""

import base64
import json
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from millstream.protocol.sse import Event
from running import HASTY_MS, Server, ServerFactory, millstream, uvicorn_server
from wire.raw_connection import Answer, Wire

SERVERS: dict[str, ServerFactory] = {"native": millstream, "asgi": uvicorn_server}
CLOSE = {"Stream_Closed": "true"}
SOON_S = 9.0  # far more than anything takes here, and less than it would take to time out


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture
def reader(server: Server) -> Iterator[Wire]:
    """A second connection."""
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture
def path(wire: Wire) -> str:
    """A new, empty text stream."""
    path = f"/live/{uuid.uuid4()}"
    assert wire.ask("PUT", path, Content_Type="text/plain").status == 201
    return path


# -- Long-poll -----------------------------------------------------------------------------------


def test_a_long_poll_is_woken_by_data(wire: Wire, reader: Wire, path: str) -> None:
    """L2."""
    reader.request("GET", f"{path}?offset=-1&live=long-poll")
    wire.ask("POST", path, b"hello")
    answer = reader.answer()
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.headers["stream-up-to-date"] == "true"
    assert int(answer.headers["stream-cursor"]) > 0


@pytest.mark.parametrize("start", SERVERS.values(), ids=SERVERS)
def test_a_long_poll_gives_up_in_time(start: ServerFactory) -> None:
    """L1, L2: 500 ms here."""
    with start(long_poll_ms=HASTY_MS) as hasty, Wire(hasty.url) as wire:
        wire.ask("PUT", "/s")
        begun_s = time.monotonic()
        answer = wire.ask("GET", "/s?offset=now&live=long-poll")
        assert 0.3 < time.monotonic() - begun_s < SOON_S
        assert answer.status == 204
        assert answer.headers["stream-up-to-date"] == "true"
        assert answer.headers["cache-control"] == "no-store"
        again = wire.ask("GET", f"/s?offset=now&live=long-poll&cursor={answer.headers['stream-cursor']}")
        assert int(again.headers["stream-cursor"]) > int(answer.headers["stream-cursor"])


def recreate(wire: Wire, path: str) -> None:
    wire.ask("DELETE", path)
    wire.ask("PUT", path, b"another stream")


def fork_and_delete(wire: Wire, path: str) -> None:
    wire.ask("PUT", f"{path}/fork", Stream_Forked_From=path)
    wire.ask("DELETE", path)


ENDS: dict[str, tuple[Callable[[Wire, str], object], int]] = {
    "a close": (lambda wire, path: wire.ask("POST", path, **CLOSE), 204),
    "an append that closes": (lambda wire, path: wire.ask("POST", path, b"end", **CLOSE), 200),
    "a delete": (lambda wire, path: wire.ask("DELETE", path), 404),
    "a delete with a fork": (fork_and_delete, 410),
    "another stream of the same name": (recreate, 404),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_long_poll_is_woken_by(wire: Wire, reader: Wire, path: str, end: str) -> None:
    """L2, L6, F4."""
    reader.request("GET", f"{path}?offset=-1&live=long-poll")
    happen, status = ENDS[end]
    happen(wire, path)
    answer = reader.answer()
    assert answer.status == status
    assert (answer.headers.get("stream-closed") == "true") is ("clos" in end)


def test_a_closed_stream_does_not_let_anybody_wait(wire: Wire, path: str) -> None:
    """L2."""
    wire.ask("POST", path, **CLOSE)
    begun_s = time.monotonic()
    answer = wire.ask("GET", f"{path}?offset=-1&live=long-poll")
    assert (answer.status, answer.headers["stream-closed"]) == (204, "true")
    assert time.monotonic() - begun_s < SOON_S


def test_a_reader_that_follows_by_long_poll_misses_nothing(wire: Wire, reader: Wire, path: str) -> None:
    """L2: neither between two polls nor at the end."""
    read, offset, closed = b"", "-1", False
    expected = b""
    for turn in range(60):
        reader.request("GET", f"{path}?offset={offset}&live=long-poll")
        piece = b"%d;" % turn
        wire.ask("POST", path, piece, **(CLOSE if turn == 59 else {}))
        expected += piece
        answer = reader.answer()
        read += answer.body
        offset, closed = answer.headers["stream-next-offset"], "stream-closed" in answer.headers
    while not closed:
        answer = reader.ask("GET", f"{path}?offset={offset}&live=long-poll")
        read += answer.body
        offset, closed = answer.headers["stream-next-offset"], "stream-closed" in answer.headers
    assert read == expected


@pytest.mark.parametrize("timeout", ["0", "1", "50"])
def test_a_long_poll_gives_up_when_its_client_wants(wire: Wire, path: str, timeout: str) -> None:
    """X10: long before this server would, which waits for tens of seconds."""
    answer = wire.ask("GET", f"{path}?offset=now&live=long-poll&timeout={timeout}")
    assert (answer.status, answer.headers["stream-up-to-date"]) == (204, "true")
    assert "stream-cursor" in answer.headers


@pytest.mark.parametrize("start", SERVERS.values(), ids=SERVERS)
def test_a_long_poll_waits_no_longer_than_the_server_allows(start: ServerFactory) -> None:
    """X10."""
    with start(long_poll_ms=HASTY_MS) as hasty, Wire(hasty.url) as wire:
        wire.ask("PUT", "/s", Content_Type="text/plain")
        assert wire.ask("GET", "/s?offset=now&live=long-poll&timeout=9007199254740991").status == 204


@pytest.mark.parametrize("timeout", ["", "-1", "1.5", "1s", "9007199254740992", "1&timeout=1"])
@pytest.mark.parametrize("live", ["long-poll", "sse", "false"])
def test_a_timeout_is_a_number_of_milliseconds(wire: Wire, path: str, timeout: str, live: str) -> None:
    """X10: anything else is 400, whether it is needed or not."""
    assert wire.ask("GET", f"{path}?offset=-1&live={live}&timeout={timeout}").status == 400


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_a_live_read_needs_an_offset(wire: Wire, path: str, live: str) -> None:
    """L1."""
    assert wire.ask("GET", f"{path}?live={live}").status == 400


# -- Server-sent events --------------------------------------------------------------------------


def watch(wire: Wire, path: str, offset: str = "-1") -> Iterator[Event]:
    """Open an event stream, and check how it begins."""
    wire.request("GET", f"{path}?offset={offset}&live=sse")
    status, headers = wire.head()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert "no-cache" in headers["cache-control"]
    assert headers["x-accel-buffering"] == "no"
    assert "content-length" not in headers
    assert "content-encoding" not in headers
    return wire.events()


def control(event: Event) -> dict[str, object]:
    assert event.type == "control"
    found: dict[str, object] = json.loads(event.data)
    return found


def test_the_first_event_comes_at_once(wire: Wire, reader: Wire, path: str) -> None:
    """L5."""
    first = control(next(watch(reader, path)))
    assert first["upToDate"] is True
    assert "streamClosed" not in first


def test_each_message_comes_with_its_control_event(wire: Wire, reader: Wire, path: str) -> None:
    """L4, L5."""
    events = watch(reader, path)
    next(events)
    for text in (b"one", b" two\n  lines", b"\r\nevent: control\r\ndata: forged\r\n\r\n"):
        tail = wire.ask("POST", path, text).headers["stream-next-offset"]
        data = next(events)
        assert data.type == "data"
        assert data.data == text.decode().replace("\r\n", "\n")
        assert control(next(events))["streamNextOffset"] == tail


def test_a_close_ends_the_events(wire: Wire, reader: Wire, path: str) -> None:
    """L5: and the connection is in step, so that it can be used again."""
    events = watch(reader, path)
    next(events)
    wire.ask("POST", path, b"end", **CLOSE)
    data, last = events
    assert data.data == "end"
    head = wire.ask("HEAD", path)
    assert control(last) == {
        "streamNextOffset": head.headers["stream-next-offset"],
        "upToDate": True,
        "streamClosed": True,
        "streamLastTime": head.headers["stream-last-time"],
    }
    assert reader.ask("GET", path).body == b"end"


@pytest.mark.parametrize("end", ["a delete", "a delete with a fork", "another stream of the same name"])
def test_events_are_ended_by(wire: Wire, reader: Wire, path: str, end: str) -> None:
    """L6, F4: cleanly, without a word about the other stream."""
    events = watch(reader, path)
    next(events)
    ENDS[end][0](wire, path)
    assert list(events) == []


@pytest.mark.parametrize("content_type", ["application/octet-stream", "image/png", "application/x-ndjson"])
def test_what_is_not_text_comes_as_base64(wire: Wire, reader: Wire, content_type: str) -> None:
    """L4."""
    path, content = f"/live/{uuid.uuid4()}", bytes(range(256))
    wire.ask("PUT", path, content, Content_Type=content_type)
    reader.request("GET", f"{path}?offset=-1&live=sse")
    assert reader.head()[1]["stream-sse-data-encoding"] == "base64"
    assert base64.b64decode(next(reader.events()).data) == content


def test_json_comes_as_arrays(wire: Wire, reader: Wire) -> None:
    """L4."""
    path = f"/live/{uuid.uuid4()}"
    wire.ask("PUT", path, b'[{"n": 18446744073709551617}]', Content_Type="application/json")
    events = watch(reader, path)
    assert next(events).data == '[{"n": 18446744073709551617}]'
    next(events)
    wire.ask("POST", path, b'[1, "two"]', Content_Type="application/json")
    assert next(events).data == '[1,"two"]'


def test_a_reader_resumes_where_it_was(wire: Wire, reader: Wire, path: str, server: Server) -> None:
    """L5."""
    wire.ask("POST", path, b"one")
    events = watch(reader, path)
    next(events)
    offset = control(next(events))["streamNextOffset"]
    wire.ask("POST", path, b"two")
    with Wire(server.url) as later:
        assert next(watch(later, path, str(offset))).data == "two"


def test_many_readers_get_the_same(server: Server, wire: Wire, path: str) -> None:
    """L4."""
    readers = [Wire(server.url) for _ in range(50)]
    try:
        streams = [watch(reader, path) for reader in readers]
        for events in streams:
            next(events)
        for number in range(20):
            wire.ask("POST", path, b"%d\n" % number)
        wire.ask("POST", path, **CLOSE)
        for events in streams:
            text = "".join(event.data for event in events if event.type == "data")
            assert text == "".join(f"{number}\n" for number in range(20))
    finally:
        for reader in readers:
            reader.socket.close()


# -- What only the native server decides ---------------------------------------------------------


@pytest.fixture(scope="module")
def hasty() -> Iterator[Server]:
    """A server whose event streams end after a moment."""
    with millstream("--sse-ttl-s", "0.5") as server:
        yield server


def test_events_end_after_a_while_with_the_last_chunk(hasty: Server) -> None:
    """L5: so that a proxy does not take it for an error, and the connection can be used again."""
    with Wire(hasty.url) as wire:
        wire.ask("PUT", "/s", b"hello")
        begun_s = time.monotonic()
        events = list(watch(wire, "/s"))
        assert 0.2 < time.monotonic() - begun_s < SOON_S
        assert [event.type for event in events] == ["data", "control"]
        assert wire.ask("GET", "/s").body == b"hello"


def test_http_1_0_gets_events_without_chunks(hasty: Server) -> None:
    """L4."""
    with Wire(hasty.url) as wire:
        wire.ask("PUT", "/s", b"hello")
        wire.send(b"GET /s?offset=-1&live=sse HTTP/1.0\r\n\r\n")
        answer: Answer = wire.answer()
        assert "transfer-encoding" not in answer.headers
        assert answer.body.startswith(b"event: data\ndata:hello\n\nevent: control\n")
