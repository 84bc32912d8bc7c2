"""Multipart appends: many writers stage parts, one request commits them, all or none.

        POST   stream?part=a          stage      stored, but invisible to readers
        POST   stream?part=b          stage
        POST   stream?parts=commit    commit     {"parts": ["a", "b"]}: one atomic append, in that order;
                                                 with a "fingerprint" of the content, if wanted
        DELETE stream?part=a          drop       a part that is not needed

They serve writers that are many processes with one outcome, and appends larger than one request may be.
Otherwise a commit is an append: producer headers, `Stream-Seq` and `Stream-Closed` mean the same, and
the same function decides (`streams.plan_append`). What a stream remembers of its parts is
`streams.Staged`. A condition (`conditions`) is checked after the parts: when a commit is repeated because
its answer was lost, its parts are missing, which says more than that the tail has moved.

Rules X3, X5, X6.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from millstream.protocol import conditions, fingerprints, headers
from millstream.protocol.conditions import Condition, parse_condition
from millstream.protocol.content import JSON, same_type
from millstream.protocol.errors import MalformedError
from millstream.protocol.producers import DEFAULT_LIMITS, Limits, Stamp, parse_stamp
from millstream.protocol.queries import Query
from millstream.protocol.requests import AppendRequest, Headers, parse_append
from millstream.protocol.staging import Staged
from millstream.protocol.streams import (
    Append,
    AppendPlan,
    Closed,
    Stream,
    TypeMismatch,
    plan_append,
    refuse_growth,
)

MAX_PARTS: Final = 10_000
"""Most parts that one stream may have staged at a time."""

_ID = re.compile(rb"[A-Za-z0-9._~-]{1,200}")
_ANY_DATA = b"\0"


# -- Requests ------------------------------------------------------------------------------------


class StageRequest(msgspec.Struct, frozen=True, gc=False):
    """A part to stage: its bytes as they will be stored."""

    id: str
    data: bytes
    content_type: bytes
    raw: bytes | None = None
    """The part as it came, see `AppendRequest`."""


class CommitRequest(msgspec.Struct, frozen=True):
    """Parts to append, in order."""

    ids: list[str]
    closes: bool = False
    stamp: Stamp | None = None
    seq: bytes | None = None
    condition: Condition | None = None
    fingerprint: str | None = None


class _Listed(msgspec.Struct, forbid_unknown_fields=True):
    parts: list[str]
    fingerprint: str | None = None


_listed = msgspec.json.Decoder(_Listed)


def part_of(query: Query) -> str | None:
    """Give the id of the part that a request names, if it names one."""
    id = query.one(b"part")
    return parse_id(id) if id is not None else None


def is_commit(query: Query) -> bool:
    """Tell whether a request commits parts."""
    action = query.one(b"parts")
    if action is None:
        return False
    if action != b"commit" or query.has(b"part"):
        raise MalformedError("INVALID_PARTS", "It is ?part=ID to stage a part, or ?parts=commit to commit.")
    return True


def parse_post(
    query: Query, fields: Headers, body: bytes
) -> StageRequest | CommitRequest | AppendRequest | None:
    """Read a POST that stages or commits; a commit of nothing is a close, and None is a plain append."""
    if is_commit(query):
        return parse_commit(fields, body)
    id = part_of(query)
    return parse_stage(id, fields, body) if id is not None else None


def parse_stage(id: str, fields: Headers, body: bytes) -> StageRequest:
    """Read a POST that stages a part."""
    append = parse_append(fields, body)
    if append.closes or (append.stamp, append.seq, append.condition) != (None, None, None):
        raise MalformedError(
            "PART_WITH_COMMIT_HEADERS",
            "Producer headers, Stream-Seq, Stream-Expected-Offset, If-Match and Stream-Closed "
            "go with the commit.",
        )
    return StageRequest(id, append.data, append.content_type, append.raw)


def parse_commit(fields: Headers, body: bytes) -> CommitRequest | AppendRequest:
    """Read a POST that commits parts; an empty list with `Stream-Closed: true` is a plain close."""
    try:
        listed = _listed.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedError("INVALID_PARTS", f'The body is {{"parts": ["id", ...]}}: {error}.') from None
    closes = headers.is_true(fields.get(headers.STREAM_CLOSED))
    stamp, seq, condition = parse_stamp(fields), fields.get(headers.STREAM_SEQ), parse_condition(fields)
    return checked_commit(CommitRequest(listed.parts, closes, stamp, seq, condition, listed.fingerprint))


def checked_commit(asked: CommitRequest) -> CommitRequest | AppendRequest:
    """Check the parts of a commit; one without any is a plain close."""
    ids = asked.ids
    if len(ids) > MAX_PARTS:
        raise MalformedError("INVALID_PARTS", f"A commit names at most {MAX_PARTS} parts.")
    for id in ids:
        parse_id(id.encode())
    if len(set(ids)) < len(ids):
        raise MalformedError("REPEATED_PART", "A part can be committed once; the list names one twice.")
    fingerprints.check(asked.fingerprint)
    if ids:
        return asked
    if not asked.closes:
        raise MalformedError("EMPTY_APPEND", "A commit needs parts, or Stream-Closed: true to close.")
    return AppendRequest(
        b"", b"", asked.closes, asked.stamp, asked.seq, asked.condition, fingerprint=asked.fingerprint
    )


def parse_id(id: bytes) -> str:
    """Check the id of a part."""
    if _ID.fullmatch(id) is None:
        raise MalformedError(
            "INVALID_PART_ID", "A part's id is 1 to 200 letters, digits, dots, dashes, underscores or tildes."
        )
    return id.decode()


# -- Decisions -----------------------------------------------------------------------------------


class Stage(msgspec.Struct, frozen=True):
    """A change to commit: a part is staged."""

    id: str
    data: bytes


class AlreadyStaged(msgspec.Struct, frozen=True):
    """The part is staged already, with the same bytes."""


class PartConflict(msgspec.Struct, frozen=True):
    """The id is in use for other bytes."""

    id: str


class TooManyParts(msgspec.Struct, frozen=True):
    """The stream has as many parts staged as it may have."""


class StagedTooMuch(msgspec.Struct, frozen=True):
    """The stream's staged parts would be too large together."""

    max_bytes: int


