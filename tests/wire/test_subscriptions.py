"""Subscriptions over HTTP, beyond the conformance suites: tokens, forms of refusals, many that hang."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import jwt
import pytest

from running import millstream

SECRET = "0123456789abcdef0123456789abcdef"
PULL = {"type": "pull-wake", "pattern": "in/**", "wake_stream": "wake"}
BASE = "/__ds/subscriptions"


def bearer(*scopes: str) -> dict[str, str]:
    token = jwt.encode({"scope": " ".join(scopes), "exp": time.time() + 600}, SECRET, algorithm="HS256")
    return {"authorization": f"Bearer {token}"}


def admin() -> dict[str, str]:
    return bearer("admin")


@pytest.fixture(scope="module")
def guarded() -> Iterator[httpx.Client]:
    """A server with tokens."""
    with millstream("--auth-secret", SECRET) as server, httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with millstream("--webhook-timeout-s", "3") as server, httpx.Client(base_url=server.url) as client:
        yield client


def eventually(what: str, holds: Callable[[], bool], patience_s: float = 20) -> None:
    give_up_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.01)


def test_a_worker_needs_its_own_token_for_what_it_has_claimed(guarded: httpx.Client) -> None:
    """S4: ack and release carry the claim's token, also where all else needs one of the server."""
    own = {**bearer("read", f"write:{BASE}/mine", "write:/wake", "write:/in/*")}
    assert guarded.put("/wake", headers={**own, "content-type": "application/json"}).status_code == 201
    assert guarded.put(f"{BASE}/mine", json=PULL, headers=own).status_code == 201
    assert guarded.put("/in/a", content=b"x", headers={**own, "content-type": "text/plain"}).is_success
    claimed = guarded.post(f"{BASE}/mine/claim", json={"worker": "w"}, headers=own).json()
    body = {"wake_id": claimed["wake_id"], "generation": claimed["generation"], "done": True}
    for wrong in ({}, admin(), {"authorization": "Bearer x"}, {"authorization": f"Basic {claimed['token']}"}):
        answer = guarded.post(f"{BASE}/mine/ack", json=body, headers=wrong)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "TOKEN_INVALID")
        assert "www-authenticate" in answer.headers
    token = {"authorization": f"Bearer {claimed['token']}"}
    assert guarded.get(f"{BASE}/mine", headers=token).status_code == 401
    assert guarded.post(f"{BASE}/other/ack", json=body, headers=token).status_code == 401
    acks = [{"stream": "in/a", "offset": claimed["streams"][0]["tail_offset"]}]
    answer = guarded.post(f"{BASE}/mine/ack", json={**body, "acks": acks}, headers=token)
    assert answer.json() == {"ok": True, "next_wake": False}


@pytest.mark.parametrize(
    ("scopes", "asked", "status"),
    [
        ([], PULL, 401),
        (["read"], PULL, 403),
        ([f"write:{BASE}/*", "write:/wake"], PULL, 403),
        ([f"write:{BASE}/*", "write:/wake", "read:/in/*"], PULL, 403),
        ([f"write:{BASE}/*", "read:/in/**"], PULL, 403),
        ([f"write:{BASE}/other", "write:/wake", "read:/in/**"], PULL, 403),
        ([f"write:{BASE}/*", "write:/wake", "read:/in/**"], PULL, 201),
        ([f"write:{BASE}/*", "write:/wake", "read:/in/**"], {**PULL, "pattern": "in/*/x"}, 201),
        ([f"write:{BASE}/*", "write:/wake", "read:/in/**"], {**PULL, "pattern": "**"}, 403),
        ([f"write:{BASE}/*", "write:/wake", "read:/in/**"], {**PULL, "streams": ["out/a"]}, 403),
        (["admin"], PULL, 201),
    ],
)
def test_a_subscription_needs_what_it_uses(
    guarded: httpx.Client, scopes: list[str], asked: dict[str, Any], status: int
) -> None:
    """S1: nobody learns of streams, or writes to one, by way of a subscription."""
    id = f"{BASE}/s{abs(hash((tuple(scopes), str(asked))))}"
    answer = guarded.put(id, json=asked, headers=bearer(*scopes) if scopes else {})
    assert answer.status_code == status, answer.text
    if status != 201:
        assert set(answer.json()["error"]) >= {"code", "message"}
        assert guarded.get(id, headers=admin()).status_code == 404


def test_a_listing_shows_what_the_token_may_read(guarded: httpx.Client) -> None:
    for id in ("list-a", "list-b", "list-c"):
        assert guarded.put(f"{BASE}/{id}", json=PULL, headers=admin()).is_success
    found, cursor = [], ""
    while cursor is not None:
        page = guarded.get(
            BASE, params={"limit": 1, "cursor": cursor}, headers=bearer(f"read:{BASE}/list-*")
        ).json()
        found += [one["id"] for one in page["subscriptions"]]
        cursor = page["cursor"]
    assert found == ["list-a", "list-b", "list-c"]
    assert "streams" not in page
    assert guarded.get(BASE).json()["error"]["code"] == "MISSING_TOKEN"


def test_keys_are_rotated_by_administrators(guarded: httpx.Client) -> None:
    """S2."""
    before = [key["kid"] for key in guarded.get("/__ds/jwks.json").json()["keys"]]
    assert guarded.post("/__ds/keys/rotate", headers=bearer("read", "write")).status_code == 403
    answer = guarded.post("/__ds/keys/rotate", headers=admin()).json()
    assert answer["retired"] == before
    after = [key["kid"] for key in guarded.get("/v1/stream/__ds/jwks.json").json()["keys"]]
    assert after == [answer["kid"], *before]


