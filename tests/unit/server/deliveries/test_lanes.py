"""Whose turn it is: targets take turns, and what has failed leaves room for what has not."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.server.deliveries.lanes import MAX_PER_TARGET, Lanes


def test_a_target_that_hangs_holds_up_no_other() -> None:
    lanes = Lanes(slots=1000)
    for number in range(1000):
        lanes.add("slow", f"s{number}", is_failing=False)
    while lanes.take() is not None:
        pass
    assert len(lanes.under_way) == MAX_PER_TARGET
    lanes.add("fast", "f", is_failing=False)
    assert lanes.take() == ("fast", "f")


def test_targets_take_turns() -> None:
    lanes = Lanes(slots=6)
    for number in range(5):
        lanes.add("a", f"a{number}", is_failing=False)
    lanes.add("b", "b0", is_failing=False)
    lanes.add("c", "c0", is_failing=False)
    assert [lanes.take() for _ in range(4)] == [("a", "a0"), ("b", "b0"), ("c", "c0"), ("a", "a1")]


def test_what_has_failed_leaves_half_of_the_slots() -> None:
    lanes = Lanes(slots=10)
    for number in range(20):
        lanes.add(f"dead{number}", f"d{number}", is_failing=True)
    while lanes.take() is not None:
        pass
    assert len(lanes.under_way) == 5
    lanes.add("alive", "a", is_failing=False)
    assert lanes.take() == ("alive", "a")


def test_a_subscription_waits_once() -> None:
    lanes = Lanes(slots=10)
    for _ in range(3):
        lanes.add("t", "s", is_failing=False)
    assert lanes.take() == ("t", "s")
    lanes.add("t", "s", is_failing=False)
    assert (lanes.take(), lanes.waiting) == (None, 0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.booleans()), max_size=200),
    st.integers(1, 40),
)
def test_everybody_has_a_turn(added: list[tuple[int, int, bool]], slots: int) -> None:
    lanes = Lanes(slots)
    wanted, had = set(), set()
    for target, key, is_failing in added:
        name = f"{target}-{key}"
        wanted.add(name)
        lanes.add(str(target), name, is_failing=is_failing and slots > 1)
        if slots % 3 == 0 and (found := lanes.take()) is not None:
            had.add(found[1])
            lanes.finish(*found)
    while (found := lanes.take()) is not None:
        had.add(found[1])
        lanes.finish(*found)
    assert had == wanted
    assert (lanes.waiting, lanes.under_way) == (0, set())
