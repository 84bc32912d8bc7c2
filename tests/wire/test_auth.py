"""Tokens: who may do what, through the wire.

A token for one stream never reads another: by no method, no mode, no fork, no listing.
"""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from running import Server, millstream

SECRET = "a secret that is long enough for HMAC"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def public_key(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ed25519PrivateKey, Path]:
    private = Ed25519PrivateKey.generate()
    path = tmp_path_factory.mktemp("keys") / "ed25519.pem"
    path.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, path


@pytest.fixture(scope="module")
def server(public_key: tuple[Ed25519PrivateKey, Path]) -> Iterator[Server]:
    with millstream("--auth-secret", SECRET, "--auth-key", str(public_key[1])) as running:
        admin = {**JSON, **bearer("admin")}
        for name in ("a", "b"):
            httpx.put(f"{running.url}/{name}", content=b'["x"]', headers=admin).raise_for_status()
        yield running


def token(scope: object, **claims: object) -> str:
    return jwt.encode({"scope": scope, **claims}, SECRET, algorithm="HS256")


def bearer(scope: object, **claims: object) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(scope, **claims)}"}


def segment(data: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


def signed_with(key: bytes, header: dict[str, str]) -> str:
    text = f"{segment(header)}.{segment({'scope': 'admin'})}"
    signature = hmac.new(key, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def test_a_request_without_a_token_is_told_to_send_one(server: Server) -> None:
    answer = httpx.get(f"{server.url}/a")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["code"] == "MISSING_TOKEN"


@pytest.mark.parametrize("scope", ["read", "read:/a", "read:/*", "write read:/a", "admin", ["read:/a"]])
def test_a_scope_that_covers_the_stream_may_read_it(server: Server, scope: object) -> None:
    answer = httpx.get(f"{server.url}/a", headers=bearer(scope))
    assert (answer.status_code, answer.text) == (200, '["x"]')


@pytest.mark.parametrize("scope", ["", "write", "read:/b", "read:/a/*", "read:", "reading", "read:/A"])
def test_a_scope_that_does_not_cover_the_stream_reads_nothing(server: Server, scope: str) -> None:
    answer = httpx.get(f"{server.url}/a", headers=bearer(scope))
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("scope", ["read", "write:/b"])
def test_parts_need_the_right_to_write(server: Server, scope: str) -> None:
    with httpx.Client(base_url=server.url, headers={**JSON, **bearer(scope)}) as client:
        assert client.post("/a?part=x", content=b"1").status_code == 403
        assert client.post("/a?parts=commit", content=b'{"parts": ["x"]}').status_code == 403
        assert client.delete("/a?part=x").status_code == 403


@pytest.mark.parametrize("scope", ["read", "write:/b"])
def test_changing_and_trimming_need_the_right_to_write(server: Server, scope: str) -> None:
    """X10."""
    with httpx.Client(base_url=server.url, headers=bearer(scope)) as client:
        assert client.patch("/a", headers={"Stream-TTL": "1"}).status_code == 403
        assert client.post("/a?trim=now").status_code == 403


def test_a_key_pair_proves_a_token_too(server: Server, public_key: tuple[Ed25519PrivateKey, Path]) -> None:
    made = jwt.encode({"scope": "read"}, public_key[0], algorithm="EdDSA")
    assert httpx.get(f"{server.url}/a", headers={"Authorization": f"Bearer {made}"}).status_code == 200


def test_a_token_that_nothing_proves_is_refused(
    server: Server, public_key: tuple[Ed25519PrivateKey, Path]
) -> None:
    good = token("admin")
    now = int(time.time())
    forged = {
        "changed": good[:-2] + ("AA" if good[-2:] != "AA" else "BB"),
        "alg none": f"{segment({'alg': 'none'})}.{segment({'scope': 'admin'})}.",
        "public key as HMAC": signed_with(public_key[1].read_bytes(), {"alg": "HS256"}),
        "empty key": signed_with(b"", {"alg": "HS256"}),
        "kid of a file": signed_with(b"", {"alg": "HS256", "kid": "../../../dev/null"}),
        "expired": token("admin", exp=now - 10),
        "not yet": token("admin", nbf=now + 600),
        "garbage": "x.y.z",
    }
    for what, made in forged.items():
        answer = httpx.get(f"{server.url}/a", headers={"Authorization": f"Bearer {made}"})
        assert answer.status_code == 401, what
        assert made not in answer.text, what


METHODS = [
    ("GET", "/b?offset=-1"),
    ("GET", "/b?offset=now"),
    ("GET", "/b?offset=-1&live=long-poll"),
    ("GET", "/b?offset=-1&live=sse"),
    ("HEAD", "/b"),
    ("HEAD", "/b?offset=-1&limit=1"),
    ("POST", "/b"),
    ("POST", "/b?trim=now"),
    ("PUT", "/b"),
    ("PATCH", "/b"),
    ("DELETE", "/b"),
]


@pytest.mark.parametrize(("method", "target"), METHODS)
def test_a_token_for_one_stream_does_nothing_to_another(server: Server, method: str, target: str) -> None:
    everything_on_a = bearer("read:/a write:/a")
    answer = httpx.request(method, server.url + target, headers={**JSON, **everything_on_a})
    assert answer.status_code == 403


def test_a_fork_needs_the_right_to_read_its_source(server: Server) -> None:
    fork = {"Stream-Forked-From": "/b"}
    refused = httpx.put(f"{server.url}/mine/1", headers={**fork, **bearer("read:/mine/* write:/mine/*")})
    assert refused.status_code == 403
    allowed = httpx.put(f"{server.url}/mine/1", headers={**fork, **bearer("read:/b write:/mine/*")})
    assert allowed.status_code == 201


def test_an_entity_tag_tells_nothing_about_a_stream_that_may_not_be_read(server: Server) -> None:
    tag = httpx.get(f"{server.url}/b", headers=bearer("read")).headers["etag"]
    answer = httpx.get(f"{server.url}/b", headers={"If-None-Match": tag, **bearer("read:/a")})
    assert answer.status_code == 403


def test_the_listing_shows_what_may_be_read(server: Server) -> None:
    listed = httpx.get(f"{server.url}/__ds/streams", headers=bearer("read:/a")).json()
    assert [stream["path"] for stream in listed["streams"]] == ["/a"]
    assert httpx.get(f"{server.url}/__ds/streams").status_code == 401


def test_g6_what_needed_a_token_is_private_to_caches(server: Server) -> None:
    for _ in range(2):  # the second answer may come from memory
        answer = httpx.get(f"{server.url}/a", headers=bearer("read"))
        assert answer.headers["cache-control"].startswith("private")


def test_a_preflight_needs_no_token(server: Server) -> None:
    assert httpx.options(f"{server.url}/a").status_code == 204


def test_live_reads_end_when_their_token_does(server: Server) -> None:
    soon = bearer("read", exp=time.time() + 1.5)
    with httpx.stream("GET", f"{server.url}/a?offset=now&live=sse", headers=soon, timeout=10) as events:
        assert events.status_code == 200
        events.read()  # ends by itself, long before the 60 s of an event stream
    assert httpx.get(f"{server.url}/a", headers=soon).status_code == 401
