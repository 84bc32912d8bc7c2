"""Forks: where a new one begins in its source, what it inherits, and when its source may go.

A fork shares its source's offsets and bytes up to its base; `lineage` says which stream owns which bytes.

        source   0 ------------- anchor --------- tail
                                   `- sub-offset: this many messages (JSON) or bytes of the next append
        fork     0 -------------------- base ~ ~ ~ ~    its own bytes begin here

`fork_anchor` and `fork_base` find the two positions, `plan_fork` makes the stream. Both raise
`ScanUnfinishedError` when message boundaries have to be found first (`boundaries`). While a source has
forks it keeps the range that they may read (`share`, `unshare`), also after it was deleted.

PROTOCOL.md 4.2; rules F1, F2, X4.
"""

import msgspec

from millstream.protocol import attributes, retention
from millstream.protocol.boundaries import Appends, Messages
from millstream.protocol.content import Kind, same_type
from millstream.protocol.lifecycle import Create, complete_create
from millstream.protocol.reads import between_messages
from millstream.protocol.requests import CreateRequest
from millstream.protocol.retention import Shared
from millstream.protocol.streams import Fork, Stream, TypeMismatch


class SourceNotFound(msgspec.Struct, frozen=True):
    """There is no stream to fork from."""

    name: str


class SourceDeleted(msgspec.Struct, frozen=True):
    """The stream to fork from is deleted, and only kept for the forks that it has."""

    name: str


class ForkBeyondTail(msgspec.Struct, frozen=True):
    """The fork offset is past the source's tail."""

    tail: int


class ForkBeforeStart(msgspec.Struct, frozen=True):
    """The source no longer keeps the bytes before the fork offset."""

    earliest: int


class ForkUnaligned(msgspec.Struct, frozen=True):
    """The fork offset is inside a JSON message: this server never returned it."""


class SubOffsetOvershoot(msgspec.Struct, frozen=True):
    """The sub-offset reaches past the next append."""

    available: int


ForkRefusal = (
    SourceNotFound | SourceDeleted | ForkBeyondTail | ForkBeforeStart | ForkUnaligned | SubOffsetOvershoot
)


def fork_anchor(
    source: Stream, request: CreateRequest, earliest: int, appends: Appends
) -> int | SourceDeleted | TypeMismatch | ForkBeyondTail | ForkBeforeStart | ForkUnaligned:
    """Decide where in the source a fork begins, before any sub-offset (rules F1, F2)."""
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


def fork_base(source: Stream, anchor: int, sub_offset: int, appends: Appends) -> int | SubOffsetOvershoot:
    """Move a fork's beginning past `sub_offset` messages (JSON) or bytes of the source's next append."""
    if sub_offset == 0:
        return anchor
    if anchor == source.tail:
        return SubOffsetOvershoot(0)
    if source.kind is Kind.JSON:
        base, available = Messages(appends, anchor).skip(anchor, sub_offset)
    else:
        available = appends.bounds(anchor)[1] - anchor
        base = anchor + sub_offset
    return base if available >= sub_offset else SubOffsetOvershoot(available)


def plan_fork(
    id: int,
    name: str,
    source: Stream,
    anchor: int,
    base: int,
    request: CreateRequest,
    now_ms: int,
    inherited_ms: int,
) -> Create:
    """Decide a PUT that forks: an open stream without producers; what it does not set it inherits.

    `inherited_ms` is when the last append arrived that it inherits; its own are never earlier (rule X7).
    """
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
        first_ms=source.first_time_ms if base > source.start else 0,
        written_ms=inherited_ms,
        marks=retention.inherited(source.marks, limits, source.start, base, max(now_ms, inherited_ms)),
        attributes=attributes.merged(source.attributes, request.attributes),
    )
    return complete_create(stream, request, now_ms)


def share(source: Stream, base: int) -> None:
    """Keep what a new fork may read of its source: from the source's start to the fork's base.

    The caller has already incremented the count. Forks that a former version made of a stream that kept
    everything have left no trace, so for them everything is kept.
    """
    end = base if source.fork_count <= 1 else source.tail
    shared = source.shared or Shared(source.start, source.first_append, end)
    source.shared = msgspec.structs.replace(shared, end=max(shared.end, base))


def unshare(source: Stream) -> None:
    """Keep nothing for forks once the last one is gone; the caller has already decremented the count."""
    if source.fork_count == 0:
        source.shared = None


def releases_source(source: Stream) -> bool:
    """Tell whether a deleted source goes with its last fork; the caller has already decremented the count."""
    return source.soft_deleted and source.fork_count == 0
