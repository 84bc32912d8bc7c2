r"""Message boundaries: where the messages of a stored JSON append end, found once and in small steps.

Stored messages are valid JSON, each followed by a comma (`json_frames`). So a boundary is the position after
a comma that is outside of strings and brackets. Whether a comma is can only be known from the beginning of
its append, and an append may be as large as a body. An `Index` therefore scans an append in windows, each
once and only as far as somebody asks, and keeps little of what it finds:

        windows      |-------------|-------------|-------------|-------------|
        boundaries   | | |||  |  | |             |     | ||  | | |  | |||  | |
        kept         a           b                     c     d   e         f

Of a window that has boundaries, the first and the last one are kept: a run. A run is shorter than a window,
so it is parsed again when a boundary inside of it is needed. Between two runs there is a single message, and
no boundary.

A decision scans one window at most for each boundary that it asks for. If that is not enough, it ends with
`ScanUnfinishedError`; made again, it gets one window further. So its caller can yield in between.
"""

import re
from array import array
from bisect import bisect_right
from typing import Final, Protocol

from millstream.protocol import json_frames

WINDOW_BYTES: Final = 16 * 1024
"""How much is scanned in one go: milliseconds, whatever the content is."""

_QUOTE: Final = ord('"')
_NESTED_LEVELS: Final = 4  # levels of brackets that a pattern skips in one go; deeper ones cost a step each

_STRING = rb'"(?:[^"\\]++|\\.)*+"'


def _balanced(levels: int) -> bytes:
    inner = rb"|" + _balanced(levels - 1) if levels > 1 else b""
    return rb"[\[{](?:[^\"\[\]{}]++|%b%b)*+[\]}]" % (_STRING, inner)


_VALUES = rb"(?:[^\"\[\]{},]++|%b|%b)*+" % (_STRING, _balanced(_NESTED_LEVELS))

_in_string = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_in_brackets = re.compile(rb"(?:[^\"\[\]{}]++|%b|%b)*+" % (_STRING, _balanced(_NESTED_LEVELS)), re.DOTALL)
_values = re.compile(_VALUES, re.DOTALL)
_message = re.compile(_VALUES + b",", re.DOTALL)
_messages = re.compile(b"(?:%b,)*+" % _VALUES, re.DOTALL)
_opening = re.compile(rb"[\[{]++")
_closing = re.compile(rb"[\]}]++")


class ScanUnfinishedError(Exception):
    """More of an append must be scanned before this can be decided: decide again, later."""


