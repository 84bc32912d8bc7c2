"""Who may use the streams of an application: this machine, tokens, or whoever the application lets in."""

import asyncio
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from millstream.asgi import MillstreamApp
from running import Server, free_port, listening_on, started
from wire import guarded

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it will want another HTTP client
    from starlette.testclient import TestClient

TESTS = Path(__file__).parent.parent
TEXT = {"Content-Type": "text/plain"}


@contextmanager
def application(name: str, *options: str, url: str = "") -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", f"wire.guarded:{name}", "--app-dir", str(TESTS)]
    command += ["--host", "0.0.0.0", "--port", str(port), "--log-level", "warning", *options]
    with started(command, listening_on(port)) as server:
        yield server


def own_address() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


def elsewhere(server: Server) -> str:
    return server.url.replace("127.0.0.1", own_address()) + "/streams"


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_without_tokens_only_this_machine_is_answered(loop: str) -> None:
    with application("plain", "--loop", loop) as server:
        assert httpx.put(f"{server.url}/streams/a", headers=TEXT).status_code == 201
        far = elsewhere(server)
        for method, path in [("GET", "/a?offset=-1"), ("PUT", "/b"), ("POST", "/a"), ("DELETE", "/a")]:
            refused = httpx.request(method, far + path)
            assert (refused.status_code, refused.json()["code"]) == (403, "NOT_LOCAL"), method
        assert "insecure=True" in refused.json()["detail"]
        assert "authorize" in refused.json()["detail"]
        for control in ("streams", "access", "metrics", "server", "history"):
            assert httpx.get(f"{far}/__ds/{control}").status_code == 403, control
        assert httpx.get(far + "/__ds/readyz").status_code == 200  # a load balancer asks it from elsewhere
        assert httpx.get(f"{server.url}/streams/a").status_code == 200


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "X-Real-IP", "Via"])
def test_a_client_behind_a_proxy_is_not_on_this_machine(name: str) -> None:
    """The proxy is; and who it speaks for could write anything into the header."""
    with TestClient(guarded.plain, client=("127.0.0.1", 9)) as client:
        refused = client.put("/streams/a", headers={name: "127.0.0.1"})
    assert (refused.status_code, refused.json()["code"]) == (403, "NOT_LOCAL")


def test_insecure_answers_everybody() -> None:
    with application("insecure") as server:
        assert httpx.put(elsewhere(server) + "/a", headers=TEXT).status_code == 201


def test_with_tokens_the_token_decides() -> None:
    with application("secret") as server:
        assert httpx.put(elsewhere(server) + "/a").status_code == 401


def test_a_unix_socket_is_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "s"

    def is_bound(server: Server) -> None:
        server.wait_until(path.exists)

    command = [sys.executable, "-m", "uvicorn", "wire.guarded:plain", "--app-dir", str(TESTS)]
    transport = httpx.HTTPTransport(uds=str(path))
    with (
        started([*command, "--uds", str(path)], is_bound),
        httpx.Client(transport=transport, base_url="http://localhost/streams") as client,
    ):
        assert client.put("/a", headers=TEXT).status_code == 201
        assert client.put("/a", headers={"X-Forwarded-For": "192.0.2.7"}).status_code == 403


@pytest.mark.parametrize(
    ("client", "server", "status"),
    [
        (("testclient", 50_000), ("testserver", 80), 201),
        (("::1", 9), ("::1", 80), 201),
        (("127.8.9.1", 9), ("127.0.0.1", 80), 201),
        (("192.0.2.7", 9), ("192.0.2.1", 80), 403),
        (("localhost.example", 9), ("192.0.2.1", 80), 403),
        (None, ("192.0.2.1", 80), 403),
        (None, None, 403),
        (None, ("/run/streams.sock", None), 201),
    ],
)
def test_what_counts_as_this_machine(client: Any, server: Any, status: int) -> None:
    app = MillstreamApp(store="memory")
    assert exchange(app, client=client, server=server)[0]["status"] == status


def exchange(app: Any, **scope: Any) -> list[Any]:
    """Send one PUT to an application, with the scope that a server gives it."""
    sent: list[Any] = []

    async def main() -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        await app({"type": "http", "method": "PUT", "path": "/a", "headers": [], **scope}, receive, send)
        await app.close()

    asyncio.run(main())
    return sent


# -- The application decides ---------------------------------------------------------------------


@pytest.fixture(scope="module", params=["uvicorn", "TestClient"])
def authorized(request: pytest.FixtureRequest) -> Iterator[Callable[..., httpx.Response]]:
    """Sends a request as a user."""

    def sender(client: httpx.Client) -> Callable[..., httpx.Response]:
        def send(method: str, path: str, user: str = "", **options: Any) -> httpx.Response:
            headers = {**TEXT, "X-User": user, **options.pop("headers", {})}
            return client.request(method, f"/streams{path}", headers=headers, **options)

        return send

    if request.param == "TestClient":
        with TestClient(guarded.authorized) as client:
            yield sender(client)
        return
    with application("authorized") as server, httpx.Client(base_url=server.url) as client:
        yield sender(client)


