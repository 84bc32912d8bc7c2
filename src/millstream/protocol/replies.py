"""Replies: what each decision says over HTTP. Status codes live here, once.

PROTOCOL.md 5; rules A1, A5 to A7, C1, C2, R2, R3, G1 to G4, G8, H2, L2, L4, O4, X4.
"""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from millstream.protocol import caching, headers, json_frames, parts, reads, streams
from millstream.protocol.content import Kind, is_active
from millstream.protocol.errors import RequestError
from millstream.protocol.offsets import format_offset
from millstream.protocol.producers import BadStart, Fenced, Gap

Header = tuple[bytes, bytes]


class Body(Protocol):
    """A body that is too large to be held: its length, and its pieces one after the other."""

    def __len__(self) -> int: ...

    def pieces(self) -> Iterator[bytes]:
        """Give the body."""
        ...


class Reply(msgspec.Struct, frozen=True, gc=False):
    """An answer, ready to be written by any server."""

    status: int
    headers: list[Header]
    body: bytes | Body = b""


EXTENSIONS: Final = (headers.MILLSTREAM_EXTENSIONS, b"until, list, parts, retain")

_CLOSED = (headers.STREAM_CLOSED, b"true")
_UP_TO_DATE = (headers.STREAM_UP_TO_DATE, b"true")
_NO_STORE = (b"cache-control", caching.NO_STORE)
_SANDBOX = (b"content-security-policy", b"sandbox")  # what somebody wrote must not act as this origin
_PROBLEM = (headers.CONTENT_TYPE, b"application/problem+json")


def _next(offset: int) -> Header:
    return headers.STREAM_NEXT_OFFSET, format_offset(offset)


def _number(name: bytes, value: int) -> Header:
    return name, b"%d" % value


# -- Problems ------------------------------------------------------------------------------------


def problem(status: int, code: str, detail: str, extra: list[Header] | None = None) -> Reply:
    """Say what was wrong, for programs (`code`) and for people (`detail`), by RFC 9457."""
    body = {"title": HTTPStatus(status).phrase, "status": status, "code": code, "detail": detail}
    return Reply(status, [_PROBLEM, _NO_STORE, *(extra or [])], _inert(msgspec.json.encode(body)))


def _inert(text: bytes) -> bytes:
    """Write what a client sent so that no browser takes it for markup, wherever the text ends up."""
    return text.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")


def malformed(error: RequestError) -> Reply:
    """Answer a request that could not be understood."""
    return problem(error.status, error.code, error.detail)


def not_found(refusal: streams.NotFound) -> Reply:
    """Answer for a stream that is not there."""
    return problem(404, "NOT_FOUND", f"There is no stream at {refusal.name}.")


def soft_deleted(refusal: streams.SoftDeleted) -> Reply:
    """Answer for a stream that only its forks may still see."""
    return problem(410, "GONE", f"The stream at {refusal.name} was deleted.")


def _no_space(_refusal: streams.NoSpace) -> Reply:
    return problem(
        507, "NO_SPACE", "The server's disk is full; nothing was changed.", [(b"retry-after", b"5")]
    )


def _store_failed(_refusal: streams.StoreFailed) -> Reply:
    detail = "The server's disk failed; whether the change was kept shows after a restart."
    return problem(503, "STORE_FAILED", detail, [(b"retry-after", b"5")])


# -- Appending and closing -----------------------------------------------------------------------


def appended(change: streams.Append) -> Reply:
    """Acknowledge an append: 200 for a producer's data, 204 otherwise (rule A1)."""
    return _acknowledged(change, bool(change.data))


def _acknowledged(change: streams.Append, has_data: bool) -> Reply:
    reply = [(headers.STREAM_NEXT_OFFSET, format_offset(change.tail))]
    if change.closes:
        reply.append(_CLOSED)
    stamp = change.stamp
    if stamp is None:
        return Reply(204, reply)
    reply.append((headers.PRODUCER_EPOCH, b"%d" % stamp.epoch))
    reply.append((headers.PRODUCER_SEQ, b"%d" % stamp.seq))
    return Reply(200 if has_data else 204, reply)


