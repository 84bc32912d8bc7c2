"""nginx and Caddy in front, with the configurations that we ship: HTTP/2, live reads, caching."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import jwt
import pytest

from deploy.proxies import caddy, nginx
from running import Server

TEXT = {"Content-Type": "text/plain"}
SECRET = "a secret that is certainly long enough"
PATIENCE_S = 60
Proxy = Callable[..., AbstractContextManager[tuple[Server, str]]]


@pytest.fixture(params=[nginx, caddy])
def proxy(request: pytest.FixtureRequest) -> Proxy:
    name = request.param.__name__
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed: its configuration is not tried")
    found: Proxy = request.param
    return found


@pytest.fixture
def url(proxy: Proxy, tmp_path: Path) -> Iterator[str]:
    with proxy(tmp_path, "--long-poll-timeout-ms", "4000") as (_, url):
        yield url


def client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, http2=True, verify=False, timeout=PATIENCE_S)


def test_streams_are_written_and_read_over_http2(url: str) -> None:
    async def main() -> None:
        async with client(url) as http:
            created = await http.put("/chat/1", headers=TEXT)
            assert (created.status_code, created.http_version) == (201, "HTTP/2")
            assert created.headers["location"] == f"{url}/chat/1"  # the proxy's, not the server's
            for word in (b"one ", b"two ", b"three"):
                assert (await http.post("/chat/1", content=word, headers=TEXT)).status_code == 204
            read = await http.get("/chat/1?offset=-1")
            assert read.content == b"one two three"
            assert read.headers["stream-up-to-date"] == "true"
            head = await http.head("/chat/1")
            assert head.headers["stream-next-offset"] == read.headers["stream-next-offset"]
            large = bytes(range(256)) * 4096 * 3
            assert (await http.post("/chat/1", content=large, headers=TEXT)).status_code == 204

    asyncio.run(main())


def test_a_long_poll_is_answered_when_data_comes_and_when_none_does(url: str) -> None:
    async def main() -> None:
        async with client(url) as http:
            offset = (await http.put("/s", headers=TEXT)).headers["stream-next-offset"]
            polled = await http.get("/s", params={"offset": offset, "live": "long-poll"})
            assert polled.status_code == 204
            cursor = polled.headers["stream-cursor"]
            again = {"offset": offset, "live": "long-poll", "cursor": cursor}
            polling = [asyncio.ensure_future(http.get("/s", params=again)) for _ in range(5)]
            await asyncio.sleep(0.2)
            await http.post("/s", content=b"news", headers=TEXT)
            answers = await asyncio.gather(*polling)
            assert [answer.content for answer in answers] == [b"news"] * 5
            assert int(answers[0].headers["stream-cursor"]) >= int(cursor)

    asyncio.run(main())


def test_events_are_not_held_back(url: str) -> None:
    """Two readers of the same URL: each event arrives while the answer goes on."""

    async def main() -> None:
        async with client(url) as http, client(url) as other:
            await http.put("/s", headers=TEXT)
            follow = {"params": {"offset": "-1", "live": "sse"}, "timeout": PATIENCE_S}
            async with http.stream("GET", "/s", **follow) as one, other.stream("GET", "/s", **follow) as two:
                assert (one.http_version, one.headers["content-type"]) == ("HTTP/2", "text/event-stream")
                readers = [one.aiter_lines(), two.aiter_lines()]
                for number in range(3):
                    text = f"message {number}"
                    sent = await http.post("/s", content=text.encode(), headers=TEXT)
                    assert sent.status_code == 204
                    for reader in readers:
                        async with asyncio.timeout(PATIENCE_S):
                            while text not in await anext(reader):
                                pass

    asyncio.run(main())


# -- nginx's cache ---------------------------------------------------------------------------------


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed: its cache is not tried")
    with nginx(tmp_path, "--long-poll-timeout-ms", "1500", "--auth-secret", SECRET) as both:
        yield both


@pytest.fixture
def open_cached(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed: its cache is not tried")
    with nginx(tmp_path, "--long-poll-timeout-ms", "1500") as both:
        yield both


def test_one_answer_serves_many_readers(open_cached: tuple[Server, str]) -> None:
    server, url = open_cached
    with httpx.Client(base_url=url, http2=True, verify=False) as http:
        offset = http.put("/s", content=b"hello", headers=TEXT).headers["stream-next-offset"]
        first, second = http.get("/s?offset=-1"), http.get("/s?offset=-1")
        assert (first.headers["x-cache"], second.headers["x-cache"]) == ("MISS", "HIT")
        assert second.content == b"hello"
        # A HEAD is not answered from what a GET has left there, nor kept.
        tails = set()
        for _ in range(2):
            tails.add(http.head("/s").headers["stream-next-offset"])
            http.post("/s", content=b"!", headers=TEXT)
        assert len(tails) == 2
        # Nor is "nothing new": it would keep readers waiting for data that is there.
        end = http.head("/s").headers["stream-next-offset"]
        assert http.get(f"/s?offset={end}&live=long-poll").status_code == 204
        http.post("/s", content=b"new", headers=TEXT)
        fresh = http.get(f"/s?offset={end}&live=long-poll")
        assert (fresh.status_code, fresh.content) == (200, b"new")
        late = http.get(f"/s?offset={end}&live=long-poll")
        assert (late.headers["x-cache"], late.content) == ("HIT", b"new")
        assert offset < end
    assert httpx.get(f"{server.url}/s?offset=-1").content.startswith(b"hello")


def test_what_needed_a_token_is_not_shared(cached: tuple[Server, str]) -> None:
    _, url = cached
    token = jwt.encode({"scope": "admin"}, SECRET, algorithm="HS256")
    bearer = {"Authorization": f"Bearer {token}", **TEXT}
    with httpx.Client(base_url=url, verify=False) as http:
        assert http.put("/s", content=b"secret", headers=bearer).status_code == 201
        for _ in range(2):
            mine = http.get("/s?offset=-1", headers=bearer)
            assert (mine.content, mine.headers["x-cache"]) == (b"secret", "BYPASS")
        assert http.get("/s?offset=-1").status_code == 401
