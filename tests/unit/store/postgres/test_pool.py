"""The pool of connections: who gets one, and which are used again."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import pytest

from millstream.store.postgres import pool
from millstream.store.postgres.pool import Pool


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


class FakeConnection:
    """A connection that only knows whether it is closed."""

    def __init__(self) -> None:
        self.is_ended = self.has_transaction = False

    def is_closed(self) -> bool:
        return self.is_ended

    def is_in_transaction(self) -> bool:
        return self.has_transaction

    def terminate(self) -> None:
        self.is_ended = True

    async def close(self) -> None:
        self.is_ended = True


async def connect() -> FakeConnection:
    return FakeConnection()


def new_pool(most: int = 2, patience_s: float = 0.05) -> Pool:
    return Pool(connect, most, patience_s)


async def use(connections: Pool) -> FakeConnection:
    async with connections.connection() as connection:
        await asyncio.sleep(0)
        assert isinstance(connection, FakeConnection)
        return connection


@on_a_loop
async def test_the_one_that_was_used_last_is_used_next() -> None:
    connections = new_pool()
    both = await asyncio.gather(use(connections), use(connections))
    assert both[0] is not both[1]
    assert [await use(connections), await use(connections)] == [both[1], both[1]]


@on_a_loop
async def test_who_finds_none_waits_for_one_but_not_for_long() -> None:
    connections = new_pool(most=1)
    async with connections.connection() as held:
        waiting = asyncio.create_task(use(connections))
        await asyncio.sleep(0)
    assert await waiting is held
    async with connections.connection():
        with pytest.raises(TimeoutError):
            await use(connections)
    assert await use(connections) is held


@on_a_loop
async def test_what_is_lost_or_left_in_the_middle_is_not_used_again() -> None:
    connections = new_pool(most=1)
    async with connections.connection() as first:
        first.terminate()
    async with connections.connection() as second:
        second.has_transaction = True
    assert second is not first
    asked = asyncio.Event()

    async def ask() -> None:
        async with connections.connection() as third:
            assert third is not second
            asked.set()
            await asyncio.sleep(60)

    asking = asyncio.create_task(ask())
    await asked.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert second.is_ended
    assert not (await use(connections)).is_ended


@on_a_loop
async def test_a_connection_that_cannot_be_made_takes_no_place() -> None:
    async def refuse() -> FakeConnection:
        raise OSError

    connections = Pool(refuse, 1, 0.05)
    for _ in range(3):
        with pytest.raises(OSError):
            await use(connections)


@on_a_loop
async def test_what_is_idle_for_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = new_pool()
    both = await asyncio.gather(use(connections), use(connections))
    monkeypatch.setattr(pool, "_IDLE_S", -1.0)
    await use(connections)
    monkeypatch.setattr(pool, "_IDLE_S", 300.0)
    assert [one.is_ended for one in both] == [True, True]
    assert not (await use(connections)).is_ended


@on_a_loop
async def test_the_end_waits_for_what_is_used_and_cuts_what_takes_too_long() -> None:
    connections = new_pool()
    using = asyncio.create_task(use(connections))
    await asyncio.sleep(0)
    await connections.close()
    assert (await using).is_ended
    with pytest.raises(asyncpg.InterfaceError):
        await use(connections)
    slow = new_pool()
    async with slow.connection() as held:
        await slow.close()
        assert held.is_ended
