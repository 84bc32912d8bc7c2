"""The budget for request bodies: rule H4."""

import asyncio
from functools import partial

from millstream.server.http.bodies import Bodies, ReadTurns


class Holder:
    """A connection that holds bytes of a body."""

    def __init__(self, bodies: Bodies) -> None:
        self.bodies = bodies
        self.held_bytes = 0
        self.is_refused = False

    def hold(self, held_bytes: int, *, is_arriving: bool = True) -> None:
        before, self.held_bytes = self.held_bytes, held_bytes
        self.bodies.report(self, held_bytes - before, is_arriving=is_arriving)

    def refuse_body(self) -> None:
        self.is_refused = True
        self.hold(0, is_arriving=False)


def test_the_body_that_began_first_is_given_up() -> None:
    bodies = Bodies(100)
    holders = [Holder(bodies) for _ in range(4)]
    for holder in holders[:3]:
        holder.hold(30)
    holders[0].hold(32)  # it goes on, and is still the first
    holders[3].hold(30)
    assert [holder.is_refused for holder in holders] == [True, False, False, False]
    assert bodies.held_bytes == 90


def test_as_many_are_given_up_as_it_takes() -> None:
    bodies = Bodies(100)
    holders = [Holder(bodies) for _ in range(5)]
    for holder in holders:
        holder.hold(20)
    holders[4].hold(70)
    assert [holder.is_refused for holder in holders] == [True, True, True, False, False]


def test_bodies_that_are_whole_or_small_are_counted_and_not_given_up() -> None:
    bodies = Bodies(100)
    whole, small, late = Holder(bodies), Holder(bodies), Holder(bodies)
    whole.hold(60)
    whole.hold(60, is_arriving=False)
    small.hold(30, is_arriving=False)
    late.hold(20)
    assert [whole.is_refused, small.is_refused, late.is_refused] == [False, False, True]
    whole.hold(0, is_arriving=False)
    small.hold(0, is_arriving=False)
    assert bodies.held_bytes == 0
    assert not bodies._arriving


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
