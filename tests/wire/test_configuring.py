"""PATCH through the wire: rule X10, with A2, C1, C3, G8, H1, H3 and X2."""

import json
import uuid
from collections.abc import Iterator

import pytest

from running import Server, durable_millstream, millstream, uvicorn_server
from wire.raw_connection import Answer, Wire

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
    path = f"/configuring/{uuid.uuid4()}"
    assert wire.ask("PUT", path, b"hello", Content_Type="text/plain").status == 201
    return path


def about(answer: Answer) -> dict[str, str]:
    """Give what an answer says of a stream's configuration."""
    names = ("ttl", "expires-at", "retain-bytes", "retain-seconds", "attributes")
    return {name: found for name in names if (found := answer.headers.get(f"stream-{name}")) is not None}


def test_a_patch_answers_with_what_is_set_now(wire: Wire, path: str) -> None:
    """X10: and HEAD and the listing say the same."""
    steps: list[tuple[dict[str, str], dict[str, str]]] = [
        ({}, {}),
        ({"Stream_TTL": "3600"}, {"ttl": "3600"}),
        (
            {"Stream_Retain_Bytes": "1000", "Stream_Attributes": '{"team": "a"}'},
            {"ttl": "3600", "retain-bytes": "1000", "attributes": '{"team":"a"}'},
        ),
        (
            {"Stream_Expires_At": "2099-01-01T00:00:00Z", "Stream_Retain_Bytes": "none"},
            {"expires-at": "2099-01-01T00:00:00Z", "attributes": '{"team":"a"}'},
        ),
        ({"Stream_Expires_At": "none", "Stream_Attributes": '{"team":null}'}, {}),
    ]
    incarnation = wire.ask("HEAD", path).headers["stream-incarnation"]
    for fields, wanted in steps:
        answer = wire.ask("PATCH", path, **fields)
        assert (answer.status, answer.body, about(answer)) == (204, b"", wanted)
        assert answer.headers["stream-next-offset"].endswith("5")
        assert answer.headers["stream-incarnation"] == incarnation
        assert answer.headers["cache-control"] == "no-store"
        assert about(wire.ask("HEAD", path)) == wanted
        (listed,) = json.loads(wire.ask("GET", f"/__ds/streams?prefix={path}").body)["streams"]
        assert listed["attributes"] == json.loads(wanted.get("attributes", "{}"))
        assert listed["ttlSeconds"] == (int(wanted["ttl"]) if "ttl" in wanted else None)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"Stream_TTL": "1", "Stream_Expires_At": "2099-01-01T00:00:00Z"}, "CONFLICTING_EXPIRY"),
        ({"Stream_TTL": "01"}, "INVALID_INTEGER"),
        ({"Stream_TTL": "None"}, "INVALID_INTEGER"),
        ({"Stream_Expires_At": "tomorrow"}, "INVALID_TIMESTAMP"),
        ({"Stream_Retain_Bytes": "0"}, "INVALID_INTEGER"),
        ({"Stream_Retain_Seconds": "x"}, "INVALID_INTEGER"),
        ({"Stream_Attributes": "[]"}, "INVALID_ATTRIBUTES"),
        ({"Stream_Attributes": '{"a":"%s"}' % ("x" * 5000)}, "ATTRIBUTES_TOO_LARGE"),
    ],
)
def test_a_patch_that_is_malformed_changes_nothing(
    wire: Wire, path: str, fields: dict[str, str], code: str
) -> None:
    """X10, C3: all of it or nothing."""
    answer = wire.ask("PATCH", path, **({"Stream_Retain_Bytes": "1000"} | fields))
    assert (answer.status, json.loads(answer.body)["code"]) == (400, code)
    assert about(wire.ask("HEAD", path)) == {}


def test_a_patch_has_no_body(wire: Wire, path: str) -> None:
    """X10."""
    answer = wire.ask("PATCH", path, b"{}")
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "UNEXPECTED_BODY")


def test_whether_the_stream_exists_comes_first(wire: Wire, path: str) -> None:
    """X10, A2, F2."""
    for fields in ({}, {"Stream_TTL": "x"}):
        assert wire.ask("PATCH", path + "/none", **fields).status == 404
    wire.ask("PUT", path + "/fork", Stream_Forked_From=path)
    wire.ask("DELETE", path)
    assert wire.ask("PATCH", path, Stream_TTL="1").status == 410


def test_a_response_that_was_cached_before_does_not_keep_a_ttl_from_being_renewed(
    wire: Wire, path: str
) -> None:
    """X10, G8: the second read comes from the server's own cache, unless the stream has a TTL."""
    for _ in range(3):
        wire.ask("GET", path)
    wire.ask("PATCH", path, Stream_TTL="3600")
    before = json.loads(wire.ask("GET", f"/__ds/streams?prefix={path}").body)["streams"][0]["expiresMs"]
    after = before
    while after == before:
        assert wire.ask("GET", path).body == b"hello"
        after = json.loads(wire.ask("GET", f"/__ds/streams?prefix={path}").body)["streams"][0]["expiresMs"]
    assert after > before


def test_a_listing_selects_by_attributes(wire: Wire, path: str) -> None:
    """X10, X2: a parameter each; a deletion of many refuses them, rather than to ignore what it spares."""
    for number, noted in enumerate(['{"team":"a&b","tier":1}', '{"team":"a&b","tier":2}', "{}"]):
        created = wire.ask("PUT", f"{path}/{number}", Stream_Attributes=noted)
        assert created.headers.get("stream-attributes", "{}") == noted

    def listed(query: str) -> list[str]:
        found = json.loads(wire.ask("GET", f"/__ds/streams?prefix={path}/&{query}").body)["streams"]
        return [stream["path"][-1] for stream in found]

    assert listed("attr.team=a%26b") == ["0", "1"]
    assert listed("attr.team=a%26b&attr.tier=2") == ["1"]
    assert listed("attr.team=a") == []
    assert wire.ask("GET", "/__ds/streams?attr.a=1&attr.a=2").status == 400
    assert wire.ask("GET", "/__ds/streams?attr.%ff=1").status == 400
    assert wire.ask("DELETE", f"/__ds/streams?prefix={path}/&attr.tier=1").status == 400
    assert listed("") == ["0", "1", "2"]


def test_web_pages_and_wrong_methods_are_told_of_patch(wire: Wire, path: str) -> None:
    """X10, H1, H3."""
    allowed = wire.ask("OPTIONS", path).headers
    assert "PATCH" in allowed["allow"]
    assert "PATCH" in allowed["access-control-allow-methods"]
    assert "stream-attributes" in allowed["access-control-allow-headers"]
    assert "patch" in allowed["millstream-extensions"].split(", ")
    exposed = wire.ask("GET", path, Origin="http://example.com").headers["access-control-expose-headers"]
    assert {"stream-incarnation", "stream-attributes"} <= set(exposed.split(", "))
    assert "PATCH" in wire.ask("TRACE", path).headers.get("allow", "PATCH")
    assert wire.ask("PATCH", "/__ds/streams").status == 405