def _duplicate(plan: streams.Duplicate) -> Reply:
    closed = [_CLOSED] if plan.closed else []
    stamp = [_number(headers.PRODUCER_EPOCH, plan.epoch), _number(headers.PRODUCER_SEQ, plan.highest_seq)]
    return Reply(204, [_next(plan.tail), *closed, *stamp])


def _already_closed(plan: streams.AlreadyClosed) -> Reply:
    return Reply(204, [_next(plan.tail), _CLOSED])


def _closed(plan: streams.Closed) -> Reply:
    return problem(409, "STREAM_CLOSED", "The stream is closed.", [_next(plan.tail), _CLOSED])


def _type_mismatch(plan: streams.TypeMismatch) -> Reply:
    expected, received = plan.expected.decode("latin-1"), plan.received.decode("latin-1")
    return problem(
        409, "CONTENT_TYPE_MISMATCH", f"The stream's content type is {expected}, the request's {received}."
    )


def _seq_regressed(plan: streams.SeqRegressed) -> Reply:
    last, received = plan.last.decode("latin-1"), plan.received.decode("latin-1")
    return problem(
        409, "SEQUENCE_REGRESSION", f"Stream-Seq must rise bytewise: {received!r} came after {last!r}."
    )


def _fenced(plan: Fenced) -> Reply:
    return problem(
        403,
        "STALE_EPOCH",
        f"A newer session of this producer has taken over with epoch {plan.current_epoch}.",
        [_number(headers.PRODUCER_EPOCH, plan.current_epoch)],
    )


def _gap(plan: Gap) -> Reply:
    return problem(
        409,
        "SEQUENCE_GAP",
        f"Producer-Seq {plan.expected} is missing before {plan.received}.",
        [
            _number(headers.PRODUCER_EXPECTED_SEQ, plan.expected),
            _number(headers.PRODUCER_RECEIVED_SEQ, plan.received),
        ],
    )


def _bad_start(plan: BadStart) -> Reply:
    return problem(400, "EPOCH_START", f"A new epoch begins with Producer-Seq 0, not {plan.received}.")


# -- Parts ---------------------------------------------------------------------------------------

STAGED: Final = Reply(204, [])
"""A part is kept, or kept no longer."""


def _committed(change: parts.Commit) -> Reply:
    return _acknowledged(change.append, True)


def _part_missing(plan: parts.PartMissing) -> Reply:
    detail = f"There is no part {plan.id}: it was not staged, or is committed, dropped or expired."
    return problem(409, "PART_MISSING", detail)


def _part_conflict(plan: parts.PartConflict) -> Reply:
    return problem(409, "PART_CONFLICT", f"The part {plan.id} is staged with other bytes.")


def _too_many_parts(_plan: parts.TooManyParts) -> Reply:
    detail = f"At most {parts.MAX_PARTS} parts of a stream wait at a time; commit or delete some."
    return problem(413, "TOO_MANY_PARTS", detail)


def _staged_too_much(plan: parts.StagedTooMuch) -> Reply:
    detail = f"At most {plan.max_bytes} bytes of a stream wait at a time; commit or delete some parts."
    return problem(413, "STAGED_TOO_MUCH", detail)


def _stream_full(plan: streams.StreamFull) -> Reply:
    return problem(413, "STREAM_FULL", f"A stream is at most {plan.max_bytes} bytes here.")


# -- Creating and deleting -----------------------------------------------------------------------


def created(stream: streams.Stream, location: bytes) -> Reply:
    """Announce a new stream and its URL."""
    return Reply(201, [(b"location", location), *_description(stream)])


def _exists(plan: streams.Exists) -> Reply:
    return Reply(200, _description(plan.stream))


