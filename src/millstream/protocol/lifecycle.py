"""The beginning and the end of a stream: what a PUT and a DELETE do.

A PUT on a free name makes a stream with its first content (forks: `forks`); one on a name that is taken
succeeds if it asks for what is there. A deletion keeps the bytes that forks need.

PROTOCOL.md 4.1, 5.1, 5.4; rules C1, C4 to C6, F2, X4, X7.
"""

import msgspec

from millstream.protocol import attributes, json_frames, retention
from millstream.protocol.content import DEFAULT_TYPE, Kind, kind_of, same_type, shared_type
from millstream.protocol.errors import MalformedError
from millstream.protocol.requests import CreateRequest
from millstream.protocol.retention import KEEP_ALL, Retention
from millstream.protocol.streams import SoftDeleted, Stream, StreamFull, TypeMismatch


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
    """Decide a PUT on a name that is taken: it succeeds with the same configuration (rule C1).

    That is the one which the stream was created with, or the one which a PATCH has given it since (rule X10).
    Attributes do not count: they are notes, and those that the stream has stay.
    """
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
    if not request.lifetime.same(stream.requested_lifetime) and not (
        stream.is_lifetime_changed and request.lifetime.same(stream.lifetime)
    ):
        return ConfigMismatch(stream.name, "TTL or expiry")
    if request.retention != stream.requested_retention and not (
        stream.is_retention_changed and request.retention == stream.retention
    ):
        return ConfigMismatch(stream.name, "retention")
    if request.closed != stream.closed:
        return ConfigMismatch(stream.name, "closed flag")
    return Exists(stream)


def plan_create(
    id: int, name: str, request: CreateRequest, now_ms: int, usual: Retention = KEEP_ALL
) -> Create:
    """Decide a PUT on a free name; `usual` is the retention of streams that set none."""
    content_type = shared_type(request.content_type or DEFAULT_TYPE)
    stream = Stream(
        id=id,
        name=name,
        content_type=content_type,
        kind=kind_of(content_type),
        created_ms=now_ms,
        lifetime=request.lifetime,
        retention=request.retention.or_else(usual),
        attributes=attributes.merged(attributes.NONE, request.attributes),
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
        if stream.written_ms:  # inherited
            stream.written_ms = stream.arrival_ms(now_ms)
        stream.marks = retention.marked(stream.marks, stream.retention, stream.tail, stream.last_time_ms)
    return Create(stream, data)


def _first_content(request: CreateRequest) -> bytes:
    messages = request.messages if request.messages is not None else json_frames.frame(request.body)
    if isinstance(messages, MalformedError):
        raise messages
    return messages


class Delete(msgspec.Struct, frozen=True):
    """A change to commit: the stream is deleted; a soft deletion keeps its bytes for its forks."""

    stream: Stream
    soft: bool


def ends_alone(stream: Stream) -> bool:
    """Tell whether the end of a stream changes no other one: it has no forks, and is none."""
    return stream.fork is None and not stream.fork_count


def plan_delete(stream: Stream) -> Delete | SoftDeleted:
    """Decide a DELETE, or the end of a stream that has expired (rule F2)."""
    if stream.soft_deleted:
        return SoftDeleted(stream.name)
    return Delete(stream, soft=stream.fork_count > 0)
