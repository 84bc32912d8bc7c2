"""From a server by its URL: ours, and the public reference server."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import forking
from cli.commands import TIMEOUT_S, Ended, environment
from millstream.migration import servers
from millstream.store.log.tools.check import verify
from postgres.cluster import shared
from python_client.conftest import reference
from running import Server, durable_millstream, millstream

TOLD = (
    "content-type",
    "stream-next-offset",
    "stream-closed",
    "stream-ttl",
    "stream-expires-at",
    "stream-retain-bytes",
    "stream-earliest-offset",
    "stream-attributes",
    "stream-first-time",
    "stream-last-time",
)


def migrate(*arguments: str) -> Ended:
    command = [*forking.COMMAND, "migrate", *arguments]
    done = forking.run(command, environment=environment(), timeout_s=TIMEOUT_S)
    return Ended(done.returncode, done.stdout, done.stderr.decode())


def fill(url: str) -> None:
    with httpx.Client(base_url=url) as http:
        text, octets = {"content-type": "text/plain"}, {"content-type": "application/octet-stream"}
        messages = {"content-type": "application/json"}
        http.put("/chat/1", headers=messages).raise_for_status()
        for number in range(30):
            http.post("/chat/1", headers=messages, json=[{"n": number, "ü": 10**30}]).raise_for_status()
        http.put("/a b/ü", headers={**text, "stream-ttl": "100000"}, content="grüße".encode())
        http.put("/file", headers=octets).raise_for_status()
        for number in range(3):
            http.post("/file", headers=octets, content=bytes([number]) * 300_000).raise_for_status()
        http.put("/over", headers={**text, "stream-closed": "true"}, content=b"x").raise_for_status()
        http.put("/none", headers=text).raise_for_status()


def seen(url: str, path: str) -> tuple[dict[str, str], bytes]:
    """What clients see of a stream."""
    head = httpx.head(url + path)
    assert head.status_code == 200, (path, head.status_code)
    body, offset = b"", "-1"
    while True:
        read = httpx.get(url + path, params={"offset": offset})
        read.raise_for_status()
        body += read.content
        offset = read.headers["stream-next-offset"]
        if read.headers.get("stream-up-to-date") == "true":
            break
    return {name: head.headers[name] for name in TOLD if name in head.headers}, body


PATHS = ("/chat/1", "/a b/ü", "/file", "/over", "/none")


@pytest.fixture
def source() -> Iterator[Server]:
    with durable_millstream("--max-chunk-bytes", "100000") as server:
        fill(server.url)
        text = {"content-type": "text/plain"}
        noted = {"stream-attributes": '{"team":"a"}', "stream-retain-bytes": "100000"}
        httpx.put(f"{server.url}/trimmed", headers={**text, **noted}).raise_for_status()
        for _ in range(3):
            last = httpx.post(f"{server.url}/trimmed", headers=text, content=b"x" * 1000)
        offset = last.headers["stream-next-offset"]
        httpx.post(f"{server.url}/trimmed", headers=text, content=b"rest").raise_for_status()
        httpx.post(f"{server.url}/trimmed", params={"trim": offset}).raise_for_status()
        httpx.put(f"{server.url}/fork", headers={"stream-forked-from": "/over"}).raise_for_status()
        yield server


@pytest.mark.parametrize("to_database", [False, True])
def test_our_server_by_its_url(source: Server, tmp_path: Path, to_database: bool) -> None:
    cluster = shared() if to_database else None
    place = cluster.url(cluster.new_schema()) if cluster else str(tmp_path / "new")
    paths = (*PATHS, "/trimmed", "/fork")
    for run in range(2):  # again, when all of it is there: nothing is doubled
        ended = migrate(source.url, place, "--output", "json")
        assert ended.code == 0, ended.err
        *streams, summary = ended.records
        assert {stream["stream"] for stream in streams} == set(paths)
        assert all(len(str(stream["sha256"])) == 64 for stream in streams)
        assert (summary["streams"], summary["copied"]) == (7, 0 if run else 7)
        told = dict(summary["notKept"])  # type: ignore[call-overload]
        assert servers.NO_PRODUCERS in told and servers.NO_TIMES not in told
        assert servers.NO_OFFSETS not in told
        assert told[servers.NO_FORKS] == 1
    store = ("--store", place) if to_database else ("--store", "log", "--data", place)
    with millstream(*store, "--max-chunk-bytes", "100000") as server:
        for path in paths:
            assert seen(server.url, path) == seen(source.url, path), path
    if not to_database:
        assert verify(Path(place)).is_sound


def test_the_public_reference_server(tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("".join(f"{path}\n" for path in PATHS))
    with reference() as theirs:
        fill(theirs.url)
        refused = migrate(theirs.url, str(tmp_path / "new"))
        assert refused.code == 1
        assert "--names FILE" in refused.err
        ended = migrate(theirs.url, str(tmp_path / "new"), "--names", str(names), "--output", "json")
        assert ended.code == 0, ended.err
        told = dict(ended.records[-1]["notKept"])  # type: ignore[call-overload]
        assert {servers.NO_PRODUCERS, servers.NO_TIMES} <= set(told)
        with millstream("--store", "log", "--data", str(tmp_path / "new")) as ours:
            for path in PATHS:
                (head, body), (their_head, their_body) = seen(ours.url, path), seen(theirs.url, path)
                if path == "/chat/1":
                    assert json.loads(body) == json.loads(their_body)
                else:
                    assert body == their_body
                for name in ("content-type", "stream-closed", "stream-ttl"):
                    assert head.get(name) == their_head.get(name), (path, name)


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    for words, expected in (
        ((str(tmp_path / "nothing"), str(tmp_path / "new")), "is not a data folder"),
        (("http://127.0.0.1:1", str(tmp_path / "new")), "http://127.0.0.1:1 cannot be reached"),
        ((str(tmp_path), "http://127.0.0.1:1"), "A migration goes to a data folder or to a database"),
        (("postgres://nobody@127.0.0.1:1/x", str(tmp_path / "new")), "cannot be reached"),
    ):
        ended = migrate(*words)
        assert ended.code == 1, words
        assert expected in ended.err and "Traceback" not in ended.err
        assert len(ended.err.strip().splitlines()) == 1
