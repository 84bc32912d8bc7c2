"""Compare and append through the wire (rule X6): native server and ASGI app, in memory and on a disk."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import httpx
import pytest

from crash.processes import Client, port_of
from running import Server, durable_millstream, millstream, uvicorn_server

TEXT = {"content-type": "text/plain"}
SERVERS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "native": millstream,
    "native-durable": durable_millstream,
    "asgi": uvicorn_server,
}
WRITERS = 64
WINS = 100


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture
def path(client: httpx.Client) -> str:
    path = f"/expected/{uuid.uuid4()}"
    assert client.put(path, headers=TEXT, content=b"one").status_code == 201
    return path


def expecting(offset: str) -> dict[str, str]:
    return TEXT | {"Stream-Expected-Offset": offset}


def test_a_conflict_says_where_the_stream_ends(client: httpx.Client, path: str) -> None:
    before = client.head(path).headers["Stream-Next-Offset"]
    done = client.post(path, headers=expecting(before), content=b"two")
    assert done.status_code == 204
    refused = client.post(path, headers=expecting(before), content=b"three")
    assert (refused.status_code, refused.json()["code"]) == (409, "EXPECTED_OFFSET_CONFLICT")
    assert refused.headers["Stream-Next-Offset"] == done.headers["Stream-Next-Offset"]
    assert "Stream-Closed" not in refused.headers
    assert client.get(path).content == b"onetwo"


def test_the_tag_of_head_is_a_condition_too(client: httpx.Client, path: str) -> None:
    tag = client.head(path).headers["ETag"]
    tail = client.head(path).headers["Stream-Next-Offset"]
    assert tag == client.get(path, params={"offset": tail}).headers["ETag"]
    assert client.head(path, headers={"If-None-Match": tag}).status_code == 304
    assert client.post(path, headers=TEXT | {"If-Match": tag}, content=b"two").status_code == 204
    refused = client.post(path, headers=TEXT | {"If-Match": tag}, content=b"three")
    assert (refused.status_code, refused.json()["code"]) == (412, "PRECONDITION_FAILED")
    assert refused.headers["ETag"] == client.head(path).headers["ETag"] != tag
    assert client.post(path, headers=TEXT | {"If-Match": "*"}, content=b"three").status_code == 204
    assert client.post("/expected/nothing", headers=TEXT | {"If-Match": "*"}, content=b"x").status_code == 404


def test_a_large_body_is_decided_when_it_is_there(client: httpx.Client, path: str) -> None:
    """A worker parses it, and the stream may move meanwhile: what counts is the tail at the decision."""
    before = client.head(path).headers["Stream-Next-Offset"]
    client.post(path, headers=TEXT, content=b"two")
    assert client.post(path, headers=expecting(before), content=b"x" * 300_000).status_code == 409
    assert client.get(path).content == b"onetwo"


def test_repeated_headers_are_malformed_or_a_list(client: httpx.Client, path: str) -> None:
    tail = client.head(path).headers
    twice = [*TEXT.items(), *[("Stream-Expected-Offset", tail["Stream-Next-Offset"])] * 2]
    assert client.post(path, headers=twice, content=b"x").status_code == 400
    tags = [*TEXT.items(), ("If-Match", '"other"'), ("If-Match", tail["ETag"])]
    assert client.post(path, headers=tags, content=b"x").status_code == 204


def test_one_of_64_writers_wins_each_offset(server: Server, client: httpx.Client, path: str) -> None:
    """Every writer expects what it last saw; each offset has one winner, whose bytes are there."""
    start = client.head(path).headers["Stream-Next-Offset"]
    won: dict[str, list[bytes]] = {}
    failures: list[object] = []
    enough, begin = threading.Event(), threading.Barrier(WRITERS)

    def write(number: int) -> None:
        connection, tail, body = Client(port_of(server)), start, f"<{number:03}>".encode()
        begin.wait()
        while not enough.is_set():
            answer = connection.request("POST", path, body, expecting(tail))
            if answer is None or answer[0] not in (204, 409):
                failures.append(answer)
                break
            if answer[0] == 204:
                won.setdefault(tail, []).append(body)
                if len(won) >= WINS:
                    enough.set()
            tail = answer[1]["stream-next-offset"]
        connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(won) >= WINS
    assert all(len(winners) == 1 for winners in won.values())
    assert client.get(path).content == b"one" + b"".join(won[tail][0] for tail in sorted(won))
