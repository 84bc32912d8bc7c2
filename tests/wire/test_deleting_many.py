"""Deleting many streams through the wire: rules X11, L6."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import jwt
import pytest

from running import Server, ServerFactory, announced, durable_millstream, millstream, started, uvicorn_server
from wire.raw_connection import Wire, request

SECRET = "a secret that is long enough for HS256"
TEXT = {"Content-Type": "text/plain"}
SERVERS: dict[str, ServerFactory] = {
    "memory": millstream,
    "log": durable_millstream,
    "uvicorn": uvicorn_server,
}


def bearer(scope: str) -> dict[str, str]:
    token = jwt.encode({"scope": scope, "exp": 2_000_000_000}, SECRET, "HS256")
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as server:
        yield server


def create(server: Server, *names: str) -> None:
    for name in names:
        assert httpx.put(server.url + name, headers=TEXT).status_code == 201


def delete(server: Server, query: str, **headers: str) -> httpx.Response:
    return httpx.delete(f"{server.url}/__ds/streams?{query}", headers=headers)


def test_a_deletion_says_how_many_and_where_to_continue(server: Server) -> None:
    """X11."""
    create(server, *(f"/a/{number}" for number in range(5)), "/b")
    first = delete(server, "prefix=/a/&limit=3")
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-store")
    assert first.json() == {"deleted": 3, "cursor": "/a/2"}
    assert delete(server, "prefix=/a/&limit=3&cursor=/a/2").json() == {"deleted": 2, "cursor": None}
    assert delete(server, "prefix=/a/").json() == {"deleted": 0, "cursor": None}
    assert httpx.get(f"{server.url}/a/0").status_code == 404
    assert httpx.get(f"{server.url}/b").status_code == 200


@pytest.mark.parametrize(
    ("query", "code"),
    [("", "MISSING_PREFIX"), ("prefix=", "MISSING_PREFIX"), ("prefix=a", "INVALID_PREFIX")],
)
def test_what_to_delete_must_be_said(server: Server, query: str, code: str) -> None:
    """X11."""
    create(server, "/kept")
    refused = delete(server, query)
    assert (refused.status_code, refused.json()["code"]) == (400, code)
    assert httpx.get(f"{server.url}/kept").status_code == 200
    assert delete(server, "prefix=/").json()["deleted"] == 1


def test_waiting_readers_learn_of_it() -> None:
    """L6, X11."""
    with durable_millstream() as server, Wire(server.url) as reader:
        create(server, "/a/1")
        reader.send(request("GET", "/a/1?offset=now&live=sse", None))
        assert reader.head()[0] == 200
        assert delete(server, "prefix=/a/").json()["deleted"] == 1
        assert list(reader.events()), "its response has ended"


def test_what_the_token_may_not_write_stays_and_its_name_is_not_told() -> None:
    """X11."""
    with millstream("--auth-secret", SECRET) as server:
        admin = bearer("admin")
        for name in ("/a/1", "/b/1", "/b/2", "/c/1"):
            assert httpx.put(server.url + name, headers=TEXT | admin).status_code == 201
        assert delete(server, "prefix=/").status_code == 401
        assert delete(server, "prefix=/", **bearer("read")).status_code == 403
        first = delete(server, "prefix=/&limit=1", **bearer("write:/b/**")).json()
        assert first["deleted"] == 1
        assert first["cursor"].startswith("~"), "it may not read the name"
        rest = delete(server, f"prefix=/&cursor={first['cursor']}", **bearer("write:/b/** read:/b/**"))
        assert rest.json() == {"deleted": 1, "cursor": None}
        left = httpx.get(f"{server.url}/__ds/streams", headers=admin).json()["streams"]
        assert [stream["path"] for stream in left] == ["/a/1", "/c/1"]


def test_a_page_of_another_origin_deletes_nothing(server: Server) -> None:
    create(server, "/kept")
    refused = delete(server, "prefix=/", Origin="https://evil.example")
    assert (refused.status_code, refused.json()["code"]) == (403, "ORIGIN_NOT_ALLOWED")
    assert httpx.get(f"{server.url}/kept").status_code == 200


def test_other_methods_are_told_which_there_are(server: Server) -> None:
    """H3."""
    refused = httpx.put(f"{server.url}/__ds/streams")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, DELETE, POST, OPTIONS")
    assert httpx.delete(f"{server.url}/__ds/access").headers["allow"] == "GET, HEAD, OPTIONS"
    assert "delete" in httpx.options(f"{server.url}/a").headers["millstream-extensions"].split(", ")


def test_what_a_killed_server_said_is_deleted(tmp_path: Path) -> None:
    """X11: the answer comes once all of it is durable."""
    command = [sys.executable, "-m", "millstream", "serve", "--data", str(tmp_path), "--port", "0"]
    with started(command, announced) as server:
        with Wire(server.url) as wire:
            for number in range(300):
                wire.send(request("PUT", f"/a/{number:03}", b""))
            for _ in range(300):
                assert wire.answer().status == 201
            page = json.loads(wire.ask("DELETE", "/__ds/streams?prefix=/a/&limit=200").body)
        assert page == {"deleted": 200, "cursor": "/a/199"}
        server.signal(signal.SIGKILL)
    with started(command, announced) as server:
        left = httpx.get(f"{server.url}/__ds/streams?limit=1000").json()["streams"]
        assert [stream["path"] for stream in left] == [f"/a/{number:03}" for number in range(200, 300)]
