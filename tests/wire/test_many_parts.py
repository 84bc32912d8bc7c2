"""Parts of many streams in one request (rule X5), on the native server and on the ASGI app."""

import base64
import json
import struct
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import jwt
import pytest

from running import millstream, uvicorn_server

TEXT = {"Content-Type": "text/plain"}
RAW = {"Content-Type": "application/vnd.millstream.parts"}
SECRET = "a secret that is long enough for HMAC"
SERVERS = {"native": millstream, "asgi": uvicorn_server}
Outcome = dict[str, Any]


@pytest.fixture(scope="module", params=SERVERS)
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    with SERVERS[request.param]() as server, httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


@pytest.fixture
def base(client: httpx.Client) -> str:
    base = f"/many/{uuid.uuid4()}"
    for name in "ab":
        assert client.put(f"{base}/{name}", headers=TEXT).status_code == 201
    return base


def staged(path: str, part: str, data: bytes, content_type: str = "text/plain") -> dict[str, str]:
    return {"path": path, "part": part, "contentType": content_type, "bytes": base64.b64encode(data).decode()}


def post(client: httpx.Client, action: str, *entries: Any) -> list[Outcome]:
    answer = client.post(f"/__ds/parts?{action}", json={"entries": entries})
    assert answer.status_code == 200, answer.text
    found: list[Outcome] = answer.json()["outcomes"]
    assert len(found) == len(entries)
    return found


def test_many_streams_are_written_by_two_requests(client: httpx.Client, base: str) -> None:
    stages = [staged(f"{base}/{name}", "p", name.encode() * 3) for name in "ab"]
    assert post(client, "stage", *stages) == [{"status": 204}, {"status": 204}]
    assert client.get(f"{base}/a").content == b""
    commits = [{"path": f"{base}/{name}", "parts": ["p"]} for name in "ab"]
    tail = "0000000000000000_0000000000000003"
    assert post(client, "commit", *commits) == [{"status": 204, "nextOffset": tail}] * 2
    assert [client.get(f"{base}/{name}").content for name in "ab"] == [b"aaa", b"bbb"]
    assert [one["code"] for one in post(client, "commit", *commits)] == ["PART_MISSING"] * 2


def test_raw_bytes_are_the_same(client: httpx.Client, base: str) -> None:
    body = b""
    for name in "ab":
        head = {"path": f"{base}/{name}", "part": "p", "contentType": "text/plain"}
        written = json.dumps(head).encode()
        body += struct.pack(">I", len(written)) + written + struct.pack(">I", 2) + b"\xff\x00"
    answer = client.post("/__ds/parts?stage", content=body, headers=RAW)
    assert answer.json() == {"outcomes": [{"status": 204}] * 2}
    post(client, "commit", {"path": f"{base}/a", "parts": ["p"]})
    assert client.get(f"{base}/a").content == b"\xff\x00"


def test_each_entry_is_what_it_would_be_alone(client: httpx.Client, base: str) -> None:
    client.post(f"{base}/b", headers={"Stream-Closed": "true"})
    found = post(
        client,
        "stage",
        staged(f"{base}/a", "p", b"x"),
        staged(f"{base}/a", "p", b"y"),
        staged(f"{base}/a", "q", b"x", "application/json"),
        staged(f"{base}/b", "p", b"x"),
        staged(f"{base}/nowhere", "p", b""),
        staged(f"{base}/a", "r", b""),
        staged("/__ds/parts", "p", b"x"),
        {"path": f"{base}/a"},
    )
    assert [(one["status"], one.get("code")) for one in found] == [
        (204, None),
        (409, "PART_CONFLICT"),
        (400, "INVALID_JSON"),
        (409, "STREAM_CLOSED"),
        (404, "NOT_FOUND"),
        (400, "EMPTY_APPEND"),
        (400, "RESERVED_PATH"),
        (400, "INVALID_ENTRY"),
    ]
    assert found[3]["closed"]
    assert found[3]["nextOffset"].endswith("_0000000000000000")


def test_a_commit_has_a_producer_and_a_fingerprint(client: httpx.Client, base: str) -> None:
    path = f"{base}/a"
    producer = {"id": "query/0", "epoch": 4, "seq": 0}
    commit = {"path": path, "parts": ["p"], "producer": producer, "fingerprint": "10 rows"}
    post(client, "stage", staged(path, "p", b"x"))
    assert post(client, "commit", commit)[0]["status"] == 200
    assert post(client, "commit", commit)[0]["status"] == 204
    other = post(client, "commit", commit | {"fingerprint": "12 rows"})[0]
    assert (other["status"], other["code"]) == (409, "FINGERPRINT_DIFFERS")
    assert "10 rows" in other["detail"]
    headers = {"Producer-Id": "query/0", "Producer-Epoch": "4", "Producer-Seq": "0"}
    body = {"parts": ["p"], "fingerprint": "12 rows"}
    alone = client.post(path, params={"parts": "commit"}, json=body, headers=headers)
    assert (alone.status_code, alone.json()["code"]) == (409, "FINGERPRINT_DIFFERS")
    same = client.post(
        path, params={"parts": "commit"}, json=body | {"fingerprint": "10 rows"}, headers=headers
    )
    assert same.status_code == 204
    stale = commit | {"producer": producer | {"epoch": 3}}
    assert post(client, "commit", stale)[0]["code"] == "STALE_EPOCH"


