"""Events of an application's streams: appended, closed, deleted."""

import asyncio
from pathlib import Path

import pytest

from millstream.asgi import MillstreamApp, StreamEvent
from millstream.store import listening
from wire.inprocess import until

END = "0000000000000000_%016d"


async def some(events, count: int) -> list[tuple[str, str, str | None]]:  # type: ignore[no-untyped-def]
    found = []
    async with asyncio.timeout(20):
        while len(found) < count:
            event: StreamEvent = await anext(events)
            found.append((event.kind, event.path, event.offset))
    return found


@pytest.mark.parametrize("store", ["memory", "log"])
def test_what_happens_to_a_stream_is_told_in_order(tmp_path: Path, store: str) -> None:
    async def main() -> None:
        app = MillstreamApp(store=store, data=str(tmp_path))
        async with app.lifespan():
            events = app.listen("/chat/*")
            chat = await app.create("/chat/1", content_type="text/plain")
            await app.create("/elsewhere", content_type="text/plain", body="x")
            await chat.append("one")
            assert await some(events, 1) == [("appended", "/chat/1", END % 3)]
            await chat.append("two")
            await chat.append("three")
            assert await some(events, 1) == [("appended", "/chat/1", END % 11)]
            await chat.close("four")
            told = await some(events, 2)
            assert told == [("appended", "/chat/1", END % 15), ("closed", "/chat/1", END % 15)]
            await chat.delete()
            assert await some(events, 1) == [("deleted", "/chat/1", None)]
            again = await app.create("/chat/1", content_type="text/plain", body="new")
            await again.close()
            told = await some(events, 2)
            assert told == [("appended", "/chat/1", END % 3), ("closed", "/chat/1", END % 3)]

    asyncio.run(main())


def test_a_listener_that_is_behind_holds_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MAX_STREAMS", 3)

    async def main() -> None:
        app = MillstreamApp(store="memory")
        async with app.lifespan():
            events = app.listen()
            for number in range(10):
                await app.create(f"/{number}", content_type="text/plain", body="x")
            assert await some(events, 1) == [("missed", "", None)]
            await app.create("/after", content_type="text/plain", body="x")
            assert await some(events, 1) == [("appended", "/after", END % 1)]

    asyncio.run(main())


def test_the_end_of_the_application_ends_its_listeners() -> None:
    async def main() -> None:
        app = MillstreamApp(store="memory")
        events = app.listen("/a")  # before the store is open
        waiting = asyncio.create_task(some(events, 1))
        await until(lambda: bool(app._listenings))
        assert app._routes is not None
        store = app._routes.store
        await app.close()
        with pytest.raises(StopAsyncIteration):
            await waiting
        assert not store._listeners._others  # type: ignore[attr-defined]

    asyncio.run(main())
