"""Incarnations through the wire: rule X10, and what follows for G3."""

import json
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

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
def path() -> str:
    return f"/incarnations/{uuid.uuid4()}"


def on_disk(folder: Path) -> AbstractContextManager[Server]:
    return millstream("--store", "log", "--data", str(folder))


def create(wire: Wire, path: str, status: int = 201) -> str:
    answer = wire.ask("PUT", path, b"hello", Content_Type="text/plain")
    assert answer.status == status
    return answer.headers["stream-incarnation"]


def test_every_answer_about_a_stream_says_its_incarnation(server: Server, wire: Wire, path: str) -> None:
    """X10: create, create again, HEAD, GET of every kind, and the listing."""
    found = create(wire, path)
    assert create(wire, path, 200) == found
    tail = wire.ask("HEAD", path).headers["stream-next-offset"]
    queries = ["", "?offset=-1", "?offset=now", "?offset=-1&live=long-poll", f"?offset={tail}&live=long-poll"]
    for query in queries:
        query += "&timeout=1" if "long-poll" in query else ""
        assert wire.ask("GET", path + query).headers["stream-incarnation"] == found, query
    assert wire.ask("HEAD", path + "?offset=-1").headers["stream-incarnation"] == found
    tag = wire.ask("GET", path).headers["etag"]
    unchanged = wire.ask("GET", path, If_None_Match=tag)
    assert (unchanged.status, unchanged.headers["stream-incarnation"]) == (304, found)
    listed = json.loads(wire.ask("GET", f"/__ds/streams?prefix={path}").body)["streams"]
    assert [stream["incarnation"] for stream in listed] == [found]
    wire.ask("POST", path, b"", Stream_Closed="true")
    with Wire(server.url) as other:
        assert other.ask("GET", path + "?offset=-1&live=sse").headers["stream-incarnation"] == found


def test_a_stream_that_is_made_anew_is_another_one(wire: Wire, path: str) -> None:
    """X10, G3: also for the same content, and so is every entity tag."""
    before = create(wire, path)
    tag = wire.ask("GET", path).headers["etag"]
    assert wire.ask("DELETE", path).status == 204
    after = create(wire, path)
    assert after != before
    answer = wire.ask("GET", path, If_None_Match=tag)
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.headers["etag"] != tag


def test_an_incarnation_survives_a_restart(tmp_path: Path) -> None:
    """X10."""
    with on_disk(tmp_path) as server, Wire(server.url) as wire:
        before = create(wire, "/kept"), wire.ask("GET", "/kept").headers["etag"]
    with on_disk(tmp_path) as server, Wire(server.url) as wire:
        found = wire.ask("GET", "/kept")
        assert (found.headers["stream-incarnation"], found.headers["etag"]) == before
