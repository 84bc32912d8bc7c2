"""The ASGI application: inside of frameworks, on three servers, over HTTP/2, and when clients leave."""

import asyncio
import json
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import hypercorn.asyncio
import hypercorn.config
import pytest
import uvicorn

from millstream.asgi import MillstreamApp
from millstream.server.settings import Settings
from running import (
    HASTY_MS,
    ServerFactory,
    free_port,
    granian_server,
    hypercorn_server,
    listening_on,
    started,
    uvicorn_server,
)
from wire.inprocess import until

TEXT = {"Content-Type": "text/plain"}
TESTS = Path(__file__).parent.parent

# -- On three servers ----------------------------------------------------------------------------

SERVERS: dict[str, tuple[ServerFactory, bool]] = {
    "uvicorn": (uvicorn_server, False),
    "granian": (granian_server, False),
    "granian, HTTP/2": (granian_server, True),
    "hypercorn": (hypercorn_server, False),
    "hypercorn, HTTP/2": (hypercorn_server, True),
}


@pytest.fixture(scope="module", params=SERVERS)
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    start, http2 = SERVERS[request.param]
    with (
        start(long_poll_ms=HASTY_MS) as server,
        httpx.Client(base_url=server.url, http2=http2, http1=not http2) as client,
    ):
        yield client


@pytest.fixture
def path(client: httpx.Client) -> str:
    path = f"/asgi/{uuid.uuid4()}"
    created = client.put(path, content=b"hello", headers=TEXT)
    assert created.status_code == 201
    assert created.headers["Location"] == f"{client.base_url}{path}"
    return path


