"""A thousand readers that wait for the same stream behind nginx, with the configuration that we ship."""

import asyncio
import re
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from deploy.proxies import nginx
from running import Server

READERS = 1000
MESSAGES = 3
PATIENCE_S = 120
TEXT = {"Content-Type": "text/plain"}


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed: its cache is not tried")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4 * READERS:
        pytest.skip(f"a process may open {hard} files here, too few for {READERS} readers")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * READERS), hard))
    try:
        with nginx(tmp_path, has_tls=False) as both:
            yield both
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Reader:
    """A long-poll reader that sends back the cursors that it was told."""

    def __init__(self, url: str, offset: str) -> None:
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port
        self._offset = offset
        self._cursor = ""
        self.caches: list[str] = []

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def poll(self) -> bytes:
        """Wait for what is next; answers without data are asked again."""
        while True:
            cursor = f"&cursor={self._cursor}" if self._cursor else ""
            request = (
                f"GET /s?offset={self._offset}&live=long-poll{cursor} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            )
            self._writer.write(request.encode())
            head = await self._reader.readuntil(b"\r\n\r\n")
            status, *lines = head.decode().split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in lines if line)
            assert status.split()[1] in ("200", "204"), head
            self._offset, self._cursor = fields["stream-next-offset"], fields["stream-cursor"]
            self.caches.append(fields["x-cache"])
            if "200" in status:
                return await self._reader.readexactly(int(fields["content-length"]))

    def close(self) -> None:
        self._writer.close()


def polls(server: Server) -> int:
    """How many long-polls the server was asked for."""
    text = httpx.get(f"{server.url}/__ds/metrics").text
    found = re.search(r"^ds_poll_requests_total(?:\{.*?\})? ([0-9.e+]+)$", text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


def test_a_thousand_readers_cost_the_server_a_handful_of_requests(both: tuple[Server, str]) -> None:
    server, url = both
    offset = httpx.put(f"{server.url}/s", headers=TEXT).headers["stream-next-offset"]

    async def main() -> None:
        readers = [Reader(url, offset) for _ in range(READERS)]
        for number in range(READERS):
            await readers[number].connect()
        try:
            async with asyncio.timeout(PATIENCE_S):
                for number in range(MESSAGES):
                    before = polls(server)
                    polling = [asyncio.ensure_future(reader.poll()) for reader in readers]
                    while polls(server) == before:  # noqa: ASYNC110  the server knows when one waits
                        await asyncio.sleep(0.05)
                    message = f"message {number}".encode()
                    sent = await asyncio.to_thread(
                        httpx.post, f"{server.url}/s", content=message, headers=TEXT
                    )
                    assert sent.status_code == 204
                    assert set(await asyncio.gather(*polling)) == {message}
                    assert polls(server) - before < 50
        finally:
            for reader in readers:
                reader.close()

    asyncio.run(main())
