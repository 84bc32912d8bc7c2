"""Ranges: exactly the rows between two positions of a stream, again and again the same.

With `until` the server ends the range. Without it the range ends by count: the totals of its two
positions say how many messages, or bytes, it holds, however much has been appended since.

A row is a message of JSON. Other content has no messages: its rows are pieces of at most
`ROW_BYTES`, counted from the range's beginning and, in text, cut between characters.

A row's offset is where to read on after it. Where offsets count bytes it is computed; elsewhere it
is the range's first offset and how many units follow it: `1f_3+0000000000000002`.
"""

from collections.abc import Iterator

import msgspec
import numpy

from millstream.client.core import errors
from millstream.protocol.content import Kind
from millstream.spark.json.messages import Message, Numbers
from millstream.spark.lookups import Server
from millstream.spark.source.answers import Portion, Whole, apart, first_units, read_answer, units
from millstream.spark.source.offsets import byte_count, bytes_between
from millstream.spark.source.planning import Range

ROW_BYTES = 64 * 2**10


class Rows(msgspec.Struct, frozen=True, gc=False):
    """Some rows of one stream. Row i ends at `prefix` and the 16 digits of its number.

    Numbers count on from `before`: rows where `counts_rows`, else bytes, with `gap` more for each row.
    """

    stream: str
    kind: Kind
    content_type: str
    values: list[Message]
    lengths: Numbers
    prefix: str
    before: int
    gap: int
    counts_rows: bool


class Unsplit(msgspec.Struct, frozen=True, gc=False):
    """Messages of one stream, as an array."""

    stream: str
    whole: Whole

    def rows(self) -> Rows:
        """Take them apart, after all; their offsets mean nothing."""
        portion = apart(self.whole)
        return _rows(self.stream, portion, portion.values, "", 0, 0, counts_rows=True)


class RangeError(errors.MillstreamError):
    """What lies between two positions is not what was there when they were planned."""

    default_code = "RANGE_CHANGED"


def read_range(server: Server, one: Range) -> Iterator[Rows]:
    """Give the rows of a range."""
    numbering = _Numbering(one)
    cutter = _Cutter()
    for found in _content(server, one):
        portion = apart(found)
        values = portion.values if portion.kind is Kind.JSON else cutter.feed(portion)
        if values:
            yield numbering.rows(portion, values)
    if cutter.held:
        yield numbering.rows(cutter.last, [cutter.held])


def read_messages(server: Server, one: Range) -> Iterator[Rows | Unsplit]:
    """Give a range for those who want neither offsets nor text: whole answers stay in one piece."""
    numbering = _Numbering(one)
    for found in _content(server, one):
        if isinstance(found, Whole):
            yield Unsplit(one.stream, found)
        elif found.values:
            yield numbering.rows(found, found.values)


def _content(server: Server, one: Range) -> Iterator[Portion | Whole]:
    at, skip = one.start.offset, one.start.skip
    bounded = one.start.total is None or one.end.total is None
    left = 0 if bounded else (one.end.total or 0) - (one.start.total or 0)
    until = one.end.offset if bounded else None
    while at != until if bounded else left > 0:
        reading = read_answer(server, one.stream, at, until, skip)
        try:
            while True:
                found = next(reading)
                if bounded:
                    yield found
                    continue
                portion = first_units(apart(found), left)
                left -= units(portion)
                yield portion
                if left == 0:
                    return
        except StopIteration as stop:
            told = stop.value
        finally:
            reading.close()
        if told.next_offset == at:
            raise RangeError(
                f"The stream ends at {at}, before {one.end.offset}, which it had reached earlier",
                url=server.endpoint(one.stream).url,
                offset=at,
            )
        at, skip = told.next_offset, 0


class _Numbering:
    """Where each row ends."""

    def __init__(self, one: Range) -> None:
        self._stream = one.stream
        found = byte_count(one.start.offset)
        exact = one.start.total is None and not one.start.skip
        self._by_bytes = (
            exact and found is not None and bytes_between(one.start.offset, one.end.offset) is not None
        )
        if self._by_bytes and found is not None:
            self._prefix, self._number = f"{found[0]}_", found[1]
        else:
            self._prefix, self._number = f"{one.start.offset}+", one.start.skip

    def rows(self, portion: Portion, values: list[Message]) -> Rows:
        is_json = portion.kind is Kind.JSON
        gap = 1 if is_json and self._by_bytes else 0  # each message is stored with a comma
        counts_rows = is_json and not self._by_bytes
        made = _rows(self._stream, portion, values, self._prefix, self._number, gap, counts_rows=counts_rows)
        self._number += len(values) if counts_rows else int(made.lengths.sum()) + gap * len(values)
        return made


def _rows(
    stream: str,
    portion: Portion,
    values: list[Message],
    prefix: str,
    before: int,
    gap: int,
    *,
    counts_rows: bool,
) -> Rows:
    lengths = numpy.fromiter(map(len, values), numpy.int64, len(values))
    return Rows(stream, portion.kind, portion.content_type, values, lengths, prefix, before, gap, counts_rows)


class _Cutter:
    """Cuts content without messages into rows."""

    def __init__(self) -> None:
        self.held = b""
        self.last = Portion(Kind.BINARY, "", [])

    def feed(self, portion: Portion) -> list[Message]:
        self.last = portion
        data = b"".join([self.held, *portion.values])
        rows: list[Message] = []
        at = 0
        while len(data) - at > ROW_BYTES:
            end = at + ROW_BYTES
            if portion.kind is Kind.TEXT:
                end = between_characters(data, end)
            rows.append(data[at:end])
            at = end
        self.held = data[at:]
        return rows


def between_characters(data: bytes, position: int) -> int:
    """Step back to where a character of UTF-8 begins; what is not UTF-8 is cut where it is."""
    for end in range(position, position - 4, -1):
        if data[end] & 0xC0 != 0x80:
            return end
    return position


def end_of(one: Range) -> str:
    """Write where a range ends as a row's offset."""
    return one.end.offset if not one.end.skip else f"{one.end.offset}+{one.end.skip:016d}"
