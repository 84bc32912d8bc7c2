"""Counting: where a number of rows or bytes ends, found by reading on the driver.

A server can tell where a number of bytes ends (`lookups.step`), but messages must be read to be counted.
`maxRowsPerTrigger` needs that, and so do servers without `until`, where only a count makes a range exact.
Content is counted as it arrives, and not kept.
"""

from collections.abc import Generator

import msgspec

from millstream.protocol.content import Kind
from millstream.spark.json.messages import Message
from millstream.spark.lookups import Server
from millstream.spark.source.answers import Portion, ResponseEnd, apart, read_answer
from millstream.spark.source.offsets import Position, byte_count
from millstream.spark.source.planning import Range
from millstream.spark.source.ranges import ROW_BYTES, between_characters, read_range

_CHARACTER_BYTES = 4


class Budget(msgspec.Struct, frozen=True):
    """How many rows and bytes may still be taken; None is unlimited."""

    rows: int | None = None
    size: int | None = None

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be taken."""
        return (self.rows is not None and self.rows <= 0) or (self.size is not None and self.size <= 0)

    def without(self, rows: int, size: int) -> "Budget":
        """Return the remaining budget."""
        return Budget(
            None if self.rows is None else self.rows - rows, None if self.size is None else self.size - size
        )

    def fitting(self, values: list[Message]) -> int:
        """Return how many messages fit."""
        most = len(values) if self.rows is None else min(len(values), self.rows)
        if self.size is None:
            return most
        left = self.size
        for number in range(most):
            left -= len(values[number])
            if left < 0:
                return number
        return most


class Counted(msgspec.Struct, frozen=True):
    """Where counting ended, and how much it passed."""

    position: Position
    rows: int
    size: int


def count_on(server: Server, stream: str, start: Position, budget: Budget) -> Counted:
    """Advance from a counted position to the tail, or as far as the budget allows.

    At least one message is taken, so that a message larger than the budget does not block the query.
    """
    at, skip, total = start.offset, start.skip, start.total or 0
    rows = size = 0
    while True:
        reading = read_answer(server, stream, at, skip=skip)
        try:
            while True:
                portion = apart(next(reading))
                taken = _units_within(portion, budget.without(rows, size), is_first=not size)
                passed = _passed(portion, taken)
                rows, size = rows + passed.rows, size + passed.size
                skip, total = skip + taken, total + taken
                if passed.is_cut:
                    return Counted(Position(at, skip, total), rows, size)
        except StopIteration as stop:
            end_of_response: ResponseEnd = stop.value
        finally:
            reading.close()
        if end_of_response.next_offset == at:
            return Counted(Position(at, skip, total), rows, size)
        at, skip = end_of_response.next_offset, 0
        if end_of_response.up_to_date:
            return Counted(Position(at, skip, total), rows, size)


def rows_within(server: Server, one: Range, max_rows: int, *, times: bool = False) -> Counted:
    """Find where a number of rows ends inside a range between two server offsets."""
    rows = size = 0
    reading = read_range(server, one, times=times)
    for found in reading:
        left = max_rows - rows
        values = found.values[:left]
        rows, size = rows + len(values), size + sum(map(len, values))
        if len(found.values) > left or rows == max_rows:
            if isinstance(reading, Generator):
                reading.close()
            number = found.before + (
                len(values) if found.counts_rows else sum(map(len, values)) + found.gap * len(values)
            )
            if byte_count(f"{found.prefix}{number:016d}") is not None:
                position = Position(f"{found.prefix}{number:016d}")
            else:
                position = Position(one.start.offset, number)
            is_end = position.offset == one.end.offset
            return Counted(one.end if is_end else position, rows, size)
    return Counted(one.end, rows, size)


class _Passed(msgspec.Struct, frozen=True):
    rows: int
    size: int
    is_cut: bool


def _units_within(portion: Portion, budget: Budget, *, is_first: bool) -> int:
    if portion.kind is Kind.JSON:
        fitting = budget.fitting(portion.values)
        return max(1, fitting) if is_first else fitting
    size = sum(map(len, portion.values))
    most = size if budget.size is None else budget.size
    if budget.rows is not None:  # rows of text may be a few bytes shorter than the others
        most = min(most, budget.rows * (ROW_BYTES - _CHARACTER_BYTES))
    if most >= size:
        return size
    most = max(most, _CHARACTER_BYTES) if is_first else max(most, 0)
    data = b"".join(portion.values)
    if portion.kind is Kind.TEXT and 0 < most < size:
        return between_characters(data, most)
    return min(most, size)


def _passed(portion: Portion, taken: int) -> _Passed:
    if portion.kind is Kind.JSON:
        return _Passed(taken, sum(map(len, portion.values[:taken])), taken < len(portion.values))
    return _Passed(-(-taken // ROW_BYTES), taken, taken < sum(map(len, portion.values)))
