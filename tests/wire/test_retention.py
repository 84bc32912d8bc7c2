"""Retention through the wire: rules X4, O4, and what follows for O2, C1, G3, L6 and H2."""

import json
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from running import Server, durable_millstream, millstream, uvicorn_server
from wire.raw_connection import Answer, Wire

SERVERS = {"memory": millstream, "log": durable_millstream, "asgi": uvicorn_server}
SOON_S = 10.0


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
    """A stream that keeps a thousand bytes, and holds eight appends of 600."""
    path = new_stream(wire, Stream_Retain_Bytes="1000")
    for letter in b"abcdefgh":
        wire.ask("POST", path, bytes([letter]) * 600)
    eventually(lambda: earliest(wire, path) == 3600)
    return path


def new_stream(wire: Wire, **limits: str) -> str:
    path = f"/retention/{uuid.uuid4()}"
    assert wire.ask("PUT", path, Content_Type="text/plain", **limits).status == 201
    return path


def eventually(condition: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < give_up_s, "it did not happen"
        time.sleep(0.02)


def earliest(wire: Wire, path: str) -> int:
    return number(wire.ask("HEAD", path).headers["stream-earliest-offset"])


def number(offset: str) -> int:
    return int(offset.rpartition("_")[2])


def offset(position: int) -> str:
    return f"{0:016d}_{position:016d}"


def assert_gone(answer: Answer, start: int) -> None:
    assert answer.status == 410
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["stream-earliest-offset"] == offset(start)
    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers
    assert json.loads(answer.body)["code"] == "OFFSET_GONE"


@pytest.mark.parametrize("query", ["", "&live=long-poll", "&live=sse", "&until=" + offset(4000)])
def test_what_is_gone_says_so_and_where_the_rest_begins(wire: Wire, path: str, query: str) -> None:
    """O4, H2."""
    assert_gone(wire.ask("GET", f"{path}?offset={offset(600)}{query}"), 3600)


def test_a_head_of_what_is_gone_says_so_too(wire: Wire, path: str) -> None:
    """X1, O4."""
    answer = wire.ask("HEAD", f"{path}?offset={offset(0)}")
    assert (answer.status, answer.headers["stream-earliest-offset"]) == (410, offset(3600))


@pytest.mark.parametrize("query", ["?offset=-1", "", "?offset=" + offset(3600)])
def test_the_beginning_is_that_of_what_is_kept(wire: Wire, path: str, query: str) -> None:
    """O2, X4."""
    answer = wire.ask("GET", path + query)
    assert (answer.status, answer.body) == (200, b"g" * 600 + b"h" * 600)
    assert answer.headers["stream-next-offset"] == offset(4800)
    assert answer.headers["stream-up-to-date"] == "true"


def test_events_begin_there_too(wire: Wire, path: str) -> None:
    """O2, L5."""
    wire.request("GET", f"{path}?offset=-1&live=sse")
    wire.head()
    events = wire.events()
    data, control = next(events), next(events)
    assert data.data == "g" * 600 + "h" * 600
    assert json.loads(control.data)["streamNextOffset"] == offset(4800)


def test_a_recent_answer_is_not_given_again_once_its_bytes_are_gone(wire: Wire) -> None:
    """X4, G3: neither to the same URL, nor as 304."""
    path = new_stream(wire, Stream_Retain_Bytes="1000")
    wire.ask("POST", path, b"a" * 600)
    urls = [f"{path}?offset={offset(0)}", f"{path}?offset={offset(0)}&until={offset(600)}"]
    answers = [wire.ask("GET", url) for url in urls * 2]
    assert {answer.body for answer in answers} == {b"a" * 600}
    beginning = wire.ask("GET", f"{path}?offset=-1")
    for letter in b"bcd":
        wire.ask("POST", path, bytes([letter]) * 600)
    eventually(lambda: earliest(wire, path) == 1200)
    for url, answer in zip(urls, answers, strict=False):
        assert_gone(wire.ask("GET", url), 1200)
        assert_gone(wire.ask("GET", url, If_None_Match=answer.headers["etag"]), 1200)
    again = wire.ask("GET", f"{path}?offset=-1", If_None_Match=beginning.headers["etag"])
    assert (again.status, again.body) == (200, b"c" * 600 + b"d" * 600)


def test_a_stream_says_what_it_keeps(wire: Wire) -> None:
    """G8, X4."""
    path = new_stream(wire, Stream_Retain_Bytes="1000", Stream_Retain_Seconds="60")
    fields = wire.ask("HEAD", path).headers
    assert fields["stream-retain-bytes"] == "1000"
    assert fields["stream-retain-seconds"] == "60"
    assert fields["stream-earliest-offset"] == offset(0)
    assert "retain" in fields["millstream-extensions"].split(", ")
    plain = wire.ask("HEAD", new_stream(wire)).headers
    assert not [name for name in plain if "retain" in name or "earliest" in name]


def test_a_limit_is_configuration(wire: Wire, path: str) -> None:
    """C1, X4."""
    text = {"Content_Type": "text/plain"}
    assert wire.ask("PUT", path, Stream_Retain_Bytes="1000", **text).status == 200
    for limits in ({}, {"Stream_Retain_Bytes": "999"}, {"Stream_Retain_Seconds": "1000"}):
        answer = wire.ask("PUT", path, **text, **limits)
        assert (answer.status, json.loads(answer.body)["code"]) == (409, "CONFIG_MISMATCH")


@pytest.mark.parametrize("header", ["Stream_Retain_Bytes", "Stream_Retain_Seconds"])
@pytest.mark.parametrize(
    "value", ["", "0", "01", "-1", "+1", "1.5", "1e3", "many", "9007199254740992", "1,1"]
)
def test_a_limit_that_is_none_is_refused(wire: Wire, header: str, value: str) -> None:
    """X4, C3."""
    answer = wire.ask("PUT", f"/retention/{uuid.uuid4()}", **{header: value})
    assert answer.status == 400
    assert header.replace("_", "-") in json.loads(answer.body)["detail"]


def test_what_is_old_goes_and_those_who_wait_wait_on(wire: Wire, reader: Wire) -> None:
    """X4, L2: a reader at the tail misses nothing."""
    path = new_stream(wire, Stream_Retain_Seconds="1")
    wire.ask("POST", path, b"old")
    reader.request("GET", f"{path}?offset={offset(3)}&live=sse")
    reader.head()
    events = reader.events()
    assert json.loads(next(events).data)["streamNextOffset"] == offset(3)
    eventually(lambda: earliest(wire, path) == 3)
    assert_gone(wire.ask("GET", f"{path}?offset={offset(0)}"), 3)
    assert wire.ask("GET", f"{path}?offset=-1").body == b""
    wire.ask("POST", path, b"new")
    assert next(events).data == "new"


def test_a_slow_reader_that_falls_behind_is_ended_without_a_gap(wire: Wire, reader: Wire) -> None:
    """X4, L6: it has a beginning of what there was; coming back it hears that the rest is gone."""
    path = new_stream(wire, Stream_Retain_Bytes="100000")
    reader.request("GET", f"{path}?offset={offset(0)}&live=sse")
    reader.head()
    whole = b""
    for count in range(240):
        line = b"%06d" % count + b"." * 99_993 + b"\n"
        wire.ask("POST", path, line)
        whole += line
    eventually(lambda: earliest(wire, path) > len(whole) - 250_000)
    read, position = "", 0
    for event in reader.events():
        if event.type == "data":
            read += event.data
        else:
            position = number(json.loads(event.data)["streamNextOffset"])
    assert read.encode() == whole[: len(read)]
    assert position == len(read) < len(whole)
    assert_gone(wire.ask("GET", f"{path}?offset={offset(position)}"), earliest(wire, path))


def test_a_fork_reads_on_what_its_source_lets_go(wire: Wire, path: str) -> None:
    """F1, X4."""
    fork = f"/retention/{uuid.uuid4()}"
    limits = {"Stream_Retain_Bytes": "1000000"}
    gone = wire.ask("PUT", fork, Stream_Forked_From=path, Stream_Fork_Offset=offset(600), **limits)
    assert_gone(gone, 3600)
    assert wire.ask("PUT", fork, Stream_Forked_From=path, **limits).status == 201
    for letter in b"ijkl":
        wire.ask("POST", path, bytes([letter]) * 600)
    eventually(lambda: earliest(wire, path) == 6000)
    assert wire.ask("GET", f"{fork}?offset=-1").body == b"g" * 600 + b"h" * 600
    assert wire.ask("DELETE", path).status == 204
    assert wire.ask("GET", f"{fork}?offset=-1").body == b"g" * 600 + b"h" * 600


def test_the_listing_counts_what_is_kept(wire: Wire, path: str) -> None:
    """X2, X4."""
    (found,) = json.loads(wire.ask("GET", f"/__ds/streams?prefix={path}").body)["streams"]
    assert (found["bytes"], found["tail"]) == (1200, offset(4800))


@pytest.mark.parametrize("start", [millstream, durable_millstream])
def test_a_server_may_have_limits_of_its_own(start: Callable[..., object]) -> None:
    """X4: for streams that are created without."""
    with start("--retain-bytes", "1000", "--retain-seconds", "3600") as server, Wire(server.url) as wire:  # type: ignore[attr-defined]
        usual, own = new_stream(wire), new_stream(wire, Stream_Retain_Bytes="100000")
        for path in (usual, own):
            for _ in range(4):
                wire.ask("POST", path, b"x" * 600)
        eventually(lambda: earliest(wire, usual) == 1200)
        assert earliest(wire, own) == 0
        assert wire.ask("HEAD", own).headers["stream-retain-seconds"] == "3600"
        assert wire.ask("PUT", usual, Content_Type="text/plain").status == 200
