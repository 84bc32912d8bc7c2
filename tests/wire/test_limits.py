"""Limits on callers: rates and connections, by address and by token (rule H4)."""

import socket
from urllib.parse import urlsplit

import httpx
import jwt
import pytest

from millstream.server.access.limits import RateLimit
from running import Server, millstream
from wire.raw_connection import Wire, chunked, request

TEXT = {"Content-Type": "text/plain"}
SECRET = "a secret that is long enough for HMAC"


def hurry(server: Server, count: int, headers: dict[str, str], path: str = "/x") -> list[httpx.Response]:
    with httpx.Client() as client:
        return [client.get(server.url + path, headers=headers) for _ in range(count)]


def test_a_bucket_gives_a_second_worth_at_once_and_then_fills_up_again() -> None:
    limit = RateLimit("address", 5)
    assert [limit.take(b"a", 100.0).remaining for _ in range(5)] == [4, 3, 2, 1, 0]
    level = limit.take(b"a", 100.0)
    assert level.exceeded
    assert level.reset_s == pytest.approx(0.2)
    assert not limit.take(b"b", 100.0).exceeded
    assert not limit.take(b"a", 100.3).exceeded


def test_an_address_that_asks_too_often_is_told_when_to_come_back() -> None:
    with millstream("--rate-per-address", "5") as server:
        answers = hurry(server, 20, {})
        late = [answer for answer in answers if answer.status_code == 429]
        assert [answer.status_code for answer in answers[:5]] == [404] * 5
        assert late
        for answer in late:
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.headers["ratelimit-policy"] == '"address";q=5;w=1'
            assert answer.headers["ratelimit"] == '"address";r=0;t=1'
            assert answer.json()["code"] == "RATE_LIMITED"
        assert httpx.get(f"{server.url}/__ds/healthz").status_code == 200
        assert 429 in {answer.status_code for answer in hurry(server, 20, {}, "/__ds/streams")}


def test_an_answer_says_what_is_left() -> None:
    with millstream("--rate-per-address", "100", "--rate-per-token", "50", "--auth-secret", SECRET) as server:
        token = jwt.encode({"scope": "write read"}, SECRET, algorithm="HS256")
        made = httpx.put(f"{server.url}/s", headers={"Authorization": f"Bearer {token}"} | TEXT)
        assert made.status_code == 201
        assert made.headers["ratelimit"] == '"address";r=99;t=1, "token";r=49;t=1'
        assert made.headers["ratelimit-policy"] == '"address";q=100;w=1, "token";q=50;w=1'
        refused = httpx.get(f"{server.url}/s")
        assert refused.status_code == 401
        assert refused.headers["ratelimit"].startswith('"address";r=')


def test_a_token_has_a_rate_of_its_own() -> None:
    def bearer(subject: str) -> dict[str, str]:
        token = jwt.encode({"scope": "read", "sub": subject}, SECRET, algorithm="HS256")
        return {"Authorization": f"Bearer {token}"}

    with millstream("--auth-secret", SECRET, "--rate-per-token", "3") as server:
        assert 429 in {answer.status_code for answer in hurry(server, 10, bearer("busy"))}
        assert {answer.status_code for answer in hurry(server, 2, bearer("calm"))} == {404}


LARGE = bytes(2**20)
BY_LENGTH = {"Content_Type": "text/plain", "Content_Length": str(len(LARGE))}
BY_CHUNKS = {"Content_Type": "text/plain", "Transfer_Encoding": "chunked"}


@pytest.mark.parametrize("limit", ["--rate-per-address", "--rate-per-token"])
@pytest.mark.parametrize("framing", [BY_LENGTH, BY_CHUNKS], ids=["length", "chunks"])
def test_a_large_body_is_counted_once_and_refused_by_its_head(limit: str, framing: dict[str, str]) -> None:
    """H4: one request in a thousand seconds; what comes too often is not even read."""
    token = jwt.encode({"scope": "write read"}, SECRET, algorithm="HS256")
    headers = framing | {"Authorization": f"Bearer {token}"}
    body = LARGE if framing is BY_LENGTH else chunked(LARGE)
    with millstream(limit, "0.001", "--auth-secret", SECRET) as server:
        with Wire(server.url) as wire:
            wire.send(request("PUT", "/s", **headers) + body)
            assert wire.answer().status == 201
        with Wire(server.url) as wire:
            begun = body[:100_000] if framing is BY_CHUNKS else b""
            wire.send(request("POST", "/s", **headers) + begun)
            answer = wire.answer()
        assert (answer.status, answer.headers["connection"]) == (429, "close")
        assert answer.headers["ratelimit"].endswith("r=0;t=1000")
        assert "retry-after" in answer.headers


def test_one_address_cannot_take_all_connections() -> None:
    with millstream("--max-connections-per-address", "2") as server:
        place = urlsplit(server.url)
        address = (place.hostname, place.port)
        health = b"GET /__ds/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with socket.create_connection(address) as first, socket.create_connection(address) as second:
            for connection in (first, second):
                connection.sendall(health)
                assert connection.recv(4096).startswith(b"HTTP/1.1 200")
            with socket.create_connection(address) as third:
                assert third.recv(4096).startswith(b"HTTP/1.1 429")
        assert httpx.get(f"{server.url}/__ds/healthz").status_code == 200
