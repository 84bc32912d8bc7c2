"""Streams: what may happen to one, decided without touching anything.

`Stream` is all that later decisions depend on. A plan looks at it and at a request and says what
should happen, as a value: a change to commit, or the reason why not. `apply_append` is the only
way in which an accepted append changes a stream; an engine that replays its log calls the same.

PROTOCOL.md 4.1, 5.1 to 5.4; rules C1, C4, C5, A1 to A9, F1, F2, X4.
"""

import msgspec

from millstream.protocol import json_frames, producers, retention
from millstream.protocol.content import DEFAULT_TYPE, Kind, kind_of, same_type
from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.producers import BadStart, Fenced, Gap, Repeated, Stamp
from millstream.protocol.reads import Appends, between_messages
from millstream.protocol.requests import AppendRequest, CreateRequest
from millstream.protocol.retention import KEEP_ALL, Marks, Retention, Shared
from millstream.protocol.staging import Staged


class Fork(msgspec.Struct, frozen=True, gc=False):
    """Where a stream branched off: its source, and where its own bytes begin."""

    source_id: int
    source_name: str
    offset: int
    sub_offset: int
    base: int


class Stream(msgspec.Struct, omit_defaults=True):
    """All that decides what may happen to a stream next."""

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
    producers: dict[bytes, Stamp] | None = None
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

    @property
    def base(self) -> int:
        """Where the stream's own bytes begin; what lies before is its source's."""
        return self.fork.base if self.fork is not None else 0

    @property
    def own_bytes(self) -> int:
        """How many bytes are kept of the stream's own, once what is due to go has gone."""
        kept = self.tail - max(self.base, self.start)
        return kept if self.retention.bytes is None else min(kept, self.retention.bytes)

    def expired(self, now_ms: int) -> bool:
        """Tell whether the stream's time is over."""
        return self.deadline_ms is not None and now_ms >= self.deadline_ms

    @property
    def due_ms(self) -> int | None:
        """When the stream must be looked at next: it ends then, or may let go of something."""
        if not self.marks:
            return self.deadline_ms
        trim_ms = retention.due_ms(self.retention, self.marks)
        return min((ms for ms in (self.deadline_ms, trim_ms) if ms is not None), default=None)

    def renew(self, now_ms: int) -> None:
        """Start the sliding window anew; a fixed expiry stays where it is."""
        if self.lifetime.ttl_s is not None:
            self.deadline_ms = self.lifetime.deadline_ms(now_ms)


# -- Refusals that any request may meet ----------------------------------------------------------


class NotFound(msgspec.Struct, frozen=True):
    """No stream has this name."""

    name: str


class SoftDeleted(msgspec.Struct, frozen=True):
    """The stream is deleted and only kept for its forks."""

    name: str


class NoSpace(msgspec.Struct, frozen=True):
    """The disk is full: nothing was changed."""


class StoreFailed(msgspec.Struct, frozen=True):
    """The engine can no longer promise durability and takes no more changes."""


Unstored = NoSpace | StoreFailed


# -- Appending and closing -----------------------------------------------------------------------


class Append(msgspec.Struct, frozen=True, gc=False):
    """A change to commit: everything that one POST decided."""

    data: bytes
    tail: int
    closes: bool
    stamp: Stamp | None
    seq: bytes | None


class Duplicate(msgspec.Struct, frozen=True, gc=False):
    """The producer sent this before; nothing changes."""

    tail: int
    closed: bool
    epoch: int
    highest_seq: int


