"""Replies: what each decision about streams says over HTTP, and the status of each success.

`reply_to` answers a decision by its type. Decisions whose reply needs more than themselves (a location,
a cursor, what caches may do) have a function of their own. Refusals are in `problems`.

PROTOCOL.md 5; rules A1, A6, A7, C1, C2, C6, R3, F3, G1 to G4, G8, L2, L4, X1 to X9.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from millstream.protocol import (
    caching,
    configuration,
    headers,
    json_frames,
    lifecycle,
    parts,
    problems,
    reads,
    streams,
    trims,
)
from millstream.protocol.content import JSON, Kind, is_active
from millstream.protocol.http import Header, Reply
from millstream.protocol.offsets import format_offset
from millstream.protocol.times import format_time

EXTENSIONS: Final = (
    headers.MILLSTREAM_EXTENSIONS,
    b"until, list, delete, parts, many, retain, expect, time, last, events, patch",
)

_CLOSED = (headers.STREAM_CLOSED, b"true")
_UP_TO_DATE = (headers.STREAM_UP_TO_DATE, b"true")
_NO_STORE = (b"cache-control", caching.NO_STORE)
_NO_CONTENT: Final = Reply(204, [])
_SANDBOX = (
    b"content-security-policy",
    b"sandbox",
)  # scripts in a stream's content must not run as this origin


def _next(offset: int) -> Header:
    return headers.STREAM_NEXT_OFFSET, format_offset(offset)


def _incarnation(found: reads.Chunk | streams.Stream) -> Header:
    return headers.STREAM_INCARNATION, found.incarnation


def _number(name: bytes, value: int) -> Header:
    return name, b"%d" % value


# -- Appending and closing -----------------------------------------------------------------------


def appended(change: streams.Append, *, has_parts: bool = False) -> Reply:
    """Acknowledge an append: 200 for a producer's data, 204 otherwise (rule A1)."""
    reply = [(headers.STREAM_NEXT_OFFSET, format_offset(change.tail))]
    if change.closes:
        reply.append(_CLOSED)
    stamp = change.stamp
    if stamp is None:
        return Reply(204, reply)
    reply.append((headers.PRODUCER_EPOCH, b"%d" % stamp.epoch))
    reply.append((headers.PRODUCER_SEQ, b"%d" % stamp.seq))
    return Reply(200 if change.data or has_parts else 204, reply)


def _duplicate(plan: streams.Duplicate) -> Reply:
    closed = [_CLOSED] if plan.closed else []
    stamp = [_number(headers.PRODUCER_EPOCH, plan.epoch), _number(headers.PRODUCER_SEQ, plan.highest_seq)]
    return Reply(204, [_next(plan.tail), *closed, *stamp])


def _already_closed(plan: streams.AlreadyClosed) -> Reply:
    return Reply(204, [_next(plan.tail), _CLOSED])


# -- Parts ---------------------------------------------------------------------------------------


def _committed(change: parts.Commit) -> Reply:
    return appended(change.append, has_parts=True)


# -- Creating and deleting -----------------------------------------------------------------------


def created(stream: streams.Stream, location: bytes) -> Reply:
    """Answer a creation, with the new stream's URL (rules C1, C2)."""
    return Reply(201, [(b"location", location), *_description(stream), *_attributes(stream)])


def _exists(plan: lifecycle.Exists) -> Reply:
    return Reply(200, [*_description(plan.stream), *_attributes(plan.stream)])


def _attributes(stream: streams.Stream) -> list[Header]:
    return [(headers.STREAM_ATTRIBUTES, stream.attributes)] if stream.attributes else []


def _description(stream: streams.Stream, incarnation: bytes | None = None) -> list[Header]:
    about = [
        (headers.CONTENT_TYPE, stream.content_type),
        _next(stream.tail),
        (headers.STREAM_INCARNATION, incarnation or stream.incarnation),
    ]
    return [*about, _CLOSED] if stream.closed else about


# -- Changing what lives (rule X10) --------------------------------------------------------------


def _configured(plan: configuration.Configured) -> Reply:
    stream = plan.stream
    closed = [_CLOSED] if stream.closed else []
    about = [_next(stream.tail), _incarnation(stream), *closed, *_configuration(stream)]
    return Reply(204, [*about, *_kept(stream), _NO_STORE])


def _trimmed(plan: trims.Trimmed) -> Reply:
    return Reply(204, [(headers.STREAM_EARLIEST_OFFSET, format_offset(plan.start)), _next(plan.tail)])


