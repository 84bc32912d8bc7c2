"""A subscription that is due again while it is under way: its turn comes, and nothing need remind of it."""

from millstream.server.deliveries.lanes import Lanes


def test_what_is_due_again_while_it_is_under_way_has_its_turn_afterwards() -> None:
    lanes = Lanes(slots=10)
    lanes.add("t", "s", is_failing=False)
    assert lanes.take() == ("t", "s")
    lanes.add("t", "s", is_failing=False)  # the next wake is issued before the attempt has ended
    assert lanes.take() is None
    lanes.finish("t", "s")
    assert lanes.take() == ("t", "s")
    lanes.finish("t", "s")
    assert lanes.take() is None


def test_with_one_slot_what_has_failed_has_its_turn_too() -> None:
    lanes = Lanes(slots=1)
    lanes.add("t", "s", is_failing=True)
    assert lanes.take() == ("t", "s")