class AlreadyClosed(msgspec.Struct, frozen=True, gc=False):
    """The stream was closed before, and closing it again is fine."""

    tail: int


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The stream is closed and takes no more."""

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
    """The stream would have more bytes than a stream may have here."""

    max_bytes: int


AppendRefusal = Closed | TypeMismatch | SeqRegressed | Fenced | Gap | BadStart | StreamFull
AppendPlan = Append | Duplicate | AlreadyClosed | AppendRefusal


def plan_append(stream: Stream, request: AppendRequest, max_bytes: int = 0) -> AppendPlan:
    """Decide what an append or close does to a stream, in the order of rule A2; 0 bytes are no limit."""
    stamp = request.stamp
    last = stream.producers.get(stamp.id) if stamp is not None and stream.producers is not None else None
    if stream.closed:
        return _plan_on_closed(stream, request, last)
    if request.data and not same_type(request.content_type, stream.content_type):
        return TypeMismatch(stream.content_type, request.content_type)
    if stamp is not None:
        verdict = producers.judge(last, stamp)
        if not isinstance(verdict, producers.Accepted):
            if isinstance(verdict, Repeated):
                return Duplicate(stream.tail, False, stamp.epoch, verdict.highest_seq)
            return verdict
    if request.seq is not None and stream.last_seq is not None and request.seq <= stream.last_seq:
        return SeqRegressed(stream.last_seq, request.seq)
    if max_bytes and request.data and stream.own_bytes + len(request.data) > max_bytes:
        return StreamFull(max_bytes)
    return Append(request.data, stream.tail + len(request.data), request.closes, stamp, request.seq)


def _plan_on_closed(stream: Stream, request: AppendRequest, last: Stamp | None) -> AppendPlan:
    stamp = request.stamp
    if stamp is not None and stamp == stream.closed_by:
        return Duplicate(stream.tail, True, stamp.epoch, stamp.seq)
    if request.data or not request.closes:
        return Closed(stream.tail)
    if stamp is None:
        return AlreadyClosed(stream.tail)
    if last is not None and stamp.epoch < last.epoch:
        return Fenced(last.epoch)
    return Closed(stream.tail)


def apply_append(stream: Stream, change: Append, now_ms: int) -> None:
    """Make a stream what it is after a change."""
    if stream.retention.seconds is not None and change.tail > stream.tail:
        stream.marks = retention.marked(stream.marks, stream.retention, change.tail, now_ms)
    stream.tail = change.tail
    stamp = change.stamp
    if stamp is not None:
        if stream.producers is None:
            stream.producers = {}
        stream.producers[stamp.id] = stamp
    if change.seq is not None:
        stream.last_seq = change.seq
    if change.closes:
        stream.closed = True
        stream.closed_by = stamp
        if stream.staged is not None:
            stream.staged.clear()  # nothing can be committed any more
    if stream.lifetime.ttl_s is not None:
        stream.renew(now_ms)


# -- Creating and forking ------------------------------------------------------------------------


class Exists(msgspec.Struct, frozen=True):
    """The stream is there already, and as the request wants it."""

    stream: Stream


class ConfigMismatch(msgspec.Struct, frozen=True):
    """The stream is there already, but not as the request wants it."""

    name: str
    what: str


class NameInUse(msgspec.Struct, frozen=True):
    """The name belongs to a deleted stream that forks still need."""

    name: str


class SourceNotFound(msgspec.Struct, frozen=True):
    """There is no stream to fork from."""

    name: str


class SourceDeleted(msgspec.Struct, frozen=True):
    """The stream to fork from is deleted and only kept for its other forks."""

    name: str


class ForkBeyondTail(msgspec.Struct, frozen=True):
    """The fork offset is not in the source."""

    tail: int


class ForkBeforeStart(msgspec.Struct, frozen=True):
    """The source no longer keeps the bytes before the fork offset."""

    earliest: int


class ForkUnaligned(msgspec.Struct, frozen=True):
    """The fork offset points into the middle of a JSON message: this server never gave it."""


class SubOffsetOvershoot(msgspec.Struct, frozen=True):
    """The sub-offset reaches past the next append."""

    available: int


class TooManyStreams(msgspec.Struct, frozen=True):
    """There are as many streams below this path as there may be."""

    above: str
    limit: int


class Create(msgspec.Struct, frozen=True):
    """A change to commit: a new stream and its first content."""

    stream: Stream
    data: bytes


CreateRefusal = (
    ConfigMismatch
    | NameInUse
    | SourceNotFound
    | SourceDeleted
    | TypeMismatch
    | ForkBeyondTail
    | ForkBeforeStart
    | ForkUnaligned
    | SubOffsetOvershoot
    | StreamFull
    | TooManyStreams
)
CreatePlan = Create | Exists | CreateRefusal


def plan_existing(stream: Stream, request: CreateRequest) -> Exists | ConfigMismatch | NameInUse:
    """Decide a PUT on a name that is taken: the same configuration is fine, another is not."""
    if stream.soft_deleted:
        return NameInUse(stream.name)
    fork = stream.fork
    if request.forked_from != (fork.source_name if fork is not None else None):
        return ConfigMismatch(stream.name, "fork source")
    if fork is not None:
        # An omitted offset meant the source's tail at that time, so it matches whatever that was.
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
    """Decide a PUT on a free name; `usual` are the limits of streams that have none of their own."""
    stream = Stream(
        id=id,
        name=name,
        content_type=request.content_type or DEFAULT_TYPE,
        kind=kind_of(request.content_type or DEFAULT_TYPE),
        created_ms=now_ms,
        lifetime=request.lifetime,
        retention=request.retention.or_else(usual),
    )
    return _create(stream, request, now_ms)


def fork_anchor(
    source: Stream, request: CreateRequest, earliest: int, appends: Appends
) -> int | SourceDeleted | TypeMismatch | ForkBeyondTail | ForkBeforeStart | ForkUnaligned:
    """Decide where in the source a fork begins, before any sub-offset."""
    if source.soft_deleted:
        return SourceDeleted(source.name)
    if request.content_type is not None and not same_type(request.content_type, source.content_type):
        return TypeMismatch(source.content_type, request.content_type)
    if request.fork_offset is None:
        return source.tail
    anchor = max(request.fork_offset, 0)
    if anchor > source.tail:
        return ForkBeyondTail(source.tail)
    if anchor < earliest:
        return ForkBeforeStart(earliest)
    if source.kind is Kind.JSON and 0 < anchor < source.tail and not between_messages(anchor, appends):
        return ForkUnaligned()
    return anchor


def fork_base(kind: Kind, anchor: int, sub_offset: int, next_append: bytes) -> int | SubOffsetOvershoot:
    """Move a fork's beginning past `sub_offset` messages (JSON) or bytes of the source's next append."""
    if sub_offset == 0:
        return anchor
    if kind is Kind.JSON:
        ends = json_frames.message_ends(next_append)
        return anchor + ends[sub_offset - 1] if sub_offset <= len(ends) else SubOffsetOvershoot(len(ends))
    if sub_offset <= len(next_append):
        return anchor + sub_offset
    return SubOffsetOvershoot(len(next_append))


def plan_fork(
    id: int, name: str, source: Stream, anchor: int, base: int, request: CreateRequest, now_ms: int
) -> Create:
    """Decide a PUT that forks: an open stream with no producers, whose lifetime follows the source's."""
    limits = request.retention.or_else(source.retention)
    stream = Stream(
        id=id,
        name=name,
        content_type=request.content_type or source.content_type,
        kind=source.kind,
        created_ms=now_ms,
        lifetime=request.lifetime or source.lifetime,
        tail=base,
        fork=Fork(source.id, source.name, anchor, request.fork_sub_offset, base),
        retention=limits,
        start=source.start,
        marks=retention.inherited(source.marks, limits, source.start, base, now_ms),
    )
    return _create(stream, request, now_ms)


def _create(stream: Stream, request: CreateRequest, now_ms: int) -> Create:
    """Complete a new stream with its first content and with what was asked for."""
    data = json_frames.frame(request.body) if stream.kind is Kind.JSON and request.body else request.body
    stream.tail += len(data)
    stream.closed = request.closed
    stream.deadline_ms = stream.lifetime.deadline_ms(now_ms)
    stream.requested_lifetime = request.lifetime
    stream.requested_retention = request.retention
    if data:
        stream.marks = retention.marked(stream.marks, stream.retention, stream.tail, now_ms)
    return Create(stream, data)


# -- Deleting ------------------------------------------------------------------------------------


class Delete(msgspec.Struct, frozen=True):
    """A change to commit: the stream ends; while forks need its bytes they are kept."""

    stream: Stream
    soft: bool


def plan_delete(stream: Stream) -> Delete | SoftDeleted:
    """Decide a DELETE; expiry decides the same way."""
    if stream.soft_deleted:
        return SoftDeleted(stream.name)
    return Delete(stream, soft=stream.fork_count > 0)


def releases_source(source: Stream) -> bool:
    """Tell whether a source goes too, now that one fork less needs it; the caller has counted down."""
    return source.soft_deleted and source.fork_count == 0
