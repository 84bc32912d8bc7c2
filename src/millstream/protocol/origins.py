"""Origins: where a read begins that names no offset, but a time or a number of messages before the end.

        offset=time:2030-01-31T12:00:00Z   the first append that arrived at that time or later
        offset=time:-10m                   the same, ten minutes before the request
        offset=last:20                     the last 20 messages of a JSON stream, or 20 appends of another

An origin is resolved once, against what readers see at that moment; from then on the reader has offsets,
which the response says. Past the tail it is the tail, before what is kept it is where that begins.

The last messages are counted backwards, some kilobytes at a time: whole appends, as long as they are small. A
large one is scanned from its beginning (`boundaries`). Both may take several turns: `Search` keeps how far
it came, and raises `ScanUnfinishedError` in between.

Rules X7, X8.
"""

import re
from typing import Final, Protocol

import msgspec

from millstream.protocol import json_frames
from millstream.protocol.boundaries import WINDOW_BYTES, Appends, Messages, ScanUnfinishedError
from millstream.protocol.content import JSON, Kind
from millstream.protocol.errors import MalformedError
from millstream.protocol.times import parse_timestamp_ms

MAX_LAST: Final = 100_000
"""Most messages that a read may ask to begin before the end."""

_TIME: Final = b"time:"
_LAST: Final = b"last:"
_AGO = re.compile(rb"-(\d{1,12})([smhd])", re.ASCII)
_UNITS_MS: Final = {b"s": 1_000, b"m": 60_000, b"h": 3_600_000, b"d": 86_400_000}


class Since(msgspec.Struct, frozen=True, gc=False):
    """The first append that arrived at a time or later."""

    time_ms: int


class Ago(msgspec.Struct, frozen=True, gc=False):
    """The first append that arrived at most so long before the request."""

    duration_ms: int


class Last(msgspec.Struct, frozen=True, gc=False):
    """So many messages before the end, or appends of a stream that is not JSON."""

    count: int


Origin = Since | Ago | Last


def is_origin(text: bytes) -> bool:
    """Tell whether the value of `offset` is an origin rather than an offset."""
    return text.startswith((_TIME, _LAST))


def parse_origin(text: bytes) -> Origin:
    """Read an origin; anything else is malformed."""
    if text.startswith(_LAST):
        return _parse_last(text[len(_LAST) :])
    return _parse_time(text[len(_TIME) :])


def _parse_last(count: bytes) -> Last:
    if not count.isdigit() or (count[:1] == b"0" and count != b"0"):
        raise MalformedError("INVALID_LAST", "last: is followed by how many messages, such as last:20.")
    if len(count) > len(str(MAX_LAST)) or int(count) > MAX_LAST:
        raise MalformedError("INVALID_LAST", f"last: is followed by a number of at most {MAX_LAST}.")
    return Last(int(count))


def _parse_time(text: bytes) -> Since | Ago:
    if (ago := _AGO.fullmatch(text)) is not None:
        return Ago(int(ago[1]) * _UNITS_MS[ago[2]])
    if text[:1] == b"-":
        raise MalformedError(
            "INVALID_TIMESTAMP",
            "A time before now is a whole number and s, m, h or d, such as time:-10m.",
        )
    if b" " in text:
        raise MalformedError("INVALID_TIMESTAMP", "A plus sign in a URL is written as %2B.")
    return Since(parse_timestamp_ms(text, "What follows time:", round_up=True))


class TimedAppends(Appends, Protocol):
    """The content of a stream, as far as finding an origin needs it."""

    def first_since(self, time_ms: int) -> int:
        """Give where the first visible append of a time or later begins; the tail if there is none."""
        ...

    def start_of_last(self, count: int) -> int:
        """Give where the last so many visible appends begin."""
        ...


class Search:
    """The search for an origin in one stream."""

    __slots__ = ("_left", "_origin", "position", "tail")

    def __init__(self, origin: Origin, tail: int, now_ms: int) -> None:
        self._origin = Since(now_ms - origin.duration_ms) if isinstance(origin, Ago) else origin
        self._left = origin.count if isinstance(origin, Last) else 0
        self.position = tail
        self.tail = tail
        """Where the stream ended when the search began; what came later is not counted."""

    def find(self, kind: Kind, earliest: int, appends: TimedAppends) -> int:
        """Find where to begin; raise `ScanUnfinishedError` when that takes another turn."""
        origin = self._origin
        if isinstance(origin, Since):
            return max(earliest, appends.first_since(origin.time_ms))
        if kind is not JSON:
            return max(earliest, appends.start_of_last(self._left))
        while self._left and self.position > earliest:
            if self._step_back(earliest, appends):
                raise ScanUnfinishedError
        return max(earliest, self.position)

    def _step_back(self, earliest: int, appends: Appends) -> bool:
        """Count some messages more; tells whether there are still more to count."""
        start, _ = appends.bounds(self.position - 1)
        if self.position - start > WINDOW_BYTES:
            messages = Messages(appends, self.position - 1)
            self.position, counted = messages.back(self.position, self._left)
        else:
            counted = self._count_small(earliest, appends)
        self._left -= counted
        return self._left > 0 and self.position > earliest

    def _count_small(self, earliest: int, appends: Appends) -> int:
        """Count the messages of small appends, about a window of them."""
        start = max(earliest, self.position - WINDOW_BYTES)
        if start > earliest:
            begin, end = appends.bounds(start)
            start = begin if start - begin <= WINDOW_BYTES else end
        ends = json_frames.message_ends(appends.fetch(start, self.position))
        counted = min(self._left, len(ends))
        self.position = start + (ends[-counted - 1] if counted < len(ends) else 0)
        return counted
