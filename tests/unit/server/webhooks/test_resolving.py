"""Resolving names: those that hang hold up no others."""

import asyncio
import ipaddress
import threading
from collections.abc import Sequence

import pytest

from millstream.protocol.webhook_targets import Address
from millstream.server.webhooks.resolving import Resolver, look_up

FOUND = [ipaddress.ip_address("192.0.2.1")]


class System:
    """A resolver whose names beginning with `slow` wait until they are let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[str] = []

    def look_up(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        if host.startswith("slow"):
            self.let_go.wait(60)
        if host.endswith("missing"):
            raise OSError(host)
        return FOUND


def test_known_names_are_found_while_a_thousand_others_hang() -> None:
    async def work() -> None:
        system = System()
        resolver = Resolver(system.look_up)
        assert await resolver.resolve("known") == FOUND
        hanging = [asyncio.ensure_future(resolver.resolve(f"slow-{number}")) for number in range(1000)]
        await asyncio.sleep(0)
        assert await resolver.resolve("known") == FOUND
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        system.let_go.set()
        assert await resolver.resolve("new") == FOUND
        assert len(system.asked) < 100, "lookups that nobody waits for any more are not made"

    asyncio.run(work())


def test_a_name_is_looked_up_once_for_all_who_wait() -> None:
    async def work() -> None:
        system = System()
        resolver = Resolver(system.look_up)
        waiting = [asyncio.ensure_future(resolver.resolve("slow")) for _ in range(50)]
        await asyncio.sleep(0)
        system.let_go.set()
        assert await asyncio.gather(*waiting) == [FOUND] * 50
        assert system.asked == ["slow"]

    asyncio.run(work())


def test_a_name_without_addresses_is_an_error_for_all_who_wait() -> None:
    async def work() -> None:
        system = System()
        resolver = Resolver(system.look_up)
        waiting = [asyncio.ensure_future(resolver.resolve("slow-missing")) for _ in range(3)]
        await asyncio.sleep(0)
        system.let_go.set()
        assert all(
            isinstance(found, OSError) for found in await asyncio.gather(*waiting, return_exceptions=True)
        )

    asyncio.run(work())


def test_a_loop_that_has_ended_meanwhile_is_no_error() -> None:
    system = System()
    resolver = Resolver(system.look_up)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await resolver.resolve("slow")

    async def again() -> None:
        system.let_go.set()
        assert await resolver.resolve("other") == FOUND

    asyncio.run(give_up())
    asyncio.run(again())


def test_the_systems_resolver_knows_this_machine() -> None:
    assert all(address.is_loopback for address in look_up("localhost"))