# -- Reading -------------------------------------------------------------------------------------


def read(
    chunk: reads.Chunk,
    if_none_match: bytes | None = None,
    *,
    cursor: int | None = None,
    cache: bytes = caching.PUBLIC,
    is_resolved: bool = False,
) -> Reply:
    """Answer a read; `cache` is what caches may do with it. Without storing there is no tag (rule G2).

    A read that named no offset is told where it began (`is_resolved`; rules X7, X8).
    """
    incarnation = chunk.incarnation
    reply = [
        (headers.CONTENT_TYPE, chunk.content_type),
        _next(chunk.end),
        (headers.STREAM_INCARNATION, incarnation),
    ]
    if is_active(chunk.content_type):
        reply.append(_SANDBOX)
    if chunk.up_to_date:
        reply.append(_UP_TO_DATE)
        if chunk.closed:
            reply.append(_CLOSED)
    if cursor is not None:
        reply.append(_number(headers.STREAM_CURSOR, cursor))
    if is_resolved:
        reply.append(_start(chunk.start))
    _add_times(reply, chunk.first_ms, chunk.last_ms)
    if cache == caching.NO_STORE:
        reply.append(_NO_STORE)
    else:
        tag = caching.entity_tag(incarnation, chunk.start, chunk.end, chunk.at_end)
        reply += (b"etag", tag), (b"cache-control", cache)
        if if_none_match is not None and caching.matches(if_none_match, tag):
            return Reply(304, reply)
    return Reply(200, reply, json_frames.wrap(chunk.data) if chunk.kind is JSON else chunk.data)


def _start(offset: int) -> Header:
    return headers.STREAM_START_OFFSET, format_offset(offset)


def _add_times(reply: list[Header], first_ms: int, last_ms: int) -> None:
    """Say when the first and the last append of something arrived (rule X7)."""
    if last_ms:
        last_time = format_time(last_ms)
        if first_ms:
            first_time = last_time if first_ms == last_ms else format_time(first_ms)
            reply.append((headers.STREAM_FIRST_TIME, first_time))
        reply.append((headers.STREAM_LAST_TIME, last_time))


def nothing_new(chunk: reads.Chunk, cursor: int) -> Reply:
    """Answer a long-poll that timed out, or that has reached the end of a closed stream (rule L2)."""
    end = _CLOSED if chunk.at_end else _number(headers.STREAM_CURSOR, cursor)
    reply = [_next(chunk.end), _UP_TO_DATE, end, _incarnation(chunk), _NO_STORE]
    _add_times(reply, 0, chunk.last_ms)
    return Reply(204, reply)


def event_stream(chunk: reads.Chunk, *, is_resolved: bool = False) -> Reply:
    """Begin a response of server-sent events (rule L4)."""
    reply = [*_events(caching.EVENT_STREAM), _incarnation(chunk)]
    if chunk.kind is Kind.BINARY:
        reply.append((headers.STREAM_SSE_DATA_ENCODING, b"base64"))
    if is_resolved:
        reply.append(_start(chunk.start))
    return Reply(200, reply)


def many_event_streams(*, by_token: bool) -> Reply:
    """Begin a response of the events of many streams (rules L4, X9)."""
    return Reply(200, _events(caching.EVENT_STREAM_FOR_A_TOKEN if by_token else caching.EVENT_STREAM))


def _events(cache: bytes) -> list[Header]:
    about = [(headers.CONTENT_TYPE, b"text/event-stream"), (b"cache-control", cache)]
    return [*about, (b"x-accel-buffering", b"no")]


def head(stream: streams.Stream, if_none_match: bytes | None = None) -> Reply:
    """Describe a stream as it was configured, with the tag of its tail (rules G8, X6)."""
    incarnation = stream.incarnation  # computed, not stored
    tag = caching.tail_tag(incarnation, stream.tail, closed=stream.closed)
    about = [*_description(stream, incarnation), (b"etag", tag), *_configuration(stream), *_kept(stream)]
    _add_times(about, stream.first_time_ms, stream.last_time_ms)
    is_known = if_none_match is not None and caching.matches(if_none_match, tag)
    return Reply(304 if is_known else 200, [*about, _NO_STORE, EXTENSIONS])


def _configuration(stream: streams.Stream) -> list[Header]:
    """Give how long a stream lives, and its attributes."""
    about: list[Header] = []
    if stream.lifetime.ttl_s is not None:
        about.append(_number(headers.STREAM_TTL, stream.lifetime.ttl_s))
    if stream.lifetime.expires_at is not None:
        about.append((headers.STREAM_EXPIRES_AT, stream.lifetime.expires_at))
    return [*about, *_attributes(stream)]


