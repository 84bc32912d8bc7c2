"""Multipart appends through the wire (rule X3), on the native server and on the ASGI app."""

import gzip
import json
import threading
import uuid
from collections.abc import Iterator

import httpx
import pytest

from running import millstream, uvicorn_server

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
SERVERS = {"native": millstream, "asgi": uvicorn_server}


@pytest.fixture(scope="module", params=SERVERS)
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    with SERVERS[request.param]() as server, httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture
def path(client: httpx.Client) -> str:
    path = f"/parts/{uuid.uuid4()}"
    assert client.put(path, headers=TEXT).status_code == 201
    return path


def stage(client: httpx.Client, path: str, id: str, body: bytes, **headers: str) -> httpx.Response:
    return client.post(path, params={"part": id}, content=body, headers=TEXT | headers)


def commit(client: httpx.Client, path: str, *ids: str, **headers: str) -> httpx.Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(path, params={"parts": "commit"}, json={"parts": ids}, headers=fields)


def test_a_server_says_that_it_has_parts(client: httpx.Client, path: str) -> None:
    for answer in (client.head(path), client.options("/nowhere")):
        assert "parts" in answer.headers["millstream-extensions"].split(", ")


def test_parts_become_one_append(client: httpx.Client, path: str) -> None:
    staged = stage(client, path, "b", b"two")
    assert (staged.status_code, staged.content) == (204, b"")
    assert "stream-next-offset" not in staged.headers
    assert stage(client, path, "a", b"one ").status_code == 204
    assert client.get(path).content == b""
    answer = commit(client, path, "a", "b")
    assert answer.status_code == 204
    assert answer.headers["stream-next-offset"] == "0000000000000000_0000000000000007"
    assert client.get(path).content == b"one two"


def test_a_commit_is_larger_than_a_body_may_be(client: httpx.Client, path: str) -> None:
    ids = [f"part-{number:02}" for number in range(5)]
    body = b"x" * (4 * 2**20)
    for id in ids:
        assert stage(client, path, id, body).status_code == 204
    assert commit(client, path, *ids).status_code == 204
    read, offset = 0, "-1"
    while True:
        chunk = client.get(path, params={"offset": offset})
        read, offset = read + len(chunk.content), chunk.headers["stream-next-offset"]
        if "stream-up-to-date" in chunk.headers:
            break
        assert len(chunk.content) == 2**18  # compressed, so in small responses
    assert read == 5 * len(body) > 16 * 2**20


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_a_waiting_reader_sees_a_commit_as_one_append(client: httpx.Client, path: str, live: str) -> None:
    stage(client, path, "a", b"one ")
    stage(client, path, "b", b"two")
    seen: list[str] = []
    is_waiting = threading.Event()

    def read() -> None:
        params = {"offset": "-1", "live": live}
        if live == "long-poll":
            is_waiting.set()
            seen.append(client.get(path, params=params).text)
            return
        with client.stream("GET", path, params=params) as answer:
            for line in answer.iter_lines():
                is_waiting.set()
                if line.startswith("data:") and not line.startswith("data:{"):
                    seen.append(line.removeprefix("data:"))
                    return

    reader = threading.Thread(target=read)
    reader.start()
    assert is_waiting.wait(60)
    commit(client, path, "a", "b")
    reader.join(60)
    assert seen == ["one two"]


def test_the_same_bytes_again_are_204_and_others_409(client: httpx.Client, path: str) -> None:
    assert stage(client, path, "a", b"x").status_code == 204
    assert stage(client, path, "a", b"x").status_code == 204
    answer = stage(client, path, "a", b"y")
    assert (answer.status_code, answer.json()["code"]) == (409, "PART_CONFLICT")


def test_a_commit_of_a_producer(client: httpx.Client, path: str) -> None:
    stamp = {"producer_id": "driver", "producer_epoch": "3", "producer_seq": "0"}
    stage(client, path, "a", b"x")
    first = commit(client, path, "a", **stamp)
    assert first.status_code == 200
    assert (first.headers["producer-epoch"], first.headers["producer-seq"]) == ("3", "0")
    again = commit(client, path, "a", **stamp)
    assert (again.status_code, again.headers["producer-seq"]) == (204, "0")
    assert again.headers["stream-next-offset"] == first.headers["stream-next-offset"]
    stage(client, path, "b", b"y")
    assert commit(client, path, "b", **stamp | {"producer_epoch": "2"}).status_code == 403
    gap = commit(client, path, "b", **stamp | {"producer_seq": "5"})
    assert (gap.status_code, gap.headers["producer-expected-seq"]) == (409, "1")
    assert client.get(path).content == b"x"


