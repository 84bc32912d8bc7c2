"""Lineage: which stream owns which bytes of a fork.

A fork shares its source's offsets. It owns the bytes from its base on; what lies before belongs to
its source, which may be a fork itself:

        source    0 ----------- 40 ~ ~ ~ ~ ~ ~        (grows on, unseen by its forks)
        fork                    40 --------- 70 ~ ~   base 40
        its fork                             70 ---   base 70

A fork may also branch off inside what its source inherited; then its base is before its source's,
and its source owns nothing that it sees.

PROTOCOL.md 4.2; rule F1.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A range of bytes and the ancestor that keeps them: 0 is the stream itself, 1 its source, ..."""

    ancestor: int
    start: int
    end: int


def segments(bases: Sequence[int], start: int, end: int) -> Iterator[Segment]:
    """Split [start, end) by owner, in order; `bases` are those of the stream and of its ancestors."""
    ceilings = list(accumulate(bases[:-1], min, initial=end))  # nobody sees past a descendant's base
    for ancestor in range(len(bases) - 1, -1, -1):
        owned_end = ceilings[ancestor]
        if bases[ancestor] <= start < owned_end:
            yield Segment(ancestor, start, owned_end)
            start = owned_end
