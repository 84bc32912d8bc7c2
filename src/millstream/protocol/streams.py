"""Streams: the state of a stream, and what an append does to it.

`Stream` is all that later decisions depend on. A plan looks at it and at a request and returns a value:
a change to commit, or the reason for a refusal. `apply_append` is the only way in which an accepted
append changes a stream; an engine that replays its log calls the same function. What else changes
streams: `lifecycle` (PUT and DELETE), `parts` (multipart appends), `forks`, `retention` (trims).

PROTOCOL.md 5.2, 5.3; rules A1, A2, A4 to A9, X4 to X7.
"""

import msgspec

from millstream.protocol import attributes, conditions, fingerprints, producers, retention
from millstream.protocol.conditions import OffsetConflict, TagConflict
from millstream.protocol.content import JSON, Kind, same_type
from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.fingerprints import FingerprintDiffers, Fingerprints
from millstream.protocol.incarnations import incarnation
from millstream.protocol.producers import (
    NO_FLOOR,
    BadStart,
    Fenced,
    Gap,
    Limits,
    ProducerState,
    Repeated,
    Stamp,
    TooManyProducers,
)
from millstream.protocol.requests import AppendRequest
from millstream.protocol.retention import KEEP_ALL, Marks, Retention, Shared
from millstream.protocol.staging import Staged

# -- State ---------------------------------------------------------------------------------------


class Fork(msgspec.Struct, frozen=True, gc=False):
    """Where a stream branched off: its source, and where its own bytes begin."""

    source_id: int
    source_name: str
    offset: int
    sub_offset: int
    base: int


class Stream(msgspec.Struct, omit_defaults=True, gc=False):
    """All that decisions about a stream depend on."""

    # Those that an append needs come first: among many streams, each line of the cache counts.
    id: int
    name: str
    content_type: bytes
    kind: Kind
    created_ms: int
    tail: int = 0
    closed: bool = False
    soft_deleted: bool = False
    deadline_ms: int | None = None
    lifetime: Lifetime = FOREVER
    retention: Retention = KEEP_ALL
    start: int = 0
    written_ms: int = 0
    """When the last append arrived, an inherited one of a fork; 0 if there was none, or not since this is
    recorded."""
    last_seq: bytes | None = None
    producers: dict[bytes, ProducerState] | None = None
    """By id, in the order of their last use; None until a stamped append needs them."""
    fork: Fork | None = None
    first_ms: int = 0
    """When the first append that is kept arrived; 0 if that was when the stream was created."""
    staged: Staged | None = None
    closed_by: Stamp | None = None
    fork_count: int = 0
    requested_lifetime: Lifetime = FOREVER
    requested_retention: Retention = KEEP_ALL
    first_append: int = 0
    marks: Marks = ()
    shared: Shared | None = None
    producer_floor: int = NO_FLOOR
    """The highest epoch of all producers that were forgotten."""
    closed_ms: int = 0
    """When the stream was closed, if not by its last append."""
    attributes: bytes = attributes.NONE
    is_lifetime_changed: bool = False
    """Whether a PATCH has set or removed a lifetime; then that one counts beside the requested one."""
    is_retention_changed: bool = False
    fingerprints: Fingerprints = ()

    def copied(self) -> "Stream":
        """Give a copy, which shares what is in it."""
        return self.__copy__()  # type: ignore[attr-defined,no-any-return]  # quicker than copy.copy

    @property
    def incarnation(self) -> bytes:
        """Which of the streams that its path had this one is (rule X10)."""
        return incarnation(self.id, self.created_ms)

    @property
    def last_write_ms(self) -> int:
        """When the stream was last appended to or closed, or else created."""
        return max(self.written_ms, self.created_ms, self.closed_ms)

    @property
    def first_time_ms(self) -> int:
        """When the first append that is kept arrived; 0 if none is kept (rule X7)."""
        return (self.first_ms or self.created_ms) if self.tail > self.start else 0

    @property
    def last_time_ms(self) -> int:
        """When the last append arrived; 0 if none is kept (rule X7)."""
        return (self.written_ms or self.created_ms) if self.tail > self.start else 0

    def arrival_ms(self, now_ms: int) -> int:
        """Give the time of an append that is decided now: never before that of the last one (rule X7)."""
        return max(now_ms, self.written_ms, self.created_ms)

    @property
    def base(self) -> int:
        """Where the stream's own bytes begin; those before it belong to its source."""
        return self.fork.base if self.fork is not None else 0

    @property
    def inherited_bytes(self) -> int:
        """How many bytes of its source a fork still has."""
        return max(0, self.base - self.start)

    @property
    def own_bytes(self) -> int:
        """How many bytes of its own the stream keeps, without those that retention is about to trim."""
        kept = self.tail - max(self.base, self.start)
        return kept if self.retention.bytes is None else min(kept, self.retention.bytes)

    def expired(self, now_ms: int) -> bool:
        """Tell whether the stream has expired."""
        return self.deadline_ms is not None and now_ms >= self.deadline_ms

    @property
    def due_ms(self) -> int | None:
        """When the stream expires or may be trimmed, whichever is first."""
        if not self.marks:
            return self.deadline_ms
        trim_ms = retention.due_ms(self.retention, self.marks)
        return min((ms for ms in (self.deadline_ms, trim_ms) if ms is not None), default=None)

    def renew(self, now_ms: int) -> None:
        """Restart a TTL; a fixed expiry does not move (rule G8)."""
        if self.lifetime.is_sliding:
            self.deadline_ms = self.lifetime.deadline_ms(now_ms)