def _description(stream: streams.Stream) -> list[Header]:
    about = [(headers.CONTENT_TYPE, stream.content_type), _next(stream.tail)]
    return [*about, _CLOSED] if stream.closed else about


def _config_mismatch(plan: streams.ConfigMismatch) -> Reply:
    return problem(409, "CONFIG_MISMATCH", f"A stream at {plan.name} exists with another {plan.what}.")


def _name_in_use(plan: streams.NameInUse) -> Reply:
    return problem(409, "NAME_IN_USE", f"The stream at {plan.name} was deleted, but forks still need it.")


def _source_not_found(plan: streams.SourceNotFound) -> Reply:
    return problem(404, "FORK_SOURCE_NOT_FOUND", f"There is no stream at {plan.name} to fork from.")


def _source_deleted(plan: streams.SourceDeleted) -> Reply:
    return problem(
        409, "FORK_SOURCE_DELETED", f"The stream at {plan.name} was deleted; it takes no new forks."
    )


def _fork_beyond_tail(plan: streams.ForkBeyondTail) -> Reply:
    tail = format_offset(plan.tail).decode()
    return problem(400, "FORK_OFFSET_BEYOND_TAIL", f"The source ends at {tail}, before Stream-Fork-Offset.")


def _fork_before_start(plan: streams.ForkBeforeStart) -> Reply:
    earliest = format_offset(plan.earliest)
    detail = f"The source keeps nothing before {earliest.decode()}."
    return problem(410, "OFFSET_GONE", detail, [(headers.STREAM_EARLIEST_OFFSET, earliest)])


def _fork_unaligned(_plan: streams.ForkUnaligned) -> Reply:
    return problem(400, "INVALID_OFFSET", "Stream-Fork-Offset is inside a message of the source.")


def _sub_offset_overshoot(plan: streams.SubOffsetOvershoot) -> Reply:
    return problem(
        400,
        "FORK_SUB_OFFSET_OVERSHOOT",
        f"Stream-Fork-Sub-Offset may be at most {plan.available} here, the size of the next append.",
    )


def _too_many_streams(plan: streams.TooManyStreams) -> Reply:
    return problem(403, "TOO_MANY_STREAMS", f"There are {plan.limit} streams below {plan.above} already.")


DELETED: Final = Reply(204, [])

# -- Reading -------------------------------------------------------------------------------------


def read(
    chunk: reads.Chunk,
    if_none_match: bytes | None = None,
    *,
    at_tail: bool = False,
    cursor: int | None = None,
    cache: bytes = caching.PUBLIC,
) -> Reply:
    """Answer a read.

    `at_tail` when the client asked for `now`, whose answer no cache may keep; `cache` is what caches
    may do otherwise, which is less when it took credentials to read.
    """
    reply = [(headers.CONTENT_TYPE, chunk.content_type), _next(chunk.end)]
    if is_active(chunk.content_type):
        reply.append(_SANDBOX)
    if chunk.up_to_date:
        reply.append(_UP_TO_DATE)
        if chunk.closed:
            reply.append(_CLOSED)
    if cursor is not None:
        reply.append(_number(headers.STREAM_CURSOR, cursor))
    if at_tail:
        reply.append(_NO_STORE)
    else:
        tag = caching.entity_tag(chunk.stream_id, chunk.start, chunk.end, chunk.at_end)
        reply += (b"etag", tag), (b"cache-control", cache)
        if if_none_match is not None and caching.matches(if_none_match, tag):
            return Reply(304, reply)
    return Reply(200, reply, json_frames.wrap(chunk.data) if chunk.kind is Kind.JSON else chunk.data)


def nothing_new(chunk: reads.Chunk, cursor: int) -> Reply:
    """Answer a long-poll that waited in vain, or that has reached the end."""
    end = _CLOSED if chunk.at_end else _number(headers.STREAM_CURSOR, cursor)
    return Reply(204, [_next(chunk.end), _UP_TO_DATE, end, _NO_STORE])


