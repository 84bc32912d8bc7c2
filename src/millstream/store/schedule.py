"""The schedule: which streams have to be looked at without being asked for, and when.

A stream is due when its TTL ends or when its oldest bytes are too old to be kept. A renewal only moves
that time later, so the heap is not touched by it: a stream that turns out not to be due is watched anew.
A stream that holds more bytes than it may is due at once.
"""

import heapq
from collections.abc import Iterator, Mapping

from millstream.protocol.retention import is_overfull
from millstream.store.entries import NOT_WATCHED, StreamEntry

_SPARE_DEADLINES = 5_000
_PARTS_INTERVAL_MS = 60_000
"""How often parts are checked that no request touches; a request drops expired ones on time."""


class Schedule:
    """What is due when."""

    def __init__(self) -> None:
        self._deadlines: list[tuple[int, int, str]] = []  # names, not entries: those would stay in memory
        self._overfull: dict[int, StreamEntry] = {}
        self._to_trim: list[StreamEntry] = []  # what was overfull, and is not yet given to be trimmed
        self._with_parts: dict[int, StreamEntry] = {}
        self._parts_checked_ms = 0

    def watch(self, entry: StreamEntry) -> None:
        """Make sure that a stream is looked at when it is due."""
        stream = entry.stream
        due_ms = stream.due_ms
        if due_ms is not None and due_ms < entry.watched_ms:
            entry.watched_ms = due_ms
            heapq.heappush(self._deadlines, (due_ms, stream.id, stream.name))
        if is_overfull(stream.retention, stream.start, stream.tail):
            self._overfull[stream.id] = entry

    def watch_parts(self, entry: StreamEntry) -> None:
        """Make sure that a stream's parts are dropped when they expire."""
        self._with_parts[entry.stream.id] = entry

    def due(self, by_name: Mapping[str, StreamEntry], now_ms: int) -> Iterator[StreamEntry]:
        """Give the streams whose time has come; the caller ends them, or trims and watches them again."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            due_ms, id, name = heapq.heappop(self._deadlines)
            entry = by_name.get(name)
            if entry is None or entry.stream.id != id or entry.stream.soft_deleted:
                continue
            if entry.watched_ms == due_ms:  # otherwise another time of it is in the heap
                entry.watched_ms = NOT_WATCHED
                yield entry

    def overfull(self, by_name: Mapping[str, StreamEntry]) -> Iterator[StreamEntry]:
        """Give the streams that hold more bytes than they may; the caller trims them."""
        if not self._to_trim:
            self._to_trim, self._overfull = [*reversed(self._overfull.values())], {}
        while self._to_trim:
            entry = self._to_trim.pop()
            if by_name.get(entry.stream.name) is entry:
                yield entry

    def due_parts(self, now_ms: int) -> list[StreamEntry]:
        """Give the streams that have parts, once in an interval."""
        if self._parts_checked_ms <= now_ms < self._parts_checked_ms + _PARTS_INTERVAL_MS:
            return []
        self._parts_checked_ms = now_ms
        self._with_parts = {id: entry for id, entry in self._with_parts.items() if entry.staged}
        return list(self._with_parts.values())

    def prune(self, by_name: Mapping[str, StreamEntry]) -> None:
        """Forget the deadlines of streams that are not in memory, once most of them are."""
        if len(self._deadlines) > 2 * len(by_name) + _SPARE_DEADLINES:
            self._deadlines = [due for due in self._deadlines if _is_current(by_name.get(due[2]), due[1])]
            heapq.heapify(self._deadlines)


def _is_current(entry: StreamEntry | None, stream_id: int) -> bool:
    return entry is not None and entry.stream.id == stream_id