class Commit(msgspec.Struct, frozen=True):
    """A change to commit: an append whose bytes are those of staged parts."""

    append: Append
    ids: list[str]
    size: int


class PartMissing(msgspec.Struct, frozen=True):
    """A part was never staged, or is committed, dropped or expired."""

    id: str


class Drop(msgspec.Struct, frozen=True):
    """A change to commit: parts are dropped."""

    ids: list[str]


StagePlan = Stage | AlreadyStaged | PartConflict | TooManyParts | StagedTooMuch | Closed | TypeMismatch
CommitPlan = Commit | PartMissing | AppendPlan


def plan_stage(
    stream: Stream, request: StageRequest, max_staged_bytes: int, stored: Callable[[int], bytes]
) -> StagePlan:
    """Decide whether a part is staged; `stored` gives the bytes of a staged part by its number."""
    if stream.closed:
        return Closed(stream.tail)
    if not same_type(request.content_type, stream.content_type):
        return TypeMismatch(stream.content_type, request.content_type)
    data = request.data if request.raw is None or stream.kind is JSON else request.raw
    staged = stream.staged or _NOTHING
    part = staged.parts.get(request.id)
    if part is not None:
        same = part.size == len(data) and stored(part.number) == data
        return AlreadyStaged() if same else PartConflict(request.id)
    if len(staged.parts) >= MAX_PARTS:
        return TooManyParts()
    if staged.size + len(data) > max_staged_bytes:
        return StagedTooMuch(max_staged_bytes)
    return Stage(request.id, data)


def plan_commit(
    stream: Stream,
    request: CommitRequest,
    max_bytes: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    now_ms: int = 0,
) -> CommitPlan:
    """Decide a commit: the checks of an append come first, so a duplicate succeeds without its parts."""
    like = AppendRequest(
        _ANY_DATA,
        stream.content_type,
        request.closes,
        request.stamp,
        request.seq,
        fingerprint=request.fingerprint,
    )
    plan = plan_append(stream, like, limits=limits, now_ms=now_ms)
    if not isinstance(plan, Append):
        return plan
    parts = (stream.staged or _NOTHING).parts
    for id in request.ids:
        if id not in parts:
            return PartMissing(id)
    size = sum(parts[id].size for id in request.ids)
    if full := refuse_growth(stream.own_bytes, size, max_bytes):
        return full
    if request.condition is not None:
        conflict = conditions.refuse(request.condition, stream.incarnation, stream.tail)
        if conflict is not None:
            return conflict
    append = Append(
        b"",
        stream.tail + size,
        request.closes,
        request.stamp,
        request.seq,
        plan.forgets,
        request.fingerprint,
    )
    return Commit(append, request.ids, size)


def apply_stage(stream: Stream, change: Stage, now_ms: int) -> int:
    """Add a part to a stream's state, and give its number."""
    if stream.staged is None:
        stream.staged = Staged()
    stream.renew(now_ms)
    return stream.staged.add(change.id, len(change.data), now_ms).number


def take_parts(stream: Stream, ids: list[str]) -> list[int]:
    """Remove parts that are committed or dropped from a stream's state, and give their numbers."""
    staged = stream.staged
    assert staged is not None  # where there are parts
    return [staged.take(id).number for id in ids]


_NOTHING = Staged()