def test_a_stream_lives_its_life(client: httpx.Client, path: str) -> None:
    assert client.get(path).content == b"hello"
    assert client.post(path, content=b" world", headers=TEXT).status_code == 204
    answer = client.get(path, params={"offset": "-1"})
    assert answer.content == b"hello world"
    again = client.get(path, params={"offset": "-1"}, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Stream-Next-Offset"] == answer.headers["Stream-Next-Offset"]
    assert client.head("/nowhere").status_code == 404
    assert client.post(path, headers={"Stream-Closed": "true"}).headers["Stream-Closed"] == "true"
    assert client.post(path, content=b"x", headers=TEXT).status_code == 409
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_names_arrive_as_they_were_sent(client: httpx.Client) -> None:
    """P3: servers decode paths, and must not do so twice."""
    for name, status in [("/%E2%82%AC%20", 201), ("/a%2Fb%2561", 201), ("/%ff", 400), ("/a%2f..%2fb", 400)]:
        assert client.put(name).status_code == status, name
    listed = client.get("/__ds/streams").json()["streams"]
    assert {"/€ ", "/a/b%61"} <= {stream["path"] for stream in listed}


def test_a_long_poll_waits_only_when_nothing_is_there(client: httpx.Client, path: str) -> None:
    assert client.get(path, params={"offset": "now", "live": "long-poll"}).status_code == 204
    assert client.get(path, params={"offset": "-1", "live": "long-poll"}).content == b"hello"


def test_events_come_as_they_happen(client: httpx.Client, path: str) -> None:
    with client.stream("GET", path, params={"offset": "-1", "live": "sse"}) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        lines = answer.iter_lines()
        data = [line for line in (next(lines) for _ in range(6)) if line.startswith("data:")]
        assert data[0] == "data:hello"
        with httpx.Client(base_url=client.base_url) as writer:
            writer.post(path, content=b"live", headers=TEXT | {"Stream-Closed": "true"})
        rest = [line for line in lines if line.startswith("data:")]
    assert rest[0] == "data:live"
    assert json.loads(rest[1][5:])["streamClosed"] is True


def test_a_large_body_goes_both_ways(client: httpx.Client, path: str) -> None:
    body = bytes(range(256)) * 3000
    assert client.post(path, content=body, headers=TEXT).status_code == 204
    assert client.get(path, headers={"Accept-Encoding": "identity"}).content == b"hello" + body
    assert read_on(client, path) == b"hello" + body  # compressed: in several responses


def read_on(client: httpx.Client, path: str) -> bytes:
    """Everything that the stream holds, however many responses that takes."""
    content, offset = b"", "-1"
    for _ in range(100):
        reply = client.get(path, params={"offset": offset})
        content, offset = content + reply.content, reply.headers["Stream-Next-Offset"]
        if "Stream-Up-To-Date" in reply.headers:
            return content
    raise AssertionError(f"{path} never came up to date")


def test_a_body_in_pieces_is_put_together(client: httpx.Client, path: str) -> None:
    assert client.post(path, content=iter([b"a", b"b", b"c"]), headers=TEXT).status_code == 204
    assert client.get(path).content == b"helloabc"


# -- Inside of frameworks ------------------------------------------------------------------------

MOUNTS = {"FastAPI": ("fast", "/api/streams"), "Starlette": ("star", "/%C3%A4%20b")}


@pytest.fixture(scope="module", params=MOUNTS)
def mounted(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A client of the streams inside of an application of somebody else's."""
    name, prefix = MOUNTS[request.param]
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", f"wire.mounted:{name}", "--app-dir", str(TESTS)]
    command += ["--port", str(port), "--log-level", "warning"]
    with started(command, listening_on(port)) as server, httpx.Client(base_url=server.url + prefix) as client:
        yield client


def test_streams_live_below_their_mount(mounted: httpx.Client) -> None:
    """P1, C2."""
    created = mounted.put("/chat/a", content=b"hello", headers=TEXT)
    assert created.status_code == 201
    assert created.headers["Location"] == f"{mounted.base_url}chat/a"
    assert httpx.get(created.headers["Location"]).content == b"hello"
    assert mounted.get("/nowhere").status_code == 404
    assert mounted.get("/%zz").status_code == 400


def test_a_fork_names_its_source_by_its_whole_path(mounted: httpx.Client) -> None:
    """F1, P1."""
    mounted.put("/source", content=b"abc", headers=TEXT)
    prefix = mounted.base_url.raw_path.decode()
    fork = mounted.put("/fork", headers={"Stream-Forked-From": f"{prefix}source"})
    assert fork.status_code == 201
    assert mounted.get("/fork").content == b"abc"
    assert mounted.put("/other", headers={"Stream-Forked-From": "/source"}).status_code == 404


def test_control_paths_are_below_the_mount_too(mounted: httpx.Client) -> None:
    """P2, X2."""
    mounted.put("/listed")
    listed = mounted.get("/__ds/streams", params={"prefix": "/listed"}).json()["streams"]
    assert [stream["path"] for stream in listed] == ["/listed"]
    assert mounted.put("/__ds/x").status_code == 404


def test_live_reads_work_below_a_mount(mounted: httpx.Client) -> None:
    """L2, L5."""
    mounted.put("/live", content=b"x", headers=TEXT | {"Stream-Closed": "true"})
    assert mounted.get("/live?offset=now&live=long-poll").headers["Stream-Closed"] == "true"
    assert b"streamClosed" in mounted.get("/live?offset=-1&live=sse").content


def test_the_rest_of_the_application_is_not_disturbed(mounted: httpx.Client) -> None:
    root = mounted.base_url.copy_with(raw_path=b"/hello")
    answer = httpx.get(root)
    assert (answer.status_code, answer.text) in [(200, '{"hello":"world"}'), (404, "Not Found")]


# -- When clients leave --------------------------------------------------------------------------


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def on_uvicorn(app: MillstreamApp) -> AsyncIterator[int]:
    port = free_port()
    config = uvicorn.Config(app, port=port, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())
    await until(lambda: server.started)
    yield port
    server.should_exit = True
    await serving


@asynccontextmanager
async def on_hypercorn(app: MillstreamApp) -> AsyncIterator[int]:
    port, stop = free_port(), asyncio.Event()
    config = hypercorn.config.Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.loglevel = "ERROR"
    application: Any = app
    serving = asyncio.create_task(
        hypercorn.asyncio.serve(application, config, shutdown_trigger=stop.wait, mode="asgi")
    )
    await until(lambda: accepts(port))
    yield port
    stop.set()
    await serving


@pytest.mark.parametrize("serve", [on_uvicorn, on_hypercorn])
@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_a_client_that_leaves_frees_its_place(serve: Callable[[MillstreamApp], Any], live: str) -> None:
    """L6."""

    async def main() -> None:
        app = MillstreamApp(Settings(store="memory", long_poll_timeout_ms=60_000))
        routes = await app.open()
        async with serve(app) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"PUT /s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"GET /s?offset=-1&live=%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % live.encode())
            await until(lambda: bool(routes.live.polls or routes.live.feeds))
            writer.close()
            await writer.wait_closed()
            await until(lambda: not (routes.live.polls or routes.live.feeds))
            assert not routes.live.hub.readers
        await app.close()

    asyncio.run(main())


def test_an_application_opens_its_store_once_however_many_ask_first() -> None:
    async def main() -> None:
        app = MillstreamApp(Settings(store="memory"))
        routes = await asyncio.gather(*(app.open() for _ in range(5)))
        assert len(set(map(id, routes))) == 1
        await app.close()

    asyncio.run(main())


def test_space_around_a_header_is_not_part_of_it() -> None:
    """RFC 9110, 5.5: whether the server has removed it or not."""

    async def main() -> None:
        sent: list[Any] = []
        app = MillstreamApp(Settings(store="memory"))
        bodies = iter([b"", b"hi"])

        async def receive() -> Any:
            body = next(bodies, None)
            return {"type": "http.disconnect"} if body is None else {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        text = (b"content-type", b"text/plain ")
        stamp = [(b"producer-id", b" p"), (b"producer-epoch", b"1 "), (b"producer-seq", b"\t0")]
        for method, fields in (("PUT", [text]), ("POST", [text, *stamp])):
            client = ("127.0.0.1", 9)
            scope = {"type": "http", "method": method, "path": "/s", "headers": fields, "client": client}
            await app(scope, receive, send)
        await app.close()
        [created, appended] = [message for message in sent if message["type"] == "http.response.start"]
        assert (created["status"], appended["status"]) == (201, 200)
        assert (b"producer-epoch", b"1") in appended["headers"]

    asyncio.run(main())


def test_a_websocket_is_declined() -> None:
    async def main() -> None:
        sent: list[Any] = []
        app = MillstreamApp(Settings(store="memory"))

        async def send(message: Any) -> None:
            sent.append(message)

        await app({"type": "websocket"}, None, send)
        assert sent == [{"type": "websocket.close", "code": 1000}]

    asyncio.run(main())
