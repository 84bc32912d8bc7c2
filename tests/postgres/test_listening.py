"""An application with streams inside hears of what other servers do to them."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from in_process.test_listening import END, some
from millstream.asgi import MillstreamApp
from millstream.store.postgres import notices
from postgres.cluster import shared
from postgres.servers import serving
from running import Server
from wire.inprocess import until

TEXT = {"content-type": "text/plain"}


@pytest.fixture(scope="module")
def other() -> Iterator[tuple[str, Server]]:
    """A database and a server on it."""
    cluster = shared()
    url = f"{cluster.url(cluster.new_schema())}&application_name=listening"
    with serving(url) as server:
        yield url, server


def test_what_another_server_does_is_told(other: tuple[str, Server]) -> None:
    url, server = other

    async def main() -> None:
        async with httpx.AsyncClient(base_url=server.url, headers=TEXT, timeout=30) as client:
            await client.put("/chat/old", content=b"known before")
            app = MillstreamApp(store=url)
            async with app.lifespan():
                events = app.listen("/chat/*")
                await client.put("/elsewhere", content=b"x")
                await client.put("/chat/1", content=b"one")
                assert await some(events, 1) == [("appended", "/chat/1", END % 3)]
                await client.post("/chat/1", content=b"two")
                assert await some(events, 1) == [("appended", "/chat/1", END % 6)]
                await client.post("/chat/1", headers={"stream-closed": "true"})
                assert await some(events, 1) == [("closed", "/chat/1", END % 6)]
                await client.delete("/chat/1")
                assert await some(events, 1) == [("deleted", "/chat/1", None)]
                # Of streams that this process has never seen, too.
                await client.post("/chat/old", content=b"!")
                assert await some(events, 1) == [("appended", "/chat/old", END % 13)]
                await client.put("/chat/ünseen\U0001f642", content=b"")
                await client.delete("/chat/ünseen\U0001f642")
                assert await some(events, 1) == [("deleted", "/chat/ünseen\U0001f642", None)]

    asyncio.run(main())


def test_what_may_not_be_known_is_missed(other: tuple[str, Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """After the connection for notices is lost, and when a notice is too short for what it is about."""
    url, server = other
    monkeypatch.setattr(notices, "_MAX_NOTICE_BYTES", 1)  # for what this process tells

    async def main() -> None:
        app, telling = MillstreamApp(store=url), MillstreamApp(store=url)
        async with app.lifespan(), telling.lifespan():
            events = app.listen()
            await telling.create("/missed/1", content_type="text/plain", body="x")
            assert ("missed", "", None) in await some(events, 1)
            await asyncio.to_thread(
                shared().execute,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'listening' AND query LIKE 'LISTEN%'",
            )
            store = app._routes.store  # type: ignore[union-attr]
            await until(lambda: store.notices.is_listening)  # type: ignore[attr-defined]
            found = await some(events, 1)
            while ("missed", "", None) not in found:
                found += await some(events, 1)
            await asyncio.to_thread(httpx.put, f"{server.url}/missed/2", content=b"x", headers=TEXT)
            while ("appended", "/missed/2", END % 1) not in found:
                found += await some(events, 1)

    asyncio.run(main())
