"""Types that end in `+json` are JSON, through the wire: rule X10, with A3, A10, G4 and L4."""

import json
import uuid
from collections.abc import Iterator

import pytest

from running import millstream, uvicorn_server
from wire.raw_connection import Wire

SERVERS = {"native": millstream, "asgi": uvicorn_server}
EVENTS = "application/cloudevents+json"


@pytest.fixture(scope="module", params=SERVERS)
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    with SERVERS[request.param]() as server, Wire(server.url) as wire:
        yield wire


@pytest.fixture
def path(wire: Wire) -> str:
    path = f"/json/{uuid.uuid4()}"
    assert wire.ask("PUT", path, b"[1,2]", Content_Type=EVENTS).status == 201
    return path


def test_messages_are_framed_and_read_as_an_array(wire: Wire, path: str) -> None:
    """X10, A10, G4, C6: parameters and case do not matter, and the type is returned as it was given."""
    assert wire.ask("POST", path, b' {"n": 3} ', Content_Type=EVENTS).status == 204
    assert (
        wire.ask("POST", path, b"[[4]]", Content_Type="Application/CloudEvents+JSON; charset=utf-8").status
        == 204
    )
    answer = wire.ask("GET", path)
    assert answer.headers["content-type"] == EVENTS
    assert answer.body == b'[1,2,{"n": 3},[4]]'


@pytest.mark.parametrize("body", [b"[1", b"[]", b"NaN"])
def test_what_is_not_json_is_refused(wire: Wire, path: str, body: bytes) -> None:
    """X10, A3."""
    assert wire.ask("POST", path, body, Content_Type=EVENTS).status == 400
    assert wire.ask("PUT", path + "/new", b"{", Content_Type=EVENTS).status == 400


def test_another_json_type_is_another_type(wire: Wire, path: str) -> None:
    """X10, A2."""
    assert wire.ask("POST", path, b"1", Content_Type="application/json").status == 409


def test_events_carry_json(wire: Wire, path: str) -> None:
    """X10, L4: an array in each data event, and no Base64."""
    wire.ask("POST", path, b"", Stream_Closed="true")
    answer = wire.ask("GET", path + "?offset=-1&live=sse")
    assert "stream-sse-data-encoding" not in answer.headers
    assert b"event: data\ndata:[1,2]\n" in answer.body


def test_parts_are_framed(wire: Wire, path: str) -> None:
    """X10, X3."""
    assert wire.ask("POST", path + "?part=a", b"[3,4]", Content_Type=EVENTS).status == 204
    committed = wire.ask("POST", path + "?parts=commit", b'{"parts":["a"]}', Content_Type="application/json")
    assert committed.status == 204
    assert json.loads(wire.ask("GET", path).body) == [1, 2, 3, 4]