# -- Refusals of any request ----------------------------------------------------------------------


class NotFound(msgspec.Struct, frozen=True):
    """No stream has this name."""

    name: str


class SoftDeleted(msgspec.Struct, frozen=True):
    """The stream is deleted and only kept for its forks."""

    name: str


class NoSpace(msgspec.Struct, frozen=True):
    """The disk is full: nothing was changed."""


class StoreFailed(msgspec.Struct, frozen=True):
    """The engine can no longer guarantee durability and accepts no more changes."""


class Backlogged(msgspec.Struct, frozen=True):
    """Checkpoints are behind: more waits in memory for them than may."""


class NotSaved(msgspec.Struct, frozen=True):
    """This stream cannot be saved, and too much of it waits for that; others are not affected."""

    name: str


class Unreachable(msgspec.Struct, frozen=True):
    """The database did not answer for too long; `is_unknown` tells that a change may have been kept."""

    is_unknown: bool = False


Unstored = NoSpace | StoreFailed | Backlogged | NotSaved | Unreachable


# -- Appending and closing -----------------------------------------------------------------------


class Append(msgspec.Struct, frozen=True, gc=False):
    """A change to commit: all that one POST changes."""

    data: bytes
    tail: int
    closes: bool
    stamp: Stamp | None
    seq: bytes | None
    forgets: tuple[bytes, ...] = ()
    """Producers that are forgotten to make room for this one."""
    fingerprint: str | None = None


class Duplicate(msgspec.Struct, frozen=True, gc=False):
    """The producer sent this append before; nothing changes."""

    tail: int
    closed: bool
    epoch: int
    highest_seq: int


