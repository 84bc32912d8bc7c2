"""Event times: while a query catches up, it reads its streams in the order of the events.

Spark has one watermark for a query: the latest time that it has seen, less a delay. If a micro-batch held
the second day of one stream and only a part of the first day of another, the rest of the first day would be
late. So a batch that cannot hold everything is filled like a merge of sorted files: always from the stream
whose next message is the oldest. Nothing that stays unread is then older than what was read.

Within a stream the order is the stream's: a message counts as no older than those before it, so one that
is out of order by more than the watermark's delay is late all the same. When everything there is fits into a
batch, nothing needs to be looked at.

Merging is pure (`admit_by_time`); a `Lane` fetches what is ahead in one stream, in small pieces.
"""

import datetime
import heapq
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from millstream.spark.json.messages import Message

_AT = "at"

_GAP = 1  # each message is stored with a comma

Fetch = Callable[[str, str], list[Message]]
"""(from, until): some of the messages between two offsets, from the first on."""


class Lane:
    """The unread messages of one stream: the times of some that are next, and where each of them ends."""

    def __init__(self, prefix: str, position: int, fetch: Fetch, time_of: Callable[[Message], float | None]):
        self._prefix = prefix
        self.position = position
        """Where the next message begins."""
        self._fetch = fetch
        self._time_of = time_of
        self._times = array("d")
        self._ends = array("q")
        self._next = 0
        self._latest = float("-inf")
        self._until = ""

    def look(self, until: str) -> None:
        """Set where the stream is known to end."""
        self._until = until

    def offset(self) -> str:
        """Return where the next message begins, as the server writes it."""
        return f"{self._prefix}{self.position:016d}"

    def peek(self) -> float | None:
        """Return the time of the next message, no earlier than any before it; None at the end."""
        if self._next == len(self._times) and not self._read_on():
            return None
        return self._times[self._next]

    def pop(self) -> int:
        """Take the next message, which was peeked at, and return its size."""
        size = self._ends[self._next] - self.position
        self.position = self._ends[self._next]
        self._next += 1
        return size

    def _read_on(self) -> bool:
        if self.offset() >= self._until:
            return False
        messages = self._fetch(self.offset(), self._until)
        self._times, self._ends, self._next = array("d"), array("q"), 0
        end = self.position
        for message in messages:
            time = self._time_of(message)
            if time is not None:
                self._latest = max(self._latest, time)
            end += len(message) + _GAP
            self._times.append(self._latest)
            self._ends.append(end)
        return bool(messages)


def admit_by_time(lanes: Mapping[str, Lane], max_rows: int | None, max_bytes: int | None) -> None:
    """Advance lanes by as many messages as fit, the oldest first; at least by one."""
    waiting = [(time, name) for name, lane in lanes.items() if (time := lane.peek()) is not None]
    heapq.heapify(waiting)
    rows = size = 0
    while waiting:
        _, name = heapq.heappop(waiting)
        lane = lanes[name]
        following = waiting[0] if waiting else (float("inf"), "")
        time = lane.peek()
        while time is not None and (time, name) <= following:
            if rows and (_is_spent(rows, max_rows) or _is_spent(size, max_bytes)):
                return
            size += lane.pop()
            rows += 1
            time = lane.peek()
        if time is not None:
            heapq.heappush(waiting, (time, name))


def _is_spent(taken: int, limit: int | None) -> bool:
    return limit is not None and taken >= limit


def time_reader(field: str) -> Callable[[Message], float | None]:
    """Return a function that reads the event time of a message, in seconds; None if it has none."""
    row = msgspec.defstruct("Timed", [(_AT, Any, None)], rename={_AT: field})
    decode = msgspec.json.Decoder(row).decode

    def time_of(message: Message) -> float | None:
        try:
            return _seconds(getattr(decode(message), _AT))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, OverflowError):
            return None  # a bad record, or text that Spark alone can read

    return time_of


def _seconds(value: Any) -> float | None:
    if isinstance(value, str):
        at = datetime.datetime.fromisoformat(value.strip())
        return (at if at.tzinfo is not None else at.replace(tzinfo=datetime.UTC)).timestamp()
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
