"""Ranges: exactly the rows between two positions of a stream, the same on every read.

With `until` the server ends the range. Without it the range ends by count: the totals of its positions
tell how many messages or bytes it holds, however much was appended since.

A row is one JSON message. Other content has no messages: its rows are blocks of at most `ROW_BYTES`,
counted from the beginning of the range; text is split between characters.

A row's offset is where to resume after it. If offsets count bytes it is computed; otherwise it is the
range's first offset and the number of units after it: `1f_3+0000000000000002`.
"""

from collections.abc import Iterator

import msgspec
import numpy

from millstream.client.core import errors
from millstream.protocol.content import Kind
from millstream.spark.json.messages import Message, Numbers
from millstream.spark.json.splitting import count_elements
from millstream.spark.lookups import Server
from millstream.spark.source.answers import Portion, Whole, apart, first_units, read_answer, units
from millstream.spark.source.offsets import byte_count, bytes_between
from millstream.spark.source.planning import Range

ROW_BYTES = 64 * 2**10


class Rows(msgspec.Struct, frozen=True, gc=False):
    """Some rows of one stream. Row i ends at `prefix` and the 16 digits of its number.

    Numbers continue from `before`: they count rows if `counts_rows`, else bytes plus `gap` for each row.
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
    time: str | None = None
    """When they arrived, if that was asked for."""


class Unsplit(msgspec.Struct, frozen=True, gc=False):
    """Messages of one stream, as an array that is not split yet."""

    stream: str
    whole: Whole

    def rows(self) -> Rows:
        """Split them; their offsets are not computed."""
        portion = apart(self.whole)
        return _rows(self.stream, portion, portion.values, "", 0, 0, counts_rows=True)


class RangeError(errors.MillstreamError):
    """The content between two positions is no longer what was planned."""

    default_code = "RANGE_CHANGED"


def read_range(server: Server, one: Range, *, times: bool = False) -> Iterator[Rows]:
    """Iterate over the rows of a range; with `times`, each row is of one time."""
    numbering = _Numbering(one)
    cutter = _Cutter()
    for found in _content(server, one, times):
        portion = apart(found)
        if times and cutter.held and portion.time != cutter.last.time and (ended := cutter.cut()):
            yield numbering.rows(cutter.last, ended)
        values = portion.values if portion.kind is Kind.JSON else cutter.feed(portion)
        if values:
            yield numbering.rows(portion, values)
    if cutter.held:
        yield numbering.rows(cutter.last, [cutter.held])


def read_messages(server: Server, one: Range, *, times: bool = False) -> Iterator[Rows | Unsplit]:
    """Like `read_range`, for callers that need neither offsets nor text: complete responses stay unsplit."""
    numbering = _Numbering(one)
    for found in _content(server, one, times):
        if isinstance(found, Whole):
            yield Unsplit(one.stream, found)
        elif found.values:
            yield numbering.rows(found, found.values)


def count_rows(server: Server, one: Range) -> int:
    """Count the rows of a range without making them."""
    cutter, rows = _Cutter(), 0
    for found in _content(server, one, times=False):
        if isinstance(found, Whole):
            rows += count_elements(found.array)
        else:
            rows += len(found.values if found.kind is Kind.JSON else cutter.feed(found))
    return rows + bool(cutter.held)


def _content(server: Server, one: Range, times: bool) -> Iterator[Portion | Whole]:
    at, skip = one.start.offset, one.start.skip
    bounded = one.start.total is None or one.end.total is None
    left = 0 if bounded else (one.end.total or 0) - (one.start.total or 0)
    until = one.end.offset if bounded else None
    while at != until if bounded else left > 0:
        reading = read_answer(server, one.stream, at, until, skip, one.start.incarnation, times=times)
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
            end_of_response = stop.value
        finally:
            reading.close()
        if end_of_response.next_offset == at:
            raise RangeError(
                f"The stream ends at {at}, before {one.end.offset}, which it had reached earlier",
                url=server.endpoint(one.stream).url,
                offset=at,
            )
        at, skip = end_of_response.next_offset, 0


class _Numbering:
    """Computes where each row ends."""

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
    return Rows(
        stream,
        portion.kind,
        portion.content_type,
        values,
        lengths,
        prefix,
        before,
        gap,
        counts_rows,
        portion.time,
    )


class _Cutter:
    """Splits content without messages into rows."""

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

    def cut(self) -> list[Message]:
        """End a row here, but not inside a character."""
        end = len(self.held)
        if self.last.kind is Kind.TEXT:
            end = complete_characters(self.held)
        row, self.held = self.held[:end], self.held[end:]
        return [row] if row else []


def between_characters(data: bytes, position: int) -> int:
    """Step back to the beginning of a UTF-8 character; other bytes are split where they are."""
    for end in range(position, position - 4, -1):
        if data[end] & 0xC0 != 0x80:
            return end
    return position


def complete_characters(data: bytes) -> int:
    """Return how many bytes there are before a UTF-8 character that has only begun."""
    for back in range(1, min(len(data), 3) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return len(data) - back if needed > back else len(data)
    return len(data)


def end_of(one: Range) -> str:
    """Format the end of a range as a row's offset."""
    return one.end.offset if not one.end.skip else f"{one.end.offset}+{one.end.skip:016d}"