def _kept(stream: streams.Stream) -> list[Header]:
    """Give the limits of a stream that is trimmed, and where it begins (rule X4)."""
    limits = stream.retention
    if not limits and not stream.start:
        return []
    about = [(headers.STREAM_EARLIEST_OFFSET, format_offset(stream.start))]
    if limits.bytes is not None:
        about.append(_number(headers.STREAM_RETAIN_BYTES, limits.bytes))
    if limits.seconds is not None:
        about.append(_number(headers.STREAM_RETAIN_SECONDS, limits.seconds))
    return about


def listing(found: Iterable[streams.Stream], cursor: str | None, may_read: Callable[[str], bool]) -> Reply:
    """Answer with a page of streams, and where to continue if there are more (rule X2).

    A fork's source is named only to a caller that may read it.
    """
    page = {"streams": [_listed(stream, may_read) for stream in found], "cursor": cursor}
    return Reply(200, [(headers.CONTENT_TYPE, b"application/json"), _NO_STORE], msgspec.json.encode(page))


def listed(stream: streams.Stream, may_read: Callable[[str], bool]) -> msgspec.Raw:
    """Describe a stream as the listing does, as JSON (rule X2)."""
    return msgspec.Raw(msgspec.json.encode(_listed(stream, may_read)))


def named(found: Sequence[msgspec.Raw | None]) -> Reply:
    """Answer with those streams that there are of some names (rule X2)."""
    page = {"streams": [one for one in found if one is not None]}
    return Reply(200, [(headers.CONTENT_TYPE, b"application/json"), _NO_STORE], msgspec.json.encode(page))


def many_deleted(count: int, cursor: str | None) -> Reply:
    """Answer how many streams are deleted, and where to continue if there may be more (rule X11)."""
    page = {"deleted": count, "cursor": cursor}
    return Reply(200, [(headers.CONTENT_TYPE, b"application/json"), _NO_STORE], msgspec.json.encode(page))


def outcomes(found: Sequence[object]) -> Reply:
    """Answer for many entries with the outcome of each (rule X5)."""
    body = msgspec.json.encode({"outcomes": found})
    return Reply(200, [(headers.CONTENT_TYPE, b"application/json"), _NO_STORE], body)


def _listed(stream: streams.Stream, may_read: Callable[[str], bool]) -> dict[str, object]:
    fork = stream.fork
    return {
        "path": stream.name,
        "contentType": stream.content_type.decode("latin-1"),
        "tail": format_offset(stream.tail).decode(),
        "closed": stream.closed,
        "bytes": stream.tail - max(stream.base, stream.start),
        "createdMs": stream.created_ms,
        "lastWriteMs": stream.last_write_ms,
        "firstTime": _listed_time(stream.first_time_ms),
        "lastTime": _listed_time(stream.last_time_ms),
        "ttlSeconds": stream.lifetime.ttl_s,
        "expiresMs": stream.deadline_ms,
        "retainBytes": stream.retention.bytes,
        "retainSeconds": stream.retention.seconds,
        "forkedFrom": fork.source_name if fork is not None and may_read(fork.source_name) else None,
        "inheritedBytes": stream.inherited_bytes,
        "attributes": msgspec.Raw(stream.attributes or b"{}"),
        "incarnation": stream.incarnation.decode(),
    }


def _listed_time(time_ms: int) -> str | None:
    return format_time(time_ms).decode() if time_ms else None


# -- From decision to reply ----------------------------------------------------------------------

_REPLIES: Final[dict[type, Callable[[Any], Reply]]] = problems.REFUSALS | {
    streams.Append: appended,
    streams.Duplicate: _duplicate,
    streams.AlreadyClosed: _already_closed,
    lifecycle.Exists: _exists,
    lifecycle.Delete: lambda _: _NO_CONTENT,
    parts.Stage: lambda _: _NO_CONTENT,
    parts.AlreadyStaged: lambda _: _NO_CONTENT,
    parts.Drop: lambda _: _NO_CONTENT,
    parts.Commit: _committed,
    configuration.Configured: _configured,
    trims.Trimmed: _trimmed,
}


def reply_to(decision: object) -> Reply:
    """Answer a decision that needs nothing beside itself to be answered."""
    return _REPLIES[type(decision)](decision)
