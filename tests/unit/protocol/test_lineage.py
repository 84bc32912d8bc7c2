"""Who owns which bytes of a fork: rule F1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.lineage import Segment, segments


@pytest.mark.parametrize(
    ("bases", "start", "end", "owners"),
    [
        ([0], 0, 10, [(0, 0, 10)]),
        ([0], 4, 4, []),
        ([40, 0], 0, 70, [(1, 0, 40), (0, 40, 70)]),
        ([40, 0], 0, 40, [(1, 0, 40)]),
        ([40, 0], 40, 70, [(0, 40, 70)]),
        ([40, 0], 39, 41, [(1, 39, 40), (0, 40, 41)]),
        ([70, 40, 0], 0, 90, [(2, 0, 40), (1, 40, 70), (0, 70, 90)]),
        ([70, 70, 0], 60, 90, [(2, 60, 70), (0, 70, 90)]),
        ([20, 40, 0], 0, 30, [(2, 0, 20), (0, 20, 30)]),  # its source owns nothing that it sees
        ([20, 40, 30, 0], 10, 50, [(3, 10, 20), (0, 20, 50)]),
        ([0, 40, 0], 0, 5, [(0, 0, 5)]),
    ],
)
def test_each_range_has_one_owner(
    bases: list[int], start: int, end: int, owners: list[tuple[int, int, int]]
) -> None:
    """F1."""
    assert list(segments(bases, start, end)) == [Segment(*owner) for owner in owners]


forks = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=6)


@given(st.integers(0, 20), forks, st.integers(0, 60), st.integers(0, 60))
def test_reading_by_lineage_is_reading_a_copy(
    length: int, chain: list[tuple[int, int]], start: int, end: int
) -> None:
    """F1: a naive server copies everything at the fork; nobody can tell the difference.

    The source also grows after each fork, which no descendant may see.
    """
    copy = [
        (0, position) for position in range(length)
    ]  # which stream wrote each byte, as a copy would have it
    bases, own_end = [0], length
    for level, (branch, growth) in enumerate(chain, start=1):
        base = min(branch, len(copy))
        copy = copy[:base] + [(level, base + position) for position in range(growth)]
        bases.insert(0, base)
        own_end = base + growth
    start, end = min(start, own_end), min(end, own_end)
    depth = len(bases) - 1
    found = [
        (depth - segment.ancestor, position)
        for segment in segments(bases, start, end)
        for position in range(segment.start, segment.end)
    ]
    assert found == copy[start:end]
