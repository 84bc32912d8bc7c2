"""Reads: which bytes a reader gets, and when a long-poll is answered.

A read is decided from where the stream's bytes begin and end. The engine then fetches a `Chunk`: bytes
that begin and end at offsets from which a reader may go on.

PROTOCOL.md 5.6, 5.7, 8; rules O3, O4, G1, G2, G7, L2.
"""

import enum

import msgspec

from millstream.protocol.boundaries import Appends, Messages
from millstream.protocol.content import JSON, Kind
from millstream.protocol.expiry import Lifetime
from millstream.protocol.incarnations import incarnation
from millstream.protocol.offsets import NOW, START
from millstream.protocol.requests import ReadRequest


class OffsetGone(msgspec.Struct, frozen=True, gc=False):
    """The bytes at this offset are no longer kept."""

    earliest: int


class OffsetUnaligned(msgspec.Struct, frozen=True, gc=False):
    """The offset is inside a JSON message: this server never returned it."""


class ReadFailed(msgspec.Struct, frozen=True, gc=False):
    """The content could not be read from the disk."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """A range of bytes."""

    start: int
    end: int


class Run(msgspec.Struct, frozen=True, gc=False):
    """Appends that follow one another and arrived at the same time, by their end."""

    end: int
    time_ms: int


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """What a read found, with all that its reply must say."""

    stream_id: int
    content_type: bytes
    kind: Kind
    lifetime: Lifetime
    start: int
    end: int
    data: bytes
    up_to_date: bool
    closed: bool
    first_ms: int = 0
    """When the first append in it arrived; 0 if there is none (rule X7)."""
    last_ms: int = 0
    """When the last append before its end arrived, which may be before its start; 0 if there is none."""
    runs: "tuple[Run, ...]" = ()
    """The appends in it by their times, where they were asked for."""
    created_ms: int = 0

    @property
    def incarnation(self) -> bytes:
        """Which of the streams that its path had this one is (rule X10)."""
        return incarnation(self.stream_id, self.created_ms)

    @property
    def is_held(self) -> bool:
        """Whether the chunk carries its data, rather than only its range."""
        return len(self.data) == self.end - self.start

    @property
    def at_end(self) -> bool:
        """Whether the chunk reaches the end of a closed stream."""
        return self.closed and self.up_to_date


class PollOutcome(enum.Enum):
    """What a long-poll does with the chunk that it found."""

    DATA = "answer with the chunk"
    END = "answer that nothing more will come"
    WAIT = "wait for a change"


def poll_outcome(chunk: Chunk, until: int | None) -> PollOutcome:
    """Decide when a long-poll is answered: data comes first, then the end; else it waits (rule L2).

    A poll that has reached its bound (`until`, rule G7) can find nothing more, so it does not wait.
    """
    if chunk.end > chunk.start or (until is not None and chunk.end >= until):
        return PollOutcome.DATA
    return PollOutcome.END if chunk.at_end else PollOutcome.WAIT


def poll_timeout_ms(request: ReadRequest, most_ms: int) -> int:
    """Decide how long a long-poll waits: as its client asks, and never longer than the server's polls do."""
    return most_ms if request.timeout_ms is None else min(request.timeout_ms, most_ms)


def plan_read(
    request: ReadRequest, kind: Kind, earliest: int, tail: int, max_bytes: int, appends: Appends
) -> Span | OffsetGone | OffsetUnaligned:
    """Decide which bytes to return; an offset past the tail reads like the tail (rule O3).

    Raise `ScanUnfinishedError` when message boundaries have to be found first (`boundaries`).
    """
    start = request.offset
    if start == START:
        start = earliest
    elif start == NOW or start > tail:
        start = tail
    elif start < earliest:
        return OffsetGone(earliest)
    end = tail if request.until is None else max(start, min(tail, request.until))
    span = Span(start, min(end, start + min(max_bytes, request.limit or max_bytes)))
    if kind is not JSON or start == end:
        return span
    return _whole_messages(span, request, tail, appends)


def _whole_messages(span: Span, request: ReadRequest, tail: int, appends: Appends) -> Span | OffsetUnaligned:
    """Cut a span of a JSON stream to whole messages, at least one.

    Appends hold whole messages, so only an append that the span cuts is looked into.
    """
    start, end = span.start, span.end
    if start and not between_messages(start, appends):
        return OffsetUnaligned()
    if end == tail:
        return span
    if end == request.until:
        return span if between_messages(end, appends) else OffsetUnaligned()
    messages = Messages(appends, end)
    if messages.start > start:
        return Span(start, messages.start)
    return Span(start, messages.last_between(start, end) or messages.first_after(start))


def between_messages(position: int, appends: Appends) -> bool:
    """Tell whether a position in a JSON stream is the border of a message."""
    return Messages(appends, position).has_boundary(position)
