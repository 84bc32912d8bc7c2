"""Planning: from two offsets of a query to the partitions that executors read.

Pure. Where a range can be split is looked up by the function `step`, an argument. Streams are immutable,
so the same two offsets always give the same partitions.

        start, end -> ranges, one for each stream that moved
                   -> split if larger than the target, at offsets from the server
                   -> packed if smaller
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from millstream.spark.source.offsets import Position, Positions, bytes_between

Step = Callable[[str, str, str, int], str]
"""(stream, from, until, bytes): where a read of about that many bytes would end."""

_NEARLY = 7 / 8


class Range(msgspec.Struct, frozen=True):
    """Part of one stream, to be read exactly."""

    stream: str
    start: Position
    end: Position

    @property
    def ends_stream(self) -> bool:
        """Whether the stream's end is at the end of this range."""
        return self.end.closed and not self.start.closed

    @property
    def size(self) -> int | None:
        """The number of bytes; None if offsets do not count bytes."""
        if self.start.total is not None or self.start.skip or self.end.skip:
            return None
        return bytes_between(self.start.offset, self.end.offset)


Partition = tuple[Range, ...]


def partitions(
    start: Positions,
    end: Positions,
    step: Step,
    *,
    partition_bytes: int,
    min_partitions: int | None = None,
    shows_closed: bool = False,
) -> list[Partition]:
    """Plan what lies between two offsets of a query."""
    found = list(_ranges(start, end, shows_closed))
    target = _target_bytes(found, partition_bytes, min_partitions)
    return list(_pack([part for one in found for part in _split(one, target, step)], target))


def _ranges(start: Positions, end: Positions, shows_closed: bool) -> Iterator[Range]:
    for name in sorted(end):
        begin = start.get(name)
        if begin is None:
            continue  # a new stream joins at its beginning; its content comes with the next batch
        one = Range(name, begin, end[name])
        if begin.is_of_another(one.end.incarnation) or (one.size is not None and one.size < 0):
            continue  # a recreated stream starts over; its content comes with the next batch
        if not begin.same_place(end[name]) or (shows_closed and one.ends_stream):
            yield one


def _target_bytes(ranges: Iterable[Range], partition_bytes: int, min_partitions: int | None) -> int:
    if min_partitions is None:
        return partition_bytes
    total = sum(one.size or 0 for one in ranges)
    return max(1, min(partition_bytes, -(-total // min_partitions)))


def _split(one: Range, target: int, step: Step) -> Iterator[Range]:
    """Split a range into parts of about the target's size."""
    begin = one.start
    while (size := bytes_between(begin.offset, one.end.offset)) and one.size and size > target:
        cut = _walk(one, begin.offset, target, step)
        if cut == one.end.offset:
            break
        between = Position(cut, incarnation=one.start.incarnation)
        yield Range(one.stream, begin, between)
        begin = between
    yield Range(one.stream, begin, one.end)


def _walk(one: Range, start: str, target: int, step: Step) -> str:
    """Find an offset about `target` bytes further; a step is at most the size of a response."""
    at = start
    while at != one.end.offset:
        gone = bytes_between(start, at) or 0
        if gone >= target * _NEARLY:
            break
        reached = step(one.stream, at, one.end.offset, target - gone)
        if reached == at:
            return one.end.offset  # it cannot be split; the reader will report why
        if gone and (bytes_between(start, reached) or 0) > target:
            break  # the next message is too large for what is left
        at = reached
    return at


def _pack(ranges: Iterable[Range], target: int) -> Iterator[Partition]:
    """Pack small ranges together; one of unknown size stays alone."""
    packed: list[Range] = []
    size = 0
    for one in ranges:
        if packed and (one.size is None or size + one.size > target):
            yield tuple(packed)
            packed, size = [], 0
        packed.append(one)
        size += one.size if one.size is not None else target
    if packed:
        yield tuple(packed)


# -- Admission -------------------------------------------------------------------------------------


def admit_bytes(start: Positions, end: Positions, max_bytes: int, step: Step) -> dict[str, Position]:
    """Lower `end` to about `max_bytes` after `start`, divided among streams in proportion to their lag.

    A stream whose next message alone is larger waits, unless it would be the batch's only one.
    """
    lags = {name: Range(name, start[name], end[name]).size or 0 for name in end}
    total = sum(lags.values())
    if total <= max_bytes:
        return dict(end)
    admitted = dict(start)
    left = max_bytes
    for name in sorted(lags, key=lambda name: (-lags[name], name)):
        if not lags[name]:
            admitted[name] = end[name]
            continue
        if left <= 0:
            continue
        share = min(left, max(1, max_bytes * lags[name] // total))
        cut = _walk(Range(name, start[name], end[name]), start[name].offset, share, step)
        taken = bytes_between(start[name].offset, cut) or 0
        if taken > left and left < max_bytes:
            continue
        admitted[name] = end[name] if cut == end[name].offset else Position(cut)
        left -= taken
    return admitted