class Appends(Protocol):
    """The content of a stream, as far as finding message boundaries needs it."""

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the append that holds the byte at `position`, as its start and end."""
        ...

    def fetch(self, start: int, end: int) -> bytes:
        """Give stored bytes."""
        ...

    def index(self, start: int) -> "Index":
        """Give the index of the large append that begins at `start`: a new one, or one that was kept."""
        ...


class Index:
    """The boundaries of one append, as far as it was scanned."""

    __slots__ = ("_depth", "_in_string", "counts", "firsts", "lasts", "scanned", "total")

    def __init__(self, start: int, end: int | None = None) -> None:
        """Begin an index; with an end, all of the append is one run, and nothing is left to scan."""
        self.firsts = array("Q", [start])
        self.lasts = array("Q", [start if end is None else end])
        self.counts = array("Q", [0])  # messages before the first boundary of each run
        self.scanned = self.lasts[0]
        self.total = 0  # messages that end before `scanned`
        self._depth = 0
        self._in_string = False

    def scan(self, window: bytes) -> None:
        """Scan the bytes that follow; a backslash at the end of the window waits for the next one."""
        size = len(window)
        at = first = last = 0
        while at < size:
            if self._in_string:
                at = _end(_in_string, window, at)
                if at == size or window[at] != _QUOTE:
                    break
                self._in_string = False
                at += 1
                continue
            if self._depth:
                at = _end(_in_brackets, window, at)
            else:
                found = _message.match(window, at)
                if found is not None:
                    first = first or found.end()
                    last = _end(_messages, window, found.end())
                    at = last
                at = _end(_values, window, at)
            if at < size:
                at = self._enter_or_leave(window, at)
        if last:
            run = window[first:last]
            self.firsts.append(self.scanned + first)
            self.lasts.append(self.scanned + last)
            self.counts.append(self.total + 1)
            self.total += 1 + len(json_frames.message_ends(run))
        self.scanned += at or size

    def _enter_or_leave(self, window: bytes, at: int) -> int:
        """Step over brackets that no pattern could skip, or into a string that the window cuts."""
        if window[at] == _QUOTE:
            self._in_string = True
            return at + 1
        if (opening := _opening.match(window, at)) is not None:
            self._depth += opening.end() - at
            return opening.end()
        end = _end(_closing, window, at)
        self._depth = max(0, self._depth - (end - at))
        return max(end, at + 1)


def _end(pattern: re.Pattern[bytes], window: bytes, at: int) -> int:
    found = pattern.match(window, at)
    return found.end() if found is not None else at


class Messages:
    """The messages of one append."""

    __slots__ = ("_appends", "_index", "end", "start")

    def __init__(self, appends: Appends, position: int) -> None:
        """Take the append that holds the byte at `position`."""
        self.start, self.end = appends.bounds(position)
        is_small = self.end - self.start <= WINDOW_BYTES
        self._index = Index(self.start, self.end) if is_small else appends.index(self.start)
        self._appends = appends

    def has_boundary(self, position: int) -> bool:
        """Tell whether a message begins or ends at a position."""
        if position in (self.start, self.end):
            return True
        self._scan_to(position)
        return self._last_until(position) == position

    def last_between(self, after: int, until: int) -> int | None:
        """Give the last boundary in a range, of which the beginning does not count."""
        self._scan_to(until)
        found = self._last_until(until)
        return found if found > after else None

    def first_after(self, position: int) -> int:
        """Give the end of the message that begins at a boundary."""
        found = self._first_known_after(position)
        if found is None:
            self._scan_window()
            found = self._first_known_after(position)
        if found is None:
            raise ScanUnfinishedError
        return found

    def skip(self, position: int, count: int) -> tuple[int, int]:
        """Go on by some messages from a boundary: give where that is, or the end, and by how many it was."""
        index = self._index
        number = self._number_of(position)
        wanted = number + count
        if index.total < wanted and index.scanned < self.end:
            self._scan_window()
            if index.total < wanted and index.scanned < self.end:
                raise ScanUnfinishedError
        run = bisect_right(index.counts, wanted) - 1
        boundaries, inside = self._boundaries(run), wanted - index.counts[run]
        if inside < len(boundaries) and boundaries[inside] <= self.end:
            return boundaries[inside], count
        return self.end, self._number_of(self.end) - number

    def back(self, position: int, count: int) -> tuple[int, int]:
        """Go back by some messages from a boundary, as `skip` goes on."""
        number = self._number_of(position)
        wanted = max(0, number - count)
        run = bisect_right(self._index.counts, wanted) - 1
        return self._boundaries(run)[wanted - self._index.counts[run]], number - wanted

    def _number_of(self, boundary: int) -> int:
        """Count the messages before a boundary."""
        self._scan_to(boundary)
        run = self._run_of(boundary)
        return self._index.counts[run] + self._boundaries(run).index(boundary)

    def _first_known_after(self, position: int) -> int | None:
        index, run = self._index, self._run_of(position)
        if position < index.lasts[run]:
            boundaries = self._boundaries(run)
            return boundaries[bisect_right(boundaries, position)]
        if run + 1 < len(index.firsts):
            return index.firsts[run + 1]
        return self.end if index.scanned >= self.end else None

    def _last_until(self, position: int) -> int:
        run = self._run_of(position)
        if position >= self._index.lasts[run]:
            return self._index.lasts[run]
        boundaries = self._boundaries(run)
        return boundaries[bisect_right(boundaries, position) - 1]

    def _run_of(self, position: int) -> int:
        return bisect_right(self._index.firsts, position) - 1

    def _boundaries(self, run: int) -> list[int]:
        first = self._index.firsts[run]
        last = min(self._index.lasts[run], self.end)  # a fork may see less of the append than was scanned
        ends = json_frames.message_ends(self._appends.fetch(first, last)) if first < last else []
        return [first, *(first + end for end in ends)]

    def _scan_to(self, position: int) -> None:
        if self._index.scanned < position:
            self._scan_window()
            if self._index.scanned < position:
                raise ScanUnfinishedError

    def _scan_window(self) -> None:
        start = self._index.scanned
        self._index.scan(self._appends.fetch(start, min(start + WINDOW_BYTES, self.end)))
