"""Events of a run that was stopped: whoever runs it again goes on in the same stream, and loses nothing."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from millstream import stream
from millstream.agents.events import write_all


async def until_stopped(items: list[str], stopped: asyncio.Event) -> AsyncIterator[str]:
    for item in items:
        yield item
    stopped.set()
    await asyncio.Event().wait()


async def all_of(items: list[str]) -> AsyncIterator[str]:
    for item in items:
        yield item


def test_a_run_that_was_stopped_goes_on_in_its_stream(url: str) -> None:
    async def stop_and_run_again() -> None:
        stopped = asyncio.Event()
        run = asyncio.create_task(write_all(until_stopped(["a", "b"], stopped), url))
        await stopped.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert await write_all(all_of(["c", "d"]), url) == 2

    asyncio.run(stop_and_run_again())
    with stream(url) as response:  # it is closed, so this ends
        assert list(response.iter_json()) == ["a", "b", "c", "d"]
