"""An application and its own streams: when they can be used, and from where."""

import asyncio
import contextlib
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from millstream.aio import (
    IdempotentProducer,
    MillstreamError,
    PayloadTooLargeError,
    StreamNotFoundError,
    stream,
)
from millstream.asgi import MillstreamApp
from running import free_port, listening_on, started
from wire.inprocess import until


def test_every_verb_in_its_own_words() -> None:
    async def main() -> None:
        streams = MillstreamApp(store="memory", auth_secret="0" * 32, path="/v1", max_body_bytes=100_000)
        async with streams.lifespan():
            chat = await streams.create("/chat/ä 1?", content_type="application/json")
            await chat.append({"n": 1})
            async with IdempotentProducer(chat, "p") as producer:
                await producer.append({"n": 2})
            again = streams.stream("/chat/ä 1?")
            assert (await again.head()).content_type == "application/json"
            assert await (await again.stream(live=False)).read_json() == [{"n": 1}, {"n": 2}]
            fork = await again.fork("/v1/fork")
            await again.close()
            async with stream(streams.url("/chat/ä 1?"), client=streams.client) as response:
                assert [one async for one in response.iter_json()] == [{"n": 1}, {"n": 2}]
            assert len(await (await fork.stream(live=False)).read_json()) == 2
            with pytest.raises(PayloadTooLargeError):
                await fork.append("x" * 200_000)
            await fork.delete()
            with pytest.raises(StreamNotFoundError):
                await fork.head()
        with pytest.raises(ValueError, match="slash"):
            streams.stream("chat")

    asyncio.run(main())


def test_they_can_be_used_before_and_after_the_server_serves(tmp_path: Path) -> None:
    """In hooks at the start and at the end, in handlers and in background tasks, under real uvicorn."""
    source = """
        import asyncio, contextlib
        from fastapi import BackgroundTasks, FastAPI
        from millstream.asgi import MillstreamApp

        streams = MillstreamApp(data="data")
        log = streams.stream("/log")

        @contextlib.asynccontextmanager
        async def lifespan(api):
            async with streams.lifespan():
                await streams.create("/log", content_type="text/plain")
                await log.append("start ")
                yield
                await log.append("stop ")

        api = FastAPI(lifespan=lifespan)
        api.mount("/streams", streams)

        @api.post("/say/{word}")
        async def say(word: str, tasks: BackgroundTasks):
            await log.append(word + " ")
            tasks.add_task(log.append, "later ")
    """
    (tmp_path / "application.py").write_text(textwrap.dedent(source))
    for loop, expected in [("asyncio", "start hi later stop "), ("uvloop", "start hi later stop " * 2)]:
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "application:api", "--app-dir", str(tmp_path)]
        command += ["--port", str(port), "--loop", loop]
        with (
            contextlib.chdir(tmp_path),
            started(command, listening_on(port)) as server,
            httpx.stream("GET", f"{server.url}/streams/log?offset=now&live=sse"),
        ):
            httpx.post(f"{server.url}/say/hi").raise_for_status()
        assert asyncio.run(read_log(tmp_path / "data")) == expected


async def read_log(data: Path) -> str:
    streams = MillstreamApp(data=str(data))
    async with streams.lifespan():
        return await (await streams.stream("/log").stream(live=False)).read_text()


def test_another_event_loop_is_told_so() -> None:
    async def main() -> None:
        streams = MillstreamApp(store="memory")
        async with streams.lifespan():
            log = await streams.create("/log", content_type="text/plain")
            errors: list[BaseException] = []

            def elsewhere() -> None:
                try:
                    asyncio.run(log.append("x"))
                except RuntimeError as error:
                    errors.append(error)

            thread = threading.Thread(target=elsewhere)
            thread.start()
            await asyncio.to_thread(thread.join)
            assert "another event loop" in str(errors[0])
            assert "run_coroutine_threadsafe" in str(errors[0])

    asyncio.run(main())


def test_closed_streams_stay_closed() -> None:
    """A task that is late must not open a store that nobody closes."""

    async def main() -> None:
        streams = MillstreamApp(store="memory")
        log = await streams.create("/log", content_type="text/plain")  # this opens it
        await streams.close()
        with pytest.raises(MillstreamError, match="closed") as raised:
            await log.append("late")
        assert raised.value.code == "CLOSED"
        await streams.open()
        assert streams.client is log._client
        await streams.close()
        await streams.close()

    asyncio.run(main())


@pytest.mark.parametrize("live", [True, "sse", "long-poll"])
def test_a_reader_in_the_process_does_not_hold_the_server(live: Any) -> None:
    async def main() -> None:
        streams = MillstreamApp(store="memory")
        log = await streams.create("/log", content_type="text/plain", body="x")
        reading = asyncio.Event()

        async def follow() -> None:
            async with log.stream(live=live) as response:
                async for _ in response.iter_text():
                    reading.set()

        following = asyncio.create_task(follow())
        await reading.wait()
        streams.begin_stop()
        with pytest.raises(MillstreamError) as raised:
            await asyncio.wait_for(following, 60)
        assert raised.value.code == "CLOSING"
        await log.append("still possible")
        await streams.close()

    asyncio.run(main())


@pytest.mark.parametrize("live", [True, "sse", "long-poll"])
def test_a_reader_that_leaves_frees_its_place(live: Any) -> None:
    async def main() -> None:
        streams = MillstreamApp(store="memory")
        log = await streams.create("/log", content_type="text/plain", body="x")
        routes = await streams.open()
        async with log.stream(live=live) as response:
            async for _ in response.iter_text():
                break
        following = asyncio.create_task(log.stream(live="long-poll", offset="now")._open())
        await until(lambda: bool(routes.live.polls))
        following.cancel()
        await asyncio.wait([following])
        assert not routes.live.polls
        assert not routes.live.feeds
        await streams.close()

    asyncio.run(main())


def test_a_start_hook_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    async def main() -> None:
        streams = MillstreamApp(data=str(tmp_path))

        async def fail() -> None:
            await streams.create("/a")
            raise LookupError("not today")

        streams.on_open.append(fail)
        with pytest.raises(LookupError):
            await streams.open()
        streams.on_open.clear()
        async with streams.lifespan():
            await streams.stream("/a").head()

    asyncio.run(main())


def test_a_store_that_does_not_open_ends_the_server(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")

    async def main() -> None:
        app = MillstreamApp(data=str(tmp_path / "data"))
        server = uvicorn.Server(uvicorn.Config(app, port=free_port(), log_level="critical"))
        with pytest.raises(SystemExit):
            await server.serve()

    asyncio.run(main())
