"""The choice of `docs/http-client.md`, measured: one append a request, by each HTTP library installed.

    python -m bench.http_libraries

Our own transport, `httpx` (what the public client uses) and `pyreqwest` (when it is installed) take turns.
"""

import asyncio
import importlib.util
import time
import uuid
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import httpx

from millstream.client.core.transport import Request
from millstream.client.http import aio_sockets
from millstream.client.http import sync_sockets as sockets
from tests.running import millstream as millstream_server

ROUNDS = 5
SECONDS = 0.6
CROWD = 8
BODY = b"x" * 100
FIELDS = {"content-type": "text/plain"}
PYREQWEST = "pyreqwest"  # not a dependency: it has a part only when somebody installed it


def main() -> None:
    """Measure and print medians."""
    with millstream_server() as server:
        url = f"{server.url}/bench/{uuid.uuid4()}"
        httpx.put(url, headers=FIELDS).raise_for_status()
        for title, contenders in (
            ("sync, one after the other", sync_contenders(url)),
            ("async, one after the other", async_contenders(url, 1)),
            (f"async, {CROWD} at a time", async_contenders(url, CROWD)),
        ):
            rates: dict[str, list[float]] = {name: [] for name in contenders}
            for number in range(ROUNDS):
                order = list(contenders) if number % 2 == 0 else list(reversed(contenders))
                for name in order:
                    rates[name].append(contenders[name]())
            shown = ", ".join(f"{name} {median(values):,.0f}/s" for name, values in rates.items())
            print(f"{title}: {shown}")


def sync_contenders(url: str) -> dict[str, Callable[[], float]]:
    ours, theirs = sockets.HttpClient(), httpx.Client()
    request = Request(b"POST", url, {b"content-type": b"text/plain"}, BODY)
    works: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours.send(request),
        "httpx": lambda: theirs.post(url, headers=FIELDS, content=BODY),
    }
    if importlib.util.find_spec(PYREQWEST):
        client = importlib.import_module("pyreqwest.client").SyncClientBuilder().build()
        works[PYREQWEST] = lambda: client.post(url).headers(FIELDS).body_bytes(BODY).build().send()

    def rate(work: Callable[[], Any]) -> float:
        count, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < SECONDS:
            work()
            count += 1
        return count / elapsed

    return {name: lambda work=work: rate(work) for name, work in works.items()}  # type: ignore[misc]


def async_contenders(url: str, crowd: int) -> dict[str, Callable[[], float]]:
    request = Request(b"POST", url, {b"content-type": b"text/plain"}, BODY)

    async def rate(work: Callable[[], Awaitable[Any]]) -> float:
        count, started = 0, time.perf_counter()

        async def member() -> None:
            nonlocal count
            while time.perf_counter() - started < SECONDS:
                await work()
                count += 1

        await asyncio.gather(*[member() for _ in range(crowd)])
        return count / (time.perf_counter() - started)

    async def ours() -> float:
        async with aio_sockets.HttpClient() as client:
            return await rate(lambda: client.send(request))

    async def theirs() -> float:
        async with httpx.AsyncClient() as client:
            return await rate(lambda: client.post(url, headers=FIELDS, content=BODY))

    async def rust() -> float:
        client = importlib.import_module("pyreqwest.client").ClientBuilder().build()
        async with client:
            return await rate(lambda: client.post(url).headers(FIELDS).body_bytes(BODY).build().send())

    found = {"ours": lambda: asyncio.run(ours()), "httpx": lambda: asyncio.run(theirs())}
    if importlib.util.find_spec(PYREQWEST):
        found[PYREQWEST] = lambda: asyncio.run(rust())
    return found


if __name__ == "__main__":
    main()
