"""The budget for request bodies: rule H4."""

import asyncio
import functools
from collections.abc import Callable
from functools import partial

from millstream.server.http.bodies import Bodies, ReadTurns

KIB = 1024
STEP = 100 * KIB  # more than a check asks for


class Holder:
    """A connection that a large body arrives on."""

    def __init__(self, bodies: Bodies, size: int) -> None:
        self.bodies = bodies
        self.size = size
        self.received = 0
        self.held_bytes = 0
        self.state = "new"

    def take(self, more: int = 0) -> "Holder":
        """Receive more of the body, if it is read."""
        if self.state != "refused":
            self.received += more
            self.hold(self.received)
            may_read = self.bodies.claim(self, self.received, self.size)
            self.state = "reads" if self.state == "new" else self.state
            assert may_read == (self.state == "reads")
        return self

    def end(self) -> None:
        """The body is whole, and its request is answered."""
        self.bodies.forget(self)
        self.state = "ended"
        self.hold(0)

    def hold(self, held_bytes: int) -> None:
        before, self.held_bytes = self.held_bytes, held_bytes
        self.bodies.report(held_bytes - before)

    def await_room(self, *, is_slow: bool) -> None:
        self.state = "waits again" if is_slow else "waits"

    def resume_body(self, *, is_slow: bool) -> None:
        self.state = "reads"

    def refuse_body(self) -> None:
        self.state = "refused"
        self.bodies.forget(self)
        self.hold(0)


def states(holders: list[Holder]) -> list[str]:
    return [holder.state for holder in holders]


def check(bodies: Bodies, times: int = 1) -> None:
    """Let the time of some checks pass."""
    for _ in range(times):
        assert bodies._check is not None
        bodies._check.cancel()
        bodies._check_progress()


def on_loop(test: Callable[[], None]) -> Callable[[], None]:
    """Run a test on an event loop, which the checks need."""

    @functools.wraps(test)
    def run() -> None:
        async def main() -> None:
            test()

        asyncio.run(main())

    return run


@on_loop
def test_who_comes_when_there_is_no_room_waits_in_order() -> None:
    bodies = Bodies(1000 * KIB)
    first, second, third, fourth = holders = [Holder(bodies, 450 * KIB) for _ in range(4)]
    for holder in holders:
        holder.take()
    assert states(holders[:2]) == ["reads", "reads"]
    third.take(STEP)  # it had sent that before it was told to wait
    fourth.take(STEP)
    assert states(holders) == ["reads", "reads", "waits", "waits"]
    first.take(450 * KIB)
    assert states(holders) == ["reads", "reads", "waits", "waits"], "it is whole, and not answered yet"
    first.end()
    assert states(holders) == ["ended", "reads", "reads", "waits"]
    second.end()
    assert fourth.state == "reads"
    third.end()
    fourth.end()
    assert (bodies.held_bytes, bodies._missing_bytes, bodies._waiting_bytes) == (0, 0, 0)


@on_loop
def test_who_is_slow_while_others_wait_loses_the_turn_and_waits_behind_them() -> None:
    bodies = Bodies(1000 * KIB)
    quick, slow, waiting, last = holders = [Holder(bodies, 450 * KIB) for _ in range(4)]
    for holder in holders[:2]:
        holder.take(STEP // 4)
    waiting.take(STEP)
    last.take(STEP)
    for _ in range(3):
        quick.take(STEP)
        slow.take(10)
        check(bodies)
    assert states(holders) == ["reads", "waits again", "reads", "waits"]
    waiting.end()
    assert states(holders) == ["reads", "waits again", "ended", "reads"]
    last.end()
    assert slow.state == "reads", "nobody else waits"


@on_loop
def test_nobody_is_slow_while_nobody_waits() -> None:
    bodies = Bodies(1000 * KIB)
    slow = [Holder(bodies, 450 * KIB).take(10) for _ in range(2)]
    assert bodies._check is None
    assert states(slow) == ["reads", "reads"]


@on_loop
def test_what_slow_ones_hold_is_given_up_when_it_is_needed() -> None:
    bodies = Bodies(1000 * KIB)
    slow = [Holder(bodies, 450 * KIB).take(size * KIB) for size in (400, 440)]
    honest = Holder(bodies, 450 * KIB).take()
    check(bodies, 3)
    assert states([*slow, honest]) == ["reads", "refused", "reads"], "there is room for the other"


@on_loop
def test_bodies_that_wait_for_nothing_are_tried_together() -> None:
    """So many stalled ones hold up an honest one for the time of one trial."""
    bodies = Bodies(48 * 1024 * KIB)
    stalled = [Holder(bodies, 16 * 1024 * KIB).take() for _ in range(18)]
    honest = Holder(bodies, 15 * 1024 * KIB).take()
    assert states(stalled) == ["reads"] * 3 + ["waits"] * 15
    check(bodies, 3)
    assert states([*stalled, honest]) == ["waits again"] * 3 + ["reads"] * 16
    honest.take(STEP)
    check(bodies, 2)
    assert not bodies._arriving[honest].is_on_trial
    assert states(stalled).count("reads") == 16, "they are tried again, behind it"


@on_loop
def test_who_has_shown_to_be_quick_is_the_next() -> None:
    bodies = Bodies(1000 * KIB)
    first, second, third = holders = [Holder(bodies, 600 * KIB) for _ in range(3)]
    for holder in holders:
        holder.take()
    assert states(holders) == ["reads", "reads", "waits"], "there is room for a little of the second"
    second.take(STEP)
    assert second.state == "waits"
    first.end()
    assert states([second, third]) == ["reads", "reads"]
    assert not bodies._arriving[second].is_on_trial
    assert bodies._arriving[third].is_on_trial


@on_loop
def test_newcomers_are_refused_while_those_that_wait_hold_too_much() -> None:
    bodies = Bodies(1000 * KIB)
    Holder(bodies, 1000 * KIB).take(STEP)
    waiting = [Holder(bodies, 1000 * KIB).take(STEP) for _ in range(3)]
    assert states(waiting) == ["waits", "waits", "refused"]


@on_loop
def test_a_body_larger_than_the_room_for_all_is_refused() -> None:
    bodies = Bodies(100 * KIB)
    assert Holder(bodies, 200 * KIB).take(90 * KIB).take(20 * KIB).state == "refused"
    assert bodies.held_bytes == 0
    assert not bodies._arriving


@on_loop
def test_other_bodies_take_room_and_never_wait() -> None:
    bodies = Bodies(1000 * KIB)
    bodies.report(600 * KIB)
    large = Holder(bodies, 500 * KIB).take(STEP)
    bodies.report(-600 * KIB)
    assert large.state == "reads"


def test_however_many_bodies_arrive_a_few_are_read_in_a_turn_in_their_order() -> None:
    async def main() -> None:
        turns, read, reads_by_turn = ReadTurns(), list[int](), []
        for number in range(9):
            turns.add(partial(read.append, number))
        while sum(reads_by_turn) < 9:
            await asyncio.sleep(0)
            reads_by_turn.append(len(read) - sum(reads_by_turn))
        assert max(reads_by_turn) == 2
        assert read == list(range(9))
        turns.add(partial(read.append, 9))
        await asyncio.sleep(0)
        assert read[-1] == 9

    asyncio.run(main())