def test_a_commit_can_expect_and_close(client: httpx.Client, base: str) -> None:
    path = f"{base}/a"
    post(client, "stage", staged(path, "p", b"x"))
    elsewhere = {"path": path, "parts": ["p"], "expectedOffset": "0000000000000000_0000000000000009"}
    assert post(client, "commit", elsewhere)[0]["code"] == "EXPECTED_OFFSET_CONFLICT"
    here = {"path": path, "parts": ["p"], "expectedOffset": "0000000000000000_0000000000000000"}
    [done] = post(client, "commit", here | {"closed": True})
    assert (done["status"], done["closed"]) == (204, True)
    [closed] = post(client, "commit", {"path": path, "parts": [], "closed": True})
    assert (closed["status"], closed["closed"]) == (204, True)


@pytest.mark.parametrize(
    ("query", "body"), [("", b'{"entries":[]}'), ("stage", b"[]"), ("commit", b"x"), ("stage&commit", b"{}")]
)
def test_a_body_that_is_none_is_400(client: httpx.Client, query: str, body: bytes) -> None:
    answer = client.post(f"/__ds/parts?{query}", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARTS")


def test_only_post_is_answered(client: httpx.Client) -> None:
    answer = client.get("/__ds/parts")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST, OPTIONS")
    assert client.options("/__ds/parts").status_code == 204


def test_others_are_answered_while_thousands_of_entries_are_decided(client: httpx.Client, base: str) -> None:
    entries = [staged(f"{base}/a", f"p{number}", b"x" * 100) for number in range(5000)]
    waits: list[float] = []
    found: list[Outcome] = []
    sending = threading.Thread(target=lambda: found.extend(post(client, "stage", *entries)))
    sending.start()
    while sending.is_alive():
        began = time.monotonic()
        client.get("/__ds/healthz")
        waits.append(time.monotonic() - began)
    sending.join()
    assert [one["status"] for one in found] == [204] * 5000
    assert len(waits) > 3


def test_streams_are_looked_up_by_name(client: httpx.Client, base: str) -> None:
    paths = [f"{base}/a", f"{base}/nowhere", f"{base}/b", f"{base}/a", "no slash"]
    answer = client.post("/__ds/streams", json={"paths": paths})
    assert answer.status_code == 200
    found = answer.json()["streams"]
    assert [one["path"] for one in found] == [f"{base}/a", f"{base}/b"]
    listed = client.get("/__ds/streams", params={"prefix": f"{base}/"}).json()["streams"]
    assert found == listed
    assert client.post("/__ds/streams", content=b"[]").json()["code"] == "INVALID_PATHS"
    too_many = {"paths": [str(number) for number in range(10_001)]}
    assert client.post("/__ds/streams", json=too_many).json()["code"] == "INVALID_PATHS"


def bearer(scope: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {jwt.encode({'scope': scope}, SECRET, algorithm='HS256')}"}


def test_entries_are_authorized_one_by_one() -> None:
    with millstream("--auth-secret", SECRET) as server, httpx.Client(base_url=server.url) as client:
        admin = bearer("admin")
        for name in ("mine", "yours"):
            client.put(f"/{name}/s", headers=TEXT | admin)
        entries = [staged(f"/{name}/s", "p", b"x") for name in ("mine", "yours", "nobodys")]
        mine = bearer("write:/mine/**")
        answer = client.post("/__ds/parts?stage", json={"entries": entries}, headers=mine)
        outcomes = answer.json()["outcomes"]
        assert [one["status"] for one in outcomes] == [204, 403, 403]
        reader = bearer("read:/mine/**")
        refused = client.post("/__ds/parts?stage", json={"entries": entries}, headers=reader)
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
        assert client.post("/__ds/parts?stage", json={"entries": entries}).status_code == 401
        paths = {"paths": ["/mine/s", "/yours/s"]}
        listed = client.post("/__ds/streams", json=paths, headers=reader).json()["streams"]
        assert [one["path"] for one in listed] == ["/mine/s"]
        assert client.post("/__ds/streams", json=paths, headers=mine).status_code == 403
