"""Pieces in memory: found by where they begin, in whichever order they came."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.postgres.loaded.held import Held


@given(st.lists(st.integers(0, 30)), st.integers(0, 31))
def test_pieces_are_found_where_they_begin(starts: list[int], position: int) -> None:
    held: Held[int] = Held()
    known: dict[int, int] = {}
    for number, start in enumerate(starts):
        held.put(start, number)
        known[start] = number
    assert len(held) == len(known)
    assert [held.at(start) for start in range(31)] == [known.get(start) for start in range(31)]
    before = [start for start in known if start <= position]
    assert held.find(position) == ((max(before), known[max(before)]) if before else None)
    after = [start for start in known if start >= position]
    assert held.after(position) == ((min(after), known[min(after)]) if after else None)
    assert held.last() == (known[max(known)] if known else None)


def test_what_was_used_longest_ago_is_dropped_first() -> None:
    held: Held[str] = Held()
    for start in range(10):
        held.put(start, str(start))
    held.find(2)
    assert held.at(3) == "3"
    assert held.drop_half() == ["0", "1", "4", "5", "6", "7"]
    assert [held.at(start) for start in (2, 3, 8, 9)] == ["2", "3", "8", "9"]
