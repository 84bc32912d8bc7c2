"""Work in slices: others have their turn, and one step's failure is its own."""

import asyncio
import time

import pytest

from millstream.protocol.boundaries import ScanUnfinishedError
from millstream.protocol.errors import MalformedError
from millstream.protocol.reads import ReadFailed
from millstream.store.pending import Pending
from millstream.store.slices import Slices


def test_others_have_their_turn_however_many_wait() -> None:
    async def main() -> None:
        slices, done = Slices(), []

        def step() -> None:
            time.sleep(0.003)  # more than a turn's worth
            done.append(None)

        for _ in range(20):
            slices.add(step)
        turns = 0
        while len(done) < 20:
            before = len(done)
            await asyncio.sleep(0)
            assert len(done) <= before + 1
            turns += 1
        assert turns >= 20

    asyncio.run(main())


def test_steps_take_turns() -> None:
    async def main() -> None:
        slices, order = Slices(), []

        def step(name: str, left: int) -> None:
            order.append(name)
            if left:
                slices.add(lambda: step(name, left - 1))

        slices.add(lambda: step("a", 2))
        slices.add(lambda: step("b", 2))
        while len(order) < 6:  # noqa: ASYNC110  turns are what it waits for
            await asyncio.sleep(0)
        assert order == ["a", "b"] * 3

    asyncio.run(main())


def test_a_step_that_fails_does_not_stop_the_others() -> None:
    async def main() -> list[object]:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: errors.append(about["exception"]))
        slices, done = Slices(), asyncio.Event()

        def fail() -> None:
            raise ValueError

        slices.add(fail)
        slices.add(done.set)
        await asyncio.wait_for(done.wait(), 60)
        return errors

    assert [type(error) for error in asyncio.run(main())] == [ValueError]


def test_a_decision_is_tried_until_it_is_made() -> None:
    async def main() -> None:
        attempts = 0

        def attempt() -> str:
            nonlocal attempts
            attempts += 1
            if attempts < 5:
                raise ScanUnfinishedError
            return "decided"

        assert await Slices().decide(attempt) == "decided"
        assert attempts == 5

    asyncio.run(main())


def test_a_decision_that_waits_for_the_disk_is_waited_for() -> None:
    async def main() -> None:
        later: Pending[str] = Pending()
        pending = Slices().decide(lambda: later)
        asyncio.get_running_loop().call_later(0.01, later.settle, "durable")
        assert await pending == "durable"

    asyncio.run(main())


def test_a_decision_that_nobody_waits_for_is_not_made() -> None:
    async def main() -> None:
        slices, attempts = Slices(), []
        slices.decide(lambda: attempts.append(None)).abandon()
        done = asyncio.Event()
        slices.add(done.set)
        await done.wait()
        assert attempts == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (OSError("no such file"), ReadFailed()),
        (MalformedError("CODE", "Why."), MalformedError("CODE", "Why.")),
    ],
)
def test_an_error_in_a_later_attempt_is_the_decision(error: Exception, decision: object) -> None:
    """There is no caller any more to raise it to, and one that waits must hear of it."""

    def attempt() -> None:
        raise error

    async def main() -> object:
        return await Slices().decide(attempt)

    found = asyncio.run(main())
    assert found == decision or found is error
