"""Lineage: which stream owns which bytes of a fork.

A fork shares its source's offsets. It owns the bytes from its base on; those before it belong to its
source, which may be a fork itself:

        source    0 ----------- 40 ~ ~ ~ ~ ~ ~        (its forks do not see what it appends later)
        fork                    40 --------- 70 ~ ~   base 40
        its fork                             70 ---   base 70

A fork may also begin inside the bytes that its source inherited. Then its base is before its source's,
and it reads none of its source's own bytes.

PROTOCOL.md 4.2; rules F1, F3.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A range of bytes and the ancestor that owns them: 0 is the stream itself, 1 its source, ..."""

    ancestor: int
    start: int
    end: int


def segments(bases: Sequence[int], start: int, end: int) -> Iterator[Segment]:
    """Split [start, end) by owner, in order; `bases` are those of the stream and of its ancestors."""
    # A fork reads its ancestors up to its own base only.
    ceilings = list(accumulate(bases[:-1], min, initial=end))
    for ancestor in range(len(bases) - 1, -1, -1):
        owned_end = ceilings[ancestor]
        if bases[ancestor] <= start < owned_end:
            yield Segment(ancestor, start, owned_end)
            start = owned_end
