"""What every answer carries, whatever its status: rules H1 to H3."""

import time
from collections.abc import Iterator

import httpx
import pytest

from running import HASTY_MS, ServerFactory, millstream, uvicorn_server
from wire.raw_connection import Wire

SERVERS: dict[str, ServerFactory] = {"native": millstream, "asgi": uvicorn_server}


@pytest.fixture(scope="module", params=SERVERS)
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    start = SERVERS[request.param]
    with start(long_poll_ms=HASTY_MS) as server, httpx.Client(base_url=server.url) as client:
        client.put("/s", content=b"hello", headers={"Content-Type": "text/plain"})
        client.put("/closed", headers={"Stream-Closed": "true"})
        yield client


REQUESTS = {
    200: ("GET", "/s", {}, b""),
    201: ("PUT", "/new-{unique}", {}, b""),
    204: ("POST", "/s", {"Content-Type": "text/plain"}, b"more"),
    304: ("GET", "/s", {"If-None-Match": "*"}, b""),
    400: ("GET", "/s?offset=nonsense", {}, b""),
    404: ("GET", "/nowhere", {}, b""),
    405: ("COPY", "/s", {}, b""),
    409: ("POST", "/closed", {"Content-Type": "application/octet-stream"}, b"x"),
    415: ("POST", "/s", {"Content-Type": "text/plain", "Content-Encoding": "lzma"}, b"x"),
}


@pytest.mark.parametrize("status", REQUESTS)
def test_every_answer_has_the_common_headers(client: httpx.Client, status: int) -> None:
    """H1, H2."""
    method, path, headers, body = REQUESTS[status]
    path = path.format(unique=time.monotonic_ns())
    origin = {"Origin": str(client.base_url).rstrip("/")}  # others may only read without tokens
    answer = client.request(method, path, headers=headers | origin, content=body)
    assert answer.status_code == status
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers
    assert "Stream-Next-Offset".lower() in answer.headers["Access-Control-Expose-Headers"]
    assert "Date" in answer.headers
    if status >= 400:
        problem = answer.json()
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.headers["Cache-Control"] == "no-store"
        assert problem["status"] == status
        assert problem["code"] == problem["code"].upper()
        assert problem["detail"]


def listed(value: str) -> set[str]:
    return {item.strip().lower() for item in value.split(",")}


@pytest.mark.parametrize("path", ["/s", "/nowhere", "/__ds/streams"])
def test_a_preflight_is_answered_also_for_a_missing_stream(client: httpx.Client, path: str) -> None:
    """H1, X1, X6."""
    answer = client.options(
        path, headers={"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    )
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert listed(answer.headers["Access-Control-Allow-Methods"]) >= {"get", "head", "post", "put", "delete"}
    assert listed(answer.headers["Access-Control-Allow-Headers"]) >= {
        "content-type",
        "authorization",
        "if-none-match",
        "if-match",
        "stream-seq",
        "stream-expected-offset",
        "stream-ttl",
        "stream-expires-at",
        "stream-closed",
        "stream-forked-from",
        "stream-fork-offset",
        "stream-fork-sub-offset",
        "producer-id",
        "producer-epoch",
        "producer-seq",
    }
    assert "until" in answer.headers["Millstream-Extensions"]


def test_a_page_may_see_every_header_of_ours(client: httpx.Client) -> None:
    """H1."""
    exposed = listed(client.get("/s").headers["Access-Control-Expose-Headers"])
    assert exposed >= {
        "stream-next-offset",
        "stream-cursor",
        "stream-up-to-date",
        "stream-closed",
        "stream-ttl",
        "stream-expires-at",
        "stream-sse-data-encoding",
        "producer-epoch",
        "producer-seq",
        "producer-expected-seq",
        "producer-received-seq",
        "etag",
        "location",
        "retry-after",
    }


@pytest.mark.parametrize("path", ["/s?offset=-1&live=sse", "/s?offset=now&live=long-poll"])
def test_live_answers_have_the_common_headers_too(client: httpx.Client, path: str) -> None:
    """H1."""
    with client.stream("GET", path) as answer:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("path", ["/nowhere", "/s?offset=nonsense", "/__ds/streams", "/s?offset=-1", "/s"])
def test_a_head_has_no_body(client: httpx.Client, path: str) -> None:
    """X1: nor a length that is not that of the body of a GET."""
    got, asked = client.get(path), client.head(path)
    assert (asked.status_code, asked.content) == (got.status_code, b"")
    assert asked.headers.get("Content-Length", got.headers["Content-Length"]) == got.headers["Content-Length"]
    assert client.get("/s").status_code == 200  # the connection is still in step


def test_refusals_of_the_connection_itself_have_the_common_headers() -> None:
    """H1, H2."""
    with millstream() as server, Wire(server.url) as wire:
        wire.send(b"nonsense\r\n\r\n")
        answer = wire.answer()
    assert answer.status == 400
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["access-control-allow-origin"] == "*"


def test_only_configured_origins_are_welcome() -> None:
    """H1: and caches are told that the answer depends on who asks."""
    with millstream("--cors-origin", "https://one.example", "--cors-origin", "https://two.example") as server:
        httpx.put(server.url + "/s", content=b"hello " * 500, headers={"Content-Type": "text/plain"})
        for origin in ("https://one.example", "https://two.example"):
            answer = httpx.get(server.url + "/s", headers={"Origin": origin})
            assert answer.headers["Access-Control-Allow-Origin"] == origin
            assert listed(answer.headers["Vary"]) == {"origin", "accept-encoding"}
        for origin in ("https://evil.example", "https://one.example.evil", "null", ""):
            answer = httpx.get(server.url + "/s", headers={"Origin": origin})
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert "origin" in listed(answer.headers["Vary"])
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        answer = httpx.options(server.url + "/s", headers={"Origin": "https://one.example"})
        assert answer.headers["Access-Control-Allow-Origin"] == "https://one.example"


@pytest.mark.parametrize(
    ("content_type", "sandboxed"),
    [
        ("text/html", True),
        ("image/svg+xml; charset=utf-8", True),
        ("text/plain", False),
        ("application/json", False),
    ],
)
def test_content_that_a_browser_would_run_is_sandboxed(content_type: str, sandboxed: bool) -> None:
    with millstream() as server:
        url = f"{server.url}/page"
        httpx.put(url, content=b'"x"', headers={"Content-Type": content_type})
        assert (httpx.get(url).headers.get("content-security-policy") == "sandbox") is sandboxed
