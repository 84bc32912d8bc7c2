"""Streams: the state of a stream, and what an append, a PUT or a DELETE does to it.

`Stream` is all that later decisions depend on. A plan looks at it and at a request and returns a value:
a change to commit, or the reason for a refusal. `apply_append` is the only way in which an accepted
append changes a stream; an engine that replays its log calls the same function. What else changes
streams: `parts` (multipart appends), `forks`, `retention` (trims).

PROTOCOL.md 4.1, 5.1 to 5.4; rules C1, C4 to C6, A1, A2, A4 to A9, F2, X4.
"""

from typing import Final

import msgspec

from millstream.protocol import json_frames, producers, retention
from millstream.protocol.content import DEFAULT_TYPE, Kind, kind_of, same_type
from millstream.protocol.errors import MalformedError
from millstream.protocol.expiry import FOREVER, Lifetime
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
from millstream.protocol.requests import AppendRequest, CreateRequest
from millstream.protocol.retention import KEEP_ALL, Marks, Retention, Shared

PART_LIFETIME_MS: Final = 24 * 3600 * 1000
"""How long a staged part waits for its commit (rule X3)."""


# -- State ---------------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A staged part: bytes that wait for their commit.

    Its number is unique in the stream for ever, so an engine may name a file by it and remove the file
    at any later time.
    """

    number: int
    size: int
    staged_ms: int

    def expired(self, now_ms: int) -> bool:
        """Tell whether the part has waited too long."""
        return now_ms >= self.staged_ms + PART_LIFETIME_MS


class Staged(msgspec.Struct):
    """The parts of one stream by the ids that their writers chose, oldest first.

    `count` is the next part's number, `size` the bytes of all parts together.
    """

    parts: dict[str, Part] = {}
    count: int = 0
    size: int = 0

    def add(self, id: str, size: int, now_ms: int) -> Part:
        """Add a part under an id that is free."""
        part = self.parts[id] = Part(self.count, size, now_ms)
        self.count += 1
        self.size += size
        return part

    def take(self, id: str) -> Part:
        """Remove a part and return it."""
        part = self.parts.pop(id)
        self.size -= part.size
        return part

    def clear(self) -> None:
        """Remove all parts; their numbers stay used."""
        self.parts.clear()
        self.size = 0

    def expired(self, now_ms: int) -> list[str]:
        """Give the parts that have waited too long; oldest first, so a younger one ends the search."""
        ids = []
        for id, part in self.parts.items():
            if not part.expired(now_ms):
                break
            ids.append(id)
        return ids

    def copy(self) -> "Staged":
        """Copy the parts as they are now."""
        return Staged(self.parts.copy(), self.count, self.size)


class Fork(msgspec.Struct, frozen=True, gc=False):
    """Where a stream branched off: its source, and where its own bytes begin."""

    source_id: int
    source_name: str
    offset: int
    sub_offset: int
    base: int


class Stream(msgspec.Struct, omit_defaults=True):
    """All that decisions about a stream depend on."""

    id: int
    name: str
    content_type: bytes
    kind: Kind
    created_ms: int
    lifetime: Lifetime = FOREVER
    requested_lifetime: Lifetime = FOREVER
    deadline_ms: int | None = None
    tail: int = 0
    closed: bool = False
    closed_by: Stamp | None = None
    last_seq: bytes | None = None
    producers: dict[bytes, ProducerState] | None = None
    """By id, in the order of their last use; None until a stamped append needs them."""
    fork: Fork | None = None
    fork_count: int = 0
    soft_deleted: bool = False
    staged: Staged | None = None
    retention: Retention = KEEP_ALL
    requested_retention: Retention = KEEP_ALL
    start: int = 0
    first_append: int = 0
    marks: Marks = ()
    shared: Shared | None = None
    producer_floor: int = NO_FLOOR
    """The highest epoch of all producers that were forgotten."""
    written_ms: int = 0
    """When something was last appended; 0 if nothing was, or not since this is recorded."""

    @property
    def last_write_ms(self) -> int:
        """When the stream was last appended to or closed, or else created."""
        return self.written_ms or self.created_ms

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


Unstored = NoSpace | StoreFailed | Backlogged


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


class StreamFull(msgspec.Struct, frozen=True, gc=False):
    """The stream would become larger than streams may be on this server."""

    max_bytes: int


AppendRefusal = Closed | TypeMismatch | SeqRegressed | Fenced | Gap | BadStart | TooManyProducers | StreamFull
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
    if request.data and not same_type(request.content_type, stream.content_type):
        return TypeMismatch(stream.content_type, request.content_type)
    forgets: tuple[bytes, ...] = ()
    if stamp is not None:
        last = stream.producers.get(stamp.id) if stream.producers is not None else None
        verdict = producers.judge(last, stamp, stream.producer_floor)
        if not isinstance(verdict, producers.Accepted):
            if isinstance(verdict, Repeated):
                return Duplicate(stream.tail, False, stamp.epoch, verdict.highest_seq)
            return verdict
        if last is None:
            room = producers.plan_room(stream.producers or {}, limits, now_ms)
            if isinstance(room, TooManyProducers):
                return room
            forgets = room
    if request.seq is not None and stream.last_seq is not None and request.seq <= stream.last_seq:
        return SeqRegressed(stream.last_seq, request.seq)
    if max_bytes and request.data and (full := refuse_growth(stream.own_bytes, len(request.data), max_bytes)):
        return full
    return Append(request.data, stream.tail + len(request.data), request.closes, stamp, request.seq, forgets)


def _plan_on_closed(stream: Stream, request: AppendRequest) -> AppendPlan:
    stamp = request.stamp
    if stamp is not None and stamp == stream.closed_by:
        return Duplicate(stream.tail, True, stamp.epoch, stamp.seq)
    if request.data or not request.closes or stamp is not None:
        return Closed(stream.tail)
    return AlreadyClosed(stream.tail)


def refuse_growth(own_bytes: int, added_bytes: int, max_bytes: int) -> StreamFull | None:
    """Refuse bytes that would make a stream larger than streams may be (rule H4); 0 disables the limit."""
    return StreamFull(max_bytes) if 0 < max_bytes < own_bytes + added_bytes else None


def renews_ttl(plan: object) -> bool:
    """Tell whether a POST that changes nothing renews a TTL: one that succeeds does (rule G8)."""
    return isinstance(plan, Duplicate | AlreadyClosed)


def apply_append(stream: Stream, change: Append, now_ms: int) -> None:
    """Apply an accepted append to a stream's state."""
    if stream.retention.seconds is not None and change.tail > stream.tail:
        stream.marks = retention.marked(stream.marks, stream.retention, change.tail, now_ms)
    stream.tail = change.tail
    stream.written_ms = now_ms
    stamp = change.stamp
    if stamp is not None:
        _remember(stream, change, stamp, now_ms)
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


