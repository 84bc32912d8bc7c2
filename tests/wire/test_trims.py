"""Trims by request, through the wire: rule X10, with O3, O4, A2 and L6."""

import json
import uuid
from collections.abc import Iterator

import pytest

from running import Server, durable_millstream, millstream, uvicorn_server
from wire.raw_connection import Wire

SERVERS = {"memory": millstream, "log": durable_millstream, "asgi": uvicorn_server}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture
def path(wire: Wire) -> str:
    """A stream of three appends of ten bytes."""
    path = f"/trims/{uuid.uuid4()}"
    assert wire.ask("PUT", path, Content_Type="text/plain").status == 201
    for letter in b"abc":
        wire.ask("POST", path, bytes([letter]) * 10)
    return path


def offset(position: int) -> str:
    return f"{0:016d}_{position:016d}"


@pytest.mark.parametrize(
    ("before", "start"), [("-1", 0), (offset(0), 0), (offset(15), 10), (offset(30), 30), ("now", 30)]
)
def test_the_answer_says_where_the_stream_begins_now(wire: Wire, path: str, before: str, start: int) -> None:
    """X10: as HEAD and reads do from then on."""
    answer = wire.ask("POST", f"{path}?trim={before}")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["stream-earliest-offset"] == offset(start)
    assert answer.headers["stream-next-offset"] == offset(30)
    assert wire.ask("GET", path + "?offset=-1").body == (b"a" * 10 + b"b" * 10 + b"c" * 10)[start:]
    if start:
        assert wire.ask("HEAD", path).headers["stream-earliest-offset"] == offset(start)
        gone = wire.ask("GET", f"{path}?offset={offset(start - 1)}")
        assert (gone.status, json.loads(gone.body)["code"]) == (410, "OFFSET_GONE")


@pytest.mark.parametrize(("before", "start"), [("-1", 0), (offset(15), 10), ("now", 30)])
def test_a_preview_says_the_same_and_changes_nothing(wire: Wire, path: str, before: str, start: int) -> None:
    """X10: also after an earlier trim, and of what is refused."""
    answer = wire.ask("POST", f"{path}?trim-preview={before}")
    assert (answer.status, answer.headers["stream-earliest-offset"]) == (204, offset(start))
    assert answer.headers["stream-next-offset"] == offset(30)
    assert wire.ask("GET", path + "?offset=-1").body == b"a" * 10 + b"b" * 10 + b"c" * 10
    wire.ask("POST", f"{path}?trim={offset(20)}")
    later = wire.ask("POST", f"{path}?trim-preview={before}")
    assert later.headers["stream-earliest-offset"] == offset(max(start, 20))
    assert wire.ask("GET", path + "?offset=-1").body == b"c" * 10
    assert wire.ask("POST", f"{path}?trim-preview={offset(31)}").status == 400


@pytest.mark.parametrize(
    ("query", "body", "code"),
    [
        ("trim=" + offset(31), None, "TRIM_BEYOND_TAIL"),
        ("trim=now&trim-preview=now", None, "INVALID_TRIM"),
        ("trim=", None, "INVALID_OFFSET"),
        ("trim=x", None, "INVALID_OFFSET"),
        ("trim=-1&trim=-1", None, "REPEATED_PARAMETER"),
        ("trim=now", b"x", "INVALID_TRIM"),
        ("trim=now&part=a", None, "INVALID_TRIM"),
        ("trim=now&parts=commit", None, "INVALID_TRIM"),
    ],
)
def test_a_trim_that_makes_no_sense_changes_nothing(
    wire: Wire, path: str, query: str, body: bytes | None, code: str
) -> None:
    """X10, O3."""
    answer = wire.ask("POST", f"{path}?{query}", body)
    assert (answer.status, json.loads(answer.body)["code"]) == (400, code)
    assert len(wire.ask("GET", path).body) == 30


def test_whether_the_stream_exists_comes_first(wire: Wire, path: str) -> None:
    """X10, A2, F2."""
    assert wire.ask("POST", path + "/none?trim=x").status == 404
    assert wire.ask("PUT", path + "/fork", Stream_Forked_From=path).status == 201
    wire.ask("DELETE", path)
    assert wire.ask("POST", path + "?trim=now").status == 410
    assert len(wire.ask("GET", path + "/fork").body) == 30


def test_a_long_poll_at_the_tail_outlives_a_trim(server: Server, wire: Wire, path: str) -> None:
    """X10, L2: it waits for data, and gets it."""
    with Wire(server.url) as reader:
        reader.request("GET", f"{path}?offset={offset(30)}&live=long-poll")
        assert wire.ask("POST", path + "?trim=now").status == 204
        wire.ask("POST", path, b"d")
        answer = reader.answer()
    assert (answer.status, answer.body) == (200, b"d")