def test_a_missing_part_is_409_and_names_it(client: httpx.Client, path: str) -> None:
    stage(client, path, "a", b"x")
    answer = commit(client, path, "a", "b")
    assert (answer.status_code, answer.json()["code"]) == (409, "PART_MISSING")
    assert "part b" in answer.json()["detail"]
    assert client.get(path).content == b""


def test_an_empty_commit_that_closes_is_close_only(client: httpx.Client, path: str) -> None:
    assert commit(client, path).status_code == 400
    for _ in range(2):
        answer = commit(client, path, stream_closed="true")
        assert (answer.status_code, answer.headers["stream-closed"]) == (204, "true")
    refused = stage(client, path, "a", b"x")
    assert (refused.status_code, refused.headers["stream-closed"]) == (409, "true")


def test_a_part_is_deleted_without_its_stream(client: httpx.Client, path: str) -> None:
    stage(client, path, "a", b"x")
    for _ in range(2):
        assert client.delete(path, params={"part": "a"}).status_code == 204
    assert commit(client, path, "a").status_code == 409
    assert client.head(path).status_code == 200
    assert client.delete("/nowhere", params={"part": "a"}).status_code == 404
    assert client.delete(path, params={"part": ""}).status_code == 400
    assert client.head(path).status_code == 200


@pytest.mark.parametrize("id", ["", " ", "a/b", "a\0", "x" * 201, "é", "a,b"])
def test_an_id_that_is_none(client: httpx.Client, path: str, id: str) -> None:
    answer = stage(client, path, id, b"x")
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PART_ID")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"a"',
        b'{"parts": "a"}',
        b'{"parts": [1]}',
        b'{"part": ["a"]}',
        b"{",
        b'{"parts": ["a/b"]}',
        b'{"parts": ["a", "a"]}',
        b'{"parts": ["a"], "more": 1}',
    ],
)
def test_a_commit_that_is_none(client: httpx.Client, path: str, body: bytes) -> None:
    stage(client, path, "a", b"x")
    answer = client.post(path, params={"parts": "commit"}, content=body, headers=JSON)
    assert answer.status_code == 400
    assert client.get(path).content == b""


@pytest.mark.parametrize(
    "query", ["parts=abort", "parts=", "parts=commit&part=a", "part=a&part=b", "parts=commit&parts=commit"]
)
def test_a_query_that_means_nothing(client: httpx.Client, path: str, query: str) -> None:
    assert client.post(f"{path}?{query}", content=b'{"parts": ["a"]}', headers=JSON).status_code == 400
    assert client.post(f"/nowhere?{query}", content=b"x", headers=TEXT).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Stream-Closed": "true"},
        {"Stream-Seq": "a"},
        {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"},
    ],
)
def test_what_belongs_to_the_commit_is_refused_with_a_part(
    client: httpx.Client, path: str, headers: dict[str, str]
) -> None:
    answer = stage(client, path, "a", b"x", **headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "PART_WITH_COMMIT_HEADERS")


def test_a_part_may_come_compressed(client: httpx.Client, path: str) -> None:
    assert stage(client, path, "a", gzip.compress(b"text"), **{"Content-Encoding": "gzip"}).status_code == 204
    assert stage(client, path, "a", b"text").status_code == 204
    body = gzip.compress(json.dumps({"parts": ["a"]}).encode())
    answer = client.post(f"{path}?parts=commit", content=body, headers=JSON | {"Content-Encoding": "gzip"})
    assert answer.status_code == 204
    assert client.get(path).content == b"text"


def test_commits_are_counted_like_appends(client: httpx.Client, path: str) -> None:
    def counted() -> tuple[float, float]:
        lines = client.get("/__ds/metrics").text.splitlines()
        found = dict(line.split(" ") for line in lines if not line.startswith("#"))
        return float(found["millstream_appends_total"]), float(found["millstream_appended_bytes_total"])

    appends, size = counted()
    stage(client, path, "a", b"12345")
    assert counted() == (appends, size)
    commit(client, path, "a")
    assert counted() == (appends + 1, size + 5)


def test_staged_bytes_are_limited() -> None:
    with millstream("--max-staged-bytes", "10") as server, httpx.Client(base_url=server.url) as client:
        client.put("/a", headers=TEXT)
        assert stage(client, "/a", "x", b"123456").status_code == 204
        answer = stage(client, "/a", "y", b"123456")
        assert (answer.status_code, answer.json()["code"]) == (413, "STAGED_TOO_MUCH")