# -- Creating ------------------------------------------------------------------------------------


class Exists(msgspec.Struct, frozen=True):
    """The stream exists with the configuration that was asked for."""

    stream: Stream


class ConfigMismatch(msgspec.Struct, frozen=True):
    """The stream exists with another configuration."""

    name: str
    what: str


class NameInUse(msgspec.Struct, frozen=True):
    """The name belongs to a deleted stream that forks still need."""

    name: str


class TooManyStreams(msgspec.Struct, frozen=True):
    """The path has as many streams below it as it may have."""

    above: str
    limit: int


class Create(msgspec.Struct, frozen=True):
    """A change to commit: a new stream and its first content."""

    stream: Stream
    data: bytes


CreateRefusal = ConfigMismatch | NameInUse | TypeMismatch | StreamFull | TooManyStreams
CreatePlan = Create | Exists | CreateRefusal


def plan_existing(stream: Stream, request: CreateRequest) -> Exists | ConfigMismatch | NameInUse:
    """Decide a PUT on a name that is taken: it succeeds with the same configuration (rule C1)."""
    if stream.soft_deleted:
        return NameInUse(stream.name)
    fork = stream.fork
    if request.forked_from != (fork.source_name if fork is not None else None):
        return ConfigMismatch(stream.name, "fork source")
    if fork is not None:
        # Without an offset the fork began at the source's tail of that time, so none matches any.
        if request.fork_offset is not None and request.fork_offset != fork.offset:
            return ConfigMismatch(stream.name, "fork offset")
        if request.fork_sub_offset != fork.sub_offset:
            return ConfigMismatch(stream.name, "fork sub-offset")
    wanted_type = request.content_type or (stream.content_type if fork is not None else DEFAULT_TYPE)
    if not same_type(wanted_type, stream.content_type):
        return ConfigMismatch(stream.name, "content type")
    if not request.lifetime.same(stream.requested_lifetime):
        return ConfigMismatch(stream.name, "TTL or expiry")
    if request.retention != stream.requested_retention:
        return ConfigMismatch(stream.name, "retention")
    if request.closed != stream.closed:
        return ConfigMismatch(stream.name, "closed flag")
    return Exists(stream)


def plan_create(
    id: int, name: str, request: CreateRequest, now_ms: int, usual: Retention = KEEP_ALL
) -> Create:
    """Decide a PUT on a free name; `usual` is the retention of streams that set none."""
    stream = Stream(
        id=id,
        name=name,
        content_type=request.content_type or DEFAULT_TYPE,
        kind=kind_of(request.content_type or DEFAULT_TYPE),
        created_ms=now_ms,
        lifetime=request.lifetime,
        retention=request.retention.or_else(usual),
    )
    return complete_create(stream, request, now_ms)


def complete_create(stream: Stream, request: CreateRequest, now_ms: int) -> Create:
    """Complete a new stream with its first content and its lifetime (rules C3, C4)."""
    data = _first_content(request) if stream.kind is Kind.JSON and request.body else request.body
    stream.tail += len(data)
    stream.closed = request.closed
    stream.deadline_ms = stream.lifetime.deadline_ms(now_ms)
    stream.requested_lifetime = request.lifetime
    stream.requested_retention = request.retention
    if data:
        stream.marks = retention.marked(stream.marks, stream.retention, stream.tail, now_ms)
    return Create(stream, data)


def _first_content(request: CreateRequest) -> bytes:
    messages = request.messages if request.messages is not None else json_frames.frame(request.body)
    if isinstance(messages, MalformedError):
        raise messages
    return messages


# -- Deleting ------------------------------------------------------------------------------------


class Delete(msgspec.Struct, frozen=True):
    """A change to commit: the stream is deleted; a soft deletion keeps its bytes for its forks."""

    stream: Stream
    soft: bool


def plan_delete(stream: Stream) -> Delete | SoftDeleted:
    """Decide a DELETE, or the end of a stream that has expired (rule F2)."""
    if stream.soft_deleted:
        return SoftDeleted(stream.name)
    return Delete(stream, soft=stream.fork_count > 0)