class AlreadyClosed(msgspec.Struct, frozen=True, gc=False):
    """The stream is closed already, and closing it again succeeds."""

    tail: int


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The stream is closed and accepts no more data."""

    tail: int


class TypeMismatch(msgspec.Struct, frozen=True, gc=False):
    """The body's content type is not the stream's."""

    expected: bytes
    received: bytes


class SeqRegressed(msgspec.Struct, frozen=True, gc=False):
    """`Stream-Seq` did not rise."""

    last: bytes
    received: bytes
    tail: int


class StreamFull(msgspec.Struct, frozen=True, gc=False):
    """The stream would become larger than streams may be on this server."""

    max_bytes: int


AppendRefusal = (
    Closed
    | TypeMismatch
    | Fenced
    | Gap
    | BadStart
    | TooManyProducers
    | SeqRegressed
    | StreamFull
    | FingerprintDiffers
    | OffsetConflict
    | TagConflict
)
AppendPlan = Append | Duplicate | AlreadyClosed | AppendRefusal


def plan_append(
    stream: Stream,
    request: AppendRequest,
    max_bytes: int = 0,
    limits: Limits = producers.DEFAULT_LIMITS,
    now_ms: int = 0,
) -> AppendPlan:
    """Decide what an append or close does to a stream, in the order of rule A2; 0 disables the limit."""
    stamp = request.stamp
    if stream.closed:
        return _plan_on_closed(stream, request)
    data, content_type = request.data, request.content_type
    if request.raw is not None and stream.kind is not JSON:
        data = request.raw
    if data and content_type != stream.content_type and not same_type(content_type, stream.content_type):
        return TypeMismatch(stream.content_type, content_type)
    forgets: tuple[bytes, ...] = ()
    if stamp is not None:
        last = stream.producers.get(stamp.id) if stream.producers is not None else None
        verdict = producers.judge(last, stamp, stream.producer_floor)
        if not isinstance(verdict, producers.Accepted):
            if isinstance(verdict, Repeated):
                return _differs(stream, request) or Duplicate(
                    stream.tail, False, stamp.epoch, verdict.highest_seq
                )
            return verdict
        if last is None:
            room = producers.plan_room(stream.producers or {}, limits, now_ms)
            if isinstance(room, TooManyProducers):
                return room
            forgets = room
    if request.seq is not None and stream.last_seq is not None and request.seq <= stream.last_seq:
        return SeqRegressed(stream.last_seq, request.seq, stream.tail)
    if max_bytes and data and (full := refuse_growth(stream.own_bytes, len(data), max_bytes)):
        return full
    if request.condition is not None:
        conflict = conditions.refuse(request.condition, stream.incarnation, stream.tail)
        if conflict is not None:
            return conflict
    return Append(
        data, stream.tail + len(data), request.closes, stamp, request.seq, forgets, request.fingerprint
    )


def _plan_on_closed(stream: Stream, request: AppendRequest) -> AppendPlan:
    stamp = request.stamp
    if stamp is not None and stamp == stream.closed_by:
        return _differs(stream, request) or Duplicate(stream.tail, True, stamp.epoch, stamp.seq)
    if request.data or not request.closes or stamp is not None:
        return Closed(stream.tail)
    return AlreadyClosed(stream.tail)


def _differs(stream: Stream, request: AppendRequest) -> FingerprintDiffers | None:
    """Refuse a duplicate that says of itself that it is not the same (rule X5)."""
    stamp = request.stamp
    if stamp is None or request.fingerprint is None:
        return None
    return fingerprints.refuse(stream.fingerprints, stamp, request.fingerprint, stream.tail)


def refuse_growth(own_bytes: int, added_bytes: int, max_bytes: int) -> StreamFull | None:
    """Refuse bytes that would make a stream larger than streams may be (rule H4); 0 disables the limit."""
    return StreamFull(max_bytes) if 0 < max_bytes < own_bytes + added_bytes else None


def renews_ttl(plan: object) -> bool:
    """Tell whether a POST that changes nothing renews a TTL: one that succeeds does (rule G8)."""
    return isinstance(plan, Duplicate | AlreadyClosed)


def apply_append(stream: Stream, change: Append, now_ms: int) -> None:
    """Apply an accepted append to a stream's state."""
    if change.tail > stream.tail:
        arrived_ms = stream.arrival_ms(now_ms)
        if stream.tail == stream.start:
            stream.first_ms = arrived_ms
        stream.written_ms = arrived_ms
        if stream.retention.seconds is not None:
            stream.marks = retention.marked(stream.marks, stream.retention, change.tail, arrived_ms)
        stream.tail = change.tail
    elif change.closes:
        stream.closed_ms = now_ms
    stamp = change.stamp
    if stamp is not None:
        _remember(stream, change, stamp, now_ms)
        if change.fingerprint is not None:
            stream.fingerprints = fingerprints.remember(stream.fingerprints, stamp, change.fingerprint)
    if change.seq is not None:
        stream.last_seq = change.seq
    if change.closes:
        stream.closed = True
        stream.closed_by = stamp
        if stream.staged is not None:
            stream.staged.clear()  # nothing can be committed any more
    if stream.lifetime.ttl_s is not None:
        stream.renew(now_ms)


def _remember(stream: Stream, change: Append, stamp: Stamp, now_ms: int) -> None:
    """Make a producer the most recently used one, and forget others for it."""
    known = stream.producers
    if known is None:
        known = stream.producers = {}
    elif len(known) > 1:
        known.pop(stamp.id, None)
    known[stamp.id] = ProducerState(stamp.epoch, stamp.seq, now_ms)
    for id in change.forgets:
        stream.producer_floor = max(stream.producer_floor, known.pop(id).epoch)