def event_stream(chunk: reads.Chunk) -> Reply:
    """Open an answer of server-sent events."""
    reply = [
        (headers.CONTENT_TYPE, b"text/event-stream"),
        (b"cache-control", caching.EVENT_STREAM),
        (b"x-accel-buffering", b"no"),
    ]
    if chunk.kind is Kind.BINARY:
        reply.append((headers.STREAM_SSE_DATA_ENCODING, b"base64"))
    return Reply(200, reply)


def _offset_gone(refusal: reads.OffsetGone) -> Reply:
    earliest = format_offset(refusal.earliest)
    detail = f"The stream keeps nothing before {earliest.decode()}; offset=-1 reads from there."
    return problem(410, "OFFSET_GONE", detail, [(headers.STREAM_EARLIEST_OFFSET, earliest)])


def _offset_unaligned(_refusal: reads.OffsetUnaligned) -> Reply:
    return problem(400, "INVALID_OFFSET", "The offset is inside a message; use one from Stream-Next-Offset.")


def head(stream: streams.Stream) -> Reply:
    """Describe a stream."""
    about = _description(stream)
    if stream.lifetime.ttl_s is not None:
        about.append(_number(headers.STREAM_TTL, stream.lifetime.ttl_s))
    if stream.lifetime.expires_at is not None:
        about.append((headers.STREAM_EXPIRES_AT, stream.lifetime.expires_at))
    return Reply(200, [*about, *_kept(stream), _NO_STORE, EXTENSIONS])


def _kept(stream: streams.Stream) -> list[Header]:
    """Say what a stream with limits keeps, and from where on."""
    limits = stream.retention
    if not limits and not stream.start:
        return []
    about = [(headers.STREAM_EARLIEST_OFFSET, format_offset(stream.start))]
    if limits.bytes is not None:
        about.append(_number(headers.STREAM_RETAIN_BYTES, limits.bytes))
    if limits.seconds is not None:
        about.append(_number(headers.STREAM_RETAIN_SECONDS, limits.seconds))
    return about


# -- From decision to reply ----------------------------------------------------------------------

_REPLIES: dict[type, Callable[[Any], Reply]] = {
    streams.NotFound: not_found,
    streams.SoftDeleted: soft_deleted,
    streams.NoSpace: _no_space,
    streams.StoreFailed: _store_failed,
    streams.Append: appended,
    streams.Duplicate: _duplicate,
    streams.AlreadyClosed: _already_closed,
    streams.Closed: _closed,
    streams.TypeMismatch: _type_mismatch,
    streams.SeqRegressed: _seq_regressed,
    Fenced: _fenced,
    Gap: _gap,
    BadStart: _bad_start,
    parts.Stage: lambda _: STAGED,
    parts.AlreadyStaged: lambda _: STAGED,
    parts.Drop: lambda _: STAGED,
    parts.Commit: _committed,
    parts.PartMissing: _part_missing,
    parts.PartConflict: _part_conflict,
    parts.TooManyParts: _too_many_parts,
    parts.StagedTooMuch: _staged_too_much,
    streams.Exists: _exists,
    streams.ConfigMismatch: _config_mismatch,
    streams.NameInUse: _name_in_use,
    streams.SourceNotFound: _source_not_found,
    streams.SourceDeleted: _source_deleted,
    streams.ForkBeyondTail: _fork_beyond_tail,
    streams.ForkBeforeStart: _fork_before_start,
    streams.ForkUnaligned: _fork_unaligned,
    streams.SubOffsetOvershoot: _sub_offset_overshoot,
    streams.StreamFull: _stream_full,
    streams.TooManyStreams: _too_many_streams,
    reads.OffsetGone: _offset_gone,
    reads.OffsetUnaligned: _offset_unaligned,
}


def reply_to(decision: object) -> Reply:
    """Answer any decision that needs nothing beside itself to be answered."""
    return _REPLIES[type(decision)](decision)
