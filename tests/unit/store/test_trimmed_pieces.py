"""Pieces whose oldest are taken away."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.retention import Shared
from millstream.store.pieces import TrimmedPieces


@given(st.lists(st.integers(1, 9), min_size=2, max_size=30), st.data())
def test_what_is_left_is_found_as_before(sizes: list[int], data: st.DataObject) -> None:
    """X4: whatever goes and whatever forks share; and what nobody needs is not held."""
    pieces, whole, ends = TrimmedPieces(0), b"", [0]
    for number, size in enumerate(sizes):
        pieces.append(bytes([number]) * size, number)
        whole += bytes([number]) * size
        ends.append(len(whole))
    first = data.draw(st.integers(0, len(ends) - 1))
    second = data.draw(st.integers(first, len(ends) - 1))
    pieces.trim(ends[first], None)
    shared = Shared(ends[first], first, data.draw(st.integers(ends[first], len(whole))))
    pieces.trim(ends[second], shared)
    readable = {*range(ends[first], min(shared.end, ends[second])), *range(ends[second], len(whole))}
    for position in readable:
        number = whole[position]
        assert pieces.fetch(position, position + 1) == whole[position : position + 1]
        assert pieces.bounds(position) == (ends[number], ends[number + 1])
        assert pieces.count(ends[number]) == number
    if shared.end <= ends[second]:
        held = sum(len(piece) for piece in pieces.all()[0])
        assert held <= len(readable) + max(sizes)
    pieces.trim(ends[second], None)
    assert pieces.fetch(ends[second], len(whole)) == whole[ends[second] :]
    assert sum(len(piece) for piece in pieces.all()[0]) == len(whole) - ends[second]
