"""Decisions that arrive later."""

import asyncio

import pytest

from millstream.store.pending import Pending, settled, when


def test_whoever_waits_is_told_once_in_order() -> None:
    received: list[tuple[str, int]] = []
    pending: Pending[int] = Pending()
    pending.then(lambda value: received.append(("first", value)))
    pending.then(lambda value: received.append(("second", value)))
    pending.settle(7)
    pending.then(lambda value: received.append(("late", value)))
    assert received == [("first", 7), ("second", 7), ("late", 7)]


def test_an_abandoned_decision_tells_nobody_and_says_so_once() -> None:
    received: list[int] = []
    abandoned: list[bool] = []
    pending: Pending[int] = Pending(lambda: abandoned.append(True))
    pending.then(received.append)
    pending.abandon()
    pending.abandon()
    pending.settle(7)
    assert (received, abandoned) == ([], [True])


def test_a_settled_decision_cannot_be_abandoned() -> None:
    abandoned: list[bool] = []
    pending: Pending[int] = Pending(lambda: abandoned.append(True))
    pending.settle(7)
    pending.abandon()
    assert abandoned == []


def test_when_transforms_at_once_or_later() -> None:
    def double(value: int) -> int:
        return 2 * value

    assert when(4, double) == 8
    pending: Pending[int] = Pending()
    received: list[int] = []
    result = when(pending, double)
    assert isinstance(result, Pending)
    result.then(received.append)
    pending.settle(4)
    assert received == [8]


def test_when_waits_for_a_decision_that_leads_to_another() -> None:
    first: Pending[int] = Pending()
    second: Pending[str] = Pending()
    received: list[str] = []
    result = when(first, lambda _: second)
    assert isinstance(result, Pending)
    result.then(received.append)
    first.settle(1)
    assert received == []
    second.settle("done")
    assert received == ["done"]


@pytest.mark.parametrize("after_the_first", [False, True])
def test_abandoning_reaches_whatever_is_being_waited_for(after_the_first: bool) -> None:
    abandoned: list[str] = []
    first: Pending[int] = Pending(lambda: abandoned.append("first"))
    second: Pending[str] = Pending(lambda: abandoned.append("second"))
    result = when(first, lambda _: second)
    assert isinstance(result, Pending)
    if after_the_first:
        first.settle(1)
    result.abandon()
    assert abandoned == ["second" if after_the_first else "first"]


def test_a_decision_can_be_awaited_before_and_after_it_is_made() -> None:
    async def main() -> None:
        pending: Pending[int] = Pending()
        waiting = [asyncio.ensure_future(settled(pending)) for _ in range(2)]
        await asyncio.sleep(0)
        pending.settle(7)
        assert await asyncio.gather(*waiting, settled(pending), settled(8)) == [7, 7, 7, 8]

    asyncio.run(main())


def test_whoever_stops_awaiting_does_not_disturb_the_others() -> None:
    async def main() -> None:
        pending: Pending[int] = Pending()
        leaving, staying = (asyncio.ensure_future(settled(pending)) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
        pending.settle(7)
        assert await staying == 7

    asyncio.run(main())