def test_the_application_decides_about_every_stream(authorized: Callable[..., httpx.Response]) -> None:
    assert authorized("PUT", "/ann/1", "ann", content=b"hi").status_code == 201
    read = authorized("GET", "/ann/1", "ann")
    assert (read.status_code, read.content) == (200, b"hi")
    assert "no-store" in read.headers["Cache-Control"] or "private" in read.headers["Cache-Control"]
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        refused = authorized(method, "/ann/1", "bob", content=b"x" if method in ("PUT", "POST") else None)
        assert refused.status_code == 403, method
    assert "application" in authorized("GET", "/ann/1", "bob").json()["detail"]
    assert authorized("GET", "/ann/1").status_code == 403
    assert authorized("GET", "/ann/1", "unknown").status_code == 403  # nobody else could decide


def test_a_large_body_is_refused_before_it_is_read(authorized: Callable[..., httpx.Response]) -> None:
    refused = authorized("PUT", "/ann/large", "bob", content=bytes(1024 * 1024))
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


def test_a_fork_needs_its_source_too(authorized: Callable[..., httpx.Response]) -> None:
    """F1."""
    authorized("PUT", "/ann/source", "ann", content=b"secret")
    stolen = authorized("PUT", "/bob/fork", "bob", headers={"Stream-Forked-From": "/streams/ann/source"})
    assert stolen.status_code == 403
    own = authorized("PUT", "/ann/fork", "ann", headers={"Stream-Forked-From": "/streams/ann/source"})
    assert own.status_code == 201


def test_scopes_are_an_answer_too(authorized: Callable[..., httpx.Response]) -> None:
    authorized("PUT", "/shared/1", "shared", content=b"for all")
    assert authorized("GET", "/shared/1", "reader").content == b"for all"
    assert authorized("POST", "/shared/1", "reader", content=b"x").status_code == 403
    assert authorized("GET", "/ann/1", "reader").status_code == 403
    listed = authorized("GET", "/__ds/streams", "reader").json()["streams"]
    assert {stream["path"].split("/")[1] for stream in listed} == {"shared"}


def test_what_is_allowed_on_a_stream_is_what_the_application_would_say(
    authorized: Callable[..., httpx.Response],
) -> None:
    def access(user: str, path: str) -> tuple[bool, bool]:
        found = authorized("GET", f"/__ds/access?path={path}", user).json()
        return found["read"], found["write"]

    assert access("ann", "/ann/1") == (True, True)
    assert access("ann", "/bob/1") == (False, False)
    assert access("reader", "/shared/1") == (True, False)
    assert authorized("GET", "/__ds/access?path=/a", "broken").status_code == 500


def test_the_servers_own_paths_are_asked_for(authorized: Callable[..., httpx.Response]) -> None:
    assert authorized("GET", "/__ds/streams", "ann").status_code == 403
    for control in ("metrics", "server", "history"):
        assert authorized("GET", f"/__ds/{control}", "ann").status_code == 403, control
        assert authorized("GET", f"/__ds/{control}", "root").status_code == 200, control
    assert authorized("GET", "/__ds/healthz").status_code == 200


def test_many_streams_are_deleted_as_far_as_the_application_allows_to_write(
    authorized: Callable[..., httpx.Response],
) -> None:
    """X11."""
    authorized("PUT", "/shared/many/1", "shared")
    query = "/__ds/streams?prefix=/shared/many/"
    for user in ("ann", "reader", "unknown"):
        assert authorized("DELETE", query, user).status_code == 403, user
    assert authorized("DELETE", query, "root").json() == {"deleted": 1, "cursor": None}


def test_pages_of_other_origins_may_not_write(authorized: Callable[..., httpx.Response]) -> None:
    """The application may decide by a cookie, which a browser sends from any page."""
    authorized("PUT", "/ann/page", "ann")
    refused = authorized("POST", "/ann/page", "ann", content=b"x", headers={"Origin": "https://evil.example"})
    assert (refused.status_code, refused.json()["code"]) == (403, "ORIGIN_NOT_ALLOWED")


@pytest.mark.parametrize("user", ["broken", "odd"])
def test_a_decision_that_fails_opens_nothing(user: str) -> None:
    with application("authorized") as server:
        failed = httpx.get(f"{server.url}/streams/a", headers={"X-User": user})
        assert (failed.status_code, failed.json()["code"]) == (500, "INTERNAL_ERROR")
        if user == "broken":
            assert "session store" not in failed.text
            assert "the session store is down" in server.output()
        else:
            assert "yes, of course" in server.output()


def test_what_the_application_leaves_open_a_token_decides() -> None:
    with TestClient(guarded.both) as client:
        assert client.put("/streams/a", headers={"X-User": "unknown"}).status_code == 401
        assert client.put("/streams/a", headers={"X-User": "root"}).status_code == 201


def test_a_plain_function_decides_as_well() -> None:
    with TestClient(guarded.readable) as client:
        assert client.get("/streams/a").status_code == 404
        assert client.put("/streams/a").status_code == 403


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(TypeError, match="inscure"):
        MillstreamApp(inscure=True)
