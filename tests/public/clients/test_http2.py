"""HTTP/2, which the native server leaves to others: the ASGI app under Granian and Hypercorn.

Many streams share one connection there, so a reader that waits must not hold up a writer beside it.
"""

import asyncio
import uuid

import httpx
import pytest

from running import ServerFactory, granian_server, hypercorn_server

SERVERS = [granian_server, hypercorn_server]
TEXT = {"Content-Type": "text/plain"}
PATIENCE_S = 60


@pytest.mark.parametrize("serve", SERVERS, ids=["granian", "hypercorn"])
def test_a_waiting_reader_and_a_writer_share_one_http2_connection(serve: ServerFactory) -> None:
    path = f"/h2/{uuid.uuid4()}"
    received: list[str] = []

    async def listen(client: httpx.AsyncClient, listening: asyncio.Event) -> None:
        async with client.stream("GET", path, params={"offset": "-1", "live": "sse"}) as events:
            async for line in events.aiter_lines():
                received.append(line)
                listening.set()

    async def conversation(url: str) -> None:
        # Without HTTP/1.1 to fall back to, the client begins with HTTP/2 on a plain connection.
        async with httpx.AsyncClient(base_url=url, http1=False, http2=True) as client:
            created = await client.put(path, headers=TEXT)
            assert (created.status_code, created.http_version) == (201, "HTTP/2")
            listening = asyncio.Event()
            reader = asyncio.ensure_future(listen(client, listening))
            await asyncio.wait_for(listening.wait(), PATIENCE_S)
            assert (await client.post(path, content=b"hello", headers=TEXT)).status_code == 204
            assert (await client.post(path, headers={"Stream-Closed": "true"})).status_code == 204
            await asyncio.wait_for(reader, PATIENCE_S)  # the end of the stream ends the reader

    with serve() as server:
        asyncio.run(conversation(server.url))
    assert "data:hello" in received