def test_two_roots_have_subscriptions_of_their_own(client: httpx.Client) -> None:
    """P2, S1: paths are relative to the root below which a subscription was made."""
    client.put("/v1/stream/wake", headers={"content-type": "application/json"})
    assert client.put(f"/v1/stream{BASE}/both", json=PULL).json()["root"] == "/v1/stream/"
    assert client.get(f"{BASE}/both").status_code == 404
    client.put("/v1/stream/in/x", content=b"1", headers={"content-type": "text/plain"})
    (event,) = client.get("/v1/stream/wake").json()
    assert (event["subscription_id"], event["stream"]) == ("both", "in/x")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("PUT", "/none", b"{}", 400, "INVALID_REQUEST"),
        ("PUT", f"/{'x' * 201}", json.dumps(PULL).encode(), 400, "INVALID_REQUEST"),
        ("PUT", "/large", b"[" + b" " * 2**21, 413, "BODY_TOO_LARGE"),
        ("GET", "/none", b"", 404, "SUBSCRIPTION_NOT_FOUND"),
        ("GET", "?limit=0", b"", 400, "INVALID_REQUEST"),
        ("POST", "/none/claim", b'{"worker": "w"}', 404, "SUBSCRIPTION_NOT_FOUND"),
        ("POST", "/none/claim", b'{"worker": ""}', 400, "INVALID_REQUEST"),
        ("POST", "/none/streams", b'{"streams": ["a"]}', 404, "SUBSCRIPTION_NOT_FOUND"),
        ("POST", "/none/streams", b'{"streams": []}', 400, "INVALID_REQUEST"),
        ("POST", "/none/retry", b"", 404, "SUBSCRIPTION_NOT_FOUND"),
        ("POST", "/none/ack", b"{}", 401, "TOKEN_INVALID"),
    ],
)
def test_refusals_have_the_form_of_these_routes(
    client: httpx.Client, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    """S4."""
    answer = client.request(method, BASE + path, content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_page_of_another_origin_cannot_subscribe(client: httpx.Client) -> None:
    headers = {"origin": "https://evil.example"}
    answer = client.put(f"{BASE}/evil", json=PULL, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ORIGIN_NOT_ALLOWED")


# -- Webhooks --------------------------------------------------------------------------------------


@contextmanager
def receiving(answer: Callable[[int], tuple[int, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """A receiver of webhooks: its URL, and what it got."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, reply = answer(len(got))
            got.append(json.loads(body))
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", got
        finally:
            server.shutdown()


def test_what_went_wrong_is_shown_and_can_be_tried_again_at_once(client: httpx.Client) -> None:
    """S1."""
    with receiving(lambda number: (503, {}) if number < 3 else (200, {"done": True})) as (url, got):
        path = f"{BASE}/retried"
        client.put(path, json={"type": "webhook", "pattern": "retried/*", "webhook": {"url": url}})
        client.put("/retried/a", content=b"x", headers={"content-type": "text/plain"})
        eventually("two failures", lambda: client.get(path).json()["attempts"] >= 2)
        shown = client.get(path).json()
        assert (shown["status"], shown["pending_streams"], shown["pending_bytes"]) == ("failed", 1, 1)
        assert shown["last_error"] == "The receiver answered with status 503."
        assert shown["next_attempt_at"] > shown["last_error_at"]
        for _ in range(2):
            count = len(got)
            assert client.post(f"{path}/retry").status_code == 204
            eventually("another attempt", lambda count=count: len(got) > count)  # type: ignore[misc]
        eventually("success", lambda: client.get(path).json()["status"] == "active")
        assert len({(wake["wake_id"], wake["generation"]) for wake in got}) == 1
        text = client.get("/__ds/metrics").text
        assert 'millstream_webhook_attempts_total{outcome="status"} 3.0' in text


def test_a_thousand_webhooks_that_hang_hold_up_nobody_else(client: httpx.Client) -> None:
    """S3: each other receiver is called as if they were not there."""
    with socket.socket() as hanging, receiving(lambda _: (200, {"done": True})) as (url, got):
        hanging.bind(("0.0.0.0", 0))
        hanging.listen(2048)  # accepts, and never answers
        port = hanging.getsockname()[1]
        for number in range(1000):
            target = f"http://127.0.0.{number % 250 + 1}:{port}/{number}"
            asked = {"type": "webhook", "pattern": "hang/*", "webhook": {"url": target}}
            assert client.put(f"{BASE}/hang{number}", json=asked).status_code == 201
        asked = {"type": "webhook", "pattern": "prompt/*", "webhook": {"url": url}}
        client.put(f"{BASE}/prompt", json=asked)
        client.put("/hang/a", content=b"x", headers={"content-type": "text/plain"})
        metric = "millstream_webhooks_under_way "

        def under_way() -> float:
            text = client.get("/__ds/metrics").text
            return float(text.split(f"\n{metric}")[1].split()[0])

        eventually("many under way", lambda: under_way() > 200)
        for number in range(5):
            client.put(f"/prompt/{number}", content=b"x", headers={"content-type": "text/plain"})
            eventually("a webhook", lambda number=number: len(got) > number)  # type: ignore[misc]
            assert under_way() > 100, "they hang no more, and prove nothing"
        for number in range(1000):
            client.delete(f"{BASE}/hang{number}")
