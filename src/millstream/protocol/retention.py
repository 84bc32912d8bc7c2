"""Retention: how much of a stream is kept, and what is trimmed.

A stream may keep its newest bytes, its last seconds, or both; what either limit does not keep is
trimmed. Trims remove whole appends, oldest first:

        0 ---- trimmed ---- start ---- may go ---- | ------- the newest, kept ------- tail
                                                   `-- an append begins here

The limits are lower bounds: up to a sixteenth more is kept, so that a stream is not trimmed at every
append. Offsets never change; one before `start` is gone. `plan_trim` decides, and so does a client that
trims (`trims`); `apply_trim` is the only way in which a stream's start moves, and an engine that replays
its log calls the same function.

Marks remember when something was written, at most a few dozen of them: each says that all bytes before
a position were written by a time. A mark covers a sixteenth of the time that is kept.

Forks read what they inherited from their source. So a stream with forks keeps the range that it shares
with them (`Shared`), however far its own start has moved, until the last fork is gone (`forks`).

Rules X4, O4.
"""

from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from millstream.protocol.errors import MalformedError
from millstream.protocol.headers import parse_canonical_integer

_SLACK: Final = 16


class Retention(msgspec.Struct, frozen=True, gc=False):
    """What a stream keeps at least; without limits, everything."""

    bytes: int | None = None
    seconds: int | None = None

    def __bool__(self) -> bool:
        return self.bytes is not None or self.seconds is not None

    def or_else(self, other: "Retention") -> "Retention":
        """Fill in the limits that are not given."""
        if not self:
            return other
        return Retention(
            self.bytes if self.bytes is not None else other.bytes,
            self.seconds if self.seconds is not None else other.seconds,
        )


KEEP_ALL = Retention()


def parse_retention(byte_limit: bytes | None, second_limit: bytes | None) -> Retention:
    """Read `Stream-Retain-Bytes` and `Stream-Retain-Seconds`."""
    if byte_limit is None and second_limit is None:
        return KEEP_ALL
    return Retention(
        _parse_limit(byte_limit, "Stream-Retain-Bytes"), _parse_limit(second_limit, "Stream-Retain-Seconds")
    )


def _parse_limit(text: bytes | None, name: str) -> int | None:
    if text is None:
        return None
    limit = parse_canonical_integer(text, name)
    if limit == 0:
        raise MalformedError("INVALID_INTEGER", f"{name} is at least 1; leave it out to keep everything.")
    return limit


# -- When something was written ------------------------------------------------------------------


class Mark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All bytes before `end` were written by `last_ms`; a mark grows for a while after `begun_ms`."""

    begun_ms: int
    last_ms: int
    end: int


Marks = tuple[Mark, ...]


def marked(marks: Marks, retention: Retention, end: int, now_ms: int) -> Marks:
    """Record that a stream has grown to `end` now, if it has a limit of seconds."""
    if retention.seconds is None:
        return marks
    if marks and now_ms - marks[-1].begun_ms < retention.seconds * 1000 // _SLACK:
        return (*marks[:-1], Mark(marks[-1].begun_ms, max(marks[-1].last_ms, now_ms), end))
    return (*marks, Mark(now_ms, now_ms, end))


def inherited(marks: Marks, retention: Retention, start: int, base: int, now_ms: int) -> Marks:
    """Give a fork the marks of what it inherits; bytes without a mark count as written now."""
    taken = tuple(mark for mark in marks if mark.end <= base) if retention.seconds is not None else ()
    covered = taken[-1].end if taken else start
    return marked(taken, retention, base, now_ms) if covered < base else taken


def after(marks: Marks, start: int) -> Marks:
    """Drop the marks of trimmed bytes."""
    return tuple(mark for mark in marks if mark.end > start)


# -- What may go ---------------------------------------------------------------------------------


class Boundaries(Protocol):
    """Where a stream's appends begin and end."""

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the append that holds the byte at `position`, as its start and end."""
        ...


def is_overfull(retention: Retention, start: int, tail: int) -> bool:
    """Tell whether a stream is so far past its limit of bytes that a trim is due."""
    limit = retention.bytes
    return limit is not None and tail - start > limit + limit // _SLACK


def due_ms(retention: Retention, marks: Marks) -> int | None:
    """Tell when the oldest bytes of a stream will be old enough to be trimmed."""
    return marks[0].last_ms + retention.seconds * 1000 if marks and retention.seconds is not None else None


def new_start(
    retention: Retention, start: int, tail: int, marks: Marks, now_ms: int, appends: Boundaries
) -> int:
    """Decide where a stream begins from now on: where it does, or at a later append."""
    found = start
    if retention.bytes is not None and is_overfull(retention, start, tail):
        found = max(found, appends.bounds(tail - retention.bytes)[0])
    if retention.seconds is not None:
        written_by_ms = now_ms - retention.seconds * 1000
        for mark in marks:
            if mark.last_ms > written_by_ms:
                break
            found = max(found, mark.end)
    return found


# -- Trims ---------------------------------------------------------------------------------------


class Trim(msgspec.Struct, frozen=True, gc=False):
    """A change to commit: where the stream begins now, and how many of its own appends lie before.

    `first_ms` is when the append arrived that it begins with; 0 if there is none.
    """

    start: int
    first_append: int
    first_ms: int


class CountedAppends(Boundaries, Protocol):
    """Appends that can be counted, with their times."""

    def count(self, position: int) -> int:
        """Tell how many of the stream's own appends end at or before a position."""
        ...

    def time_at(self, position: int) -> int:
        """Tell when the append arrived that holds the byte at a position."""
        ...


class Trimmed(Protocol):
    """The state of a stream that trims read and change, see `streams.Stream`."""

    retention: Retention
    start: int
    tail: int
    first_append: int
    first_ms: int
    marks: Marks
    soft_deleted: bool
    fork_count: int
    shared: "Shared | None"


def plan_trim(stream: Trimmed, now_ms: int, appends: CountedAppends) -> Trim | None:
    """Decide what is trimmed from a stream now, if anything."""
    if stream.soft_deleted:
        return None
    start = new_start(stream.retention, stream.start, stream.tail, stream.marks, now_ms, appends)
    if start == stream.start:
        return None
    return Trim(start, appends.count(start), appends.time_at(start) if start < stream.tail else 0)


def apply_trim(stream: Trimmed, change: Trim) -> None:
    """Move a stream's start; what forks may read of it stays for them, also for those of former versions."""
    if stream.fork_count and stream.shared is None:
        stream.shared = Shared(stream.start, stream.first_append, stream.tail)
    stream.start, stream.first_append, stream.first_ms = change.start, change.first_append, change.first_ms
    stream.marks = after(stream.marks, change.start)


# -- What forks may read -------------------------------------------------------------------------


class Shared(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The range that a stream's forks may read, also where the stream itself begins later by now."""

    start: int
    first_append: int
    end: int


def needed(start: int, tail: int, shared: Shared | None) -> Iterator[tuple[int, int]]:
    """Give the ranges that the stream's or its forks' readers may read, in order; the rest may be removed."""
    if shared is not None and shared.start < min(shared.end, start):
        yield shared.start, min(shared.end, start)
    if start < tail:
        yield start, tail
