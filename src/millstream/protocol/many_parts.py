"""Parts of many streams in one request, for writers whose output is wide.

        POST __ds/parts?stage     {"entries": [{"path", "part", "contentType", "bytes"}]}, bytes in Base64
        POST __ds/parts?commit    {"entries": [{"path", "parts": [ids], ...}]}

A commit's entry has, if wanted, `producer` (`id`, `epoch`, `seq`), `closed`, `seq`, `expectedOffset` and
`fingerprint`: what the headers of a commit of one stream say. The other form of a body,
`application/vnd.millstream.parts`, is the same with raw bytes, one entry after the other:

        +----------+-----------+----------+-------+
        | length 4 | JSON head | length 4 | bytes |      lengths are big-endian
        +----------+-----------+----------+-------+

Each entry is what a request of its own would be (`parts`), and is decided by itself: one that is refused
spoils no other. The answer is 200 with `{"outcomes": [{"status", "code", "detail", "nextOffset",
"closed"}]}`, one for each entry, in order.

Rule X5.
"""

import struct
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from millstream.protocol import headers, parts
from millstream.protocol.conditions import parse_condition
from millstream.protocol.errors import MalformedError, RequestError
from millstream.protocol.http import Reply
from millstream.protocol.names import STREAM_ROOTS, check_name, is_reserved
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.producers import MAX_ID_BYTES, Stamp
from millstream.protocol.queries import Query
from millstream.protocol.requests import AppendRequest

CONTENT_TYPE: Final = b"application/vnd.millstream.parts"
MAX_ENTRIES: Final = 10_000
"""Most entries in one request."""

_LENGTH = struct.Struct(">I")
_HIGHEST = 2**53 - 1


class Entry(msgspec.Struct, frozen=True):
    """What is asked of one stream, or why it is not understood; without a name there is no such path."""

    name: str | None
    asked: StageRequest | CommitRequest | AppendRequest | RequestError


class _Entries(msgspec.Struct, forbid_unknown_fields=True):
    entries: list[msgspec.Raw]


class _Path(msgspec.Struct):
    path: str


class _StageHead(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    path: str
    part: str
    content_type: str


class _Stage(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    path: str
    part: str
    content_type: str
    bytes: bytes


class _Producer(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    epoch: Annotated[int, msgspec.Meta(ge=0, le=_HIGHEST)]
    seq: Annotated[int, msgspec.Meta(ge=0, le=_HIGHEST)]


class _Commit(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    path: str
    parts: list[str]
    producer: _Producer | None = None
    closed: bool = False
    seq: str | None = None
    expected_offset: str | None = None
    fingerprint: str | None = None


_entries = msgspec.json.Decoder(_Entries)
_path = msgspec.json.Decoder(_Path)
_stage = msgspec.json.Decoder(_Stage)
_stage_head = msgspec.json.Decoder(_StageHead)
_commit = msgspec.json.Decoder(_Commit)


def parse_many(query: Query, content_type: bytes, body: bytes) -> list[Entry]:
    """Read a request; what is wrong with one entry is told in its place."""
    stages, commits = query.has(b"stage"), query.has(b"commit")
    if stages == commits:
        raise MalformedError("INVALID_PARTS", "It is ?stage to stage parts, or ?commit to commit them.")
    is_raw = content_type.partition(b";")[0].strip().lower() == CONTENT_TYPE
    found = list(_raw_entries(body) if is_raw else _json_entries(body))
    if len(found) > MAX_ENTRIES:
        raise MalformedError("TOO_MANY_ENTRIES", f"A request has at most {MAX_ENTRIES} entries.")
    if commits:
        return [_parsed_commit(head, data) for head, data in found]
    return [_parsed_stage(head, data) for head, data in found]


def _json_entries(body: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    try:
        found = _entries.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError("INVALID_PARTS", f'The body is {{"entries": [...]}}: {error}.') from None
    for one in found.entries:
        yield bytes(one), None


def _raw_entries(body: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    position = 0
    while position < len(body):
        head, position = _sized(body, position)
        data, position = _sized(body, position)
        yield head, data


def _sized(body: bytes, position: int) -> tuple[bytes, int]:
    start = position + _LENGTH.size
    end = start + _LENGTH.unpack_from(body, position)[0] if start <= len(body) else start
    if end > len(body):
        raise MalformedError("INVALID_PARTS", "The body ends inside an entry.")
    return body[start:end], end


def _parsed_stage(head: bytes, data: bytes | None) -> Entry:
    name: str | None = None
    try:
        name = _name(head)
        entry: _Stage | _StageHead
        if data is None:
            entry = _stage.decode(head)
            data = entry.bytes
        else:
            entry = _stage_head.decode(head)
        id = parts.parse_id(entry.part.encode())
        fields = {headers.CONTENT_TYPE: entry.content_type.encode("latin-1", "replace")}
        return Entry(name, parts.parse_stage(id, fields, data))
    except RequestError as error:
        return Entry(name, type(error)(error.code, error.detail))  # no traceback, whose frames hold the body
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Entry(name, MalformedError("INVALID_ENTRY", f"The entry cannot be understood: {error}."))


def _parsed_commit(head: bytes, data: bytes | None) -> Entry:
    name: str | None = None
    try:
        name = _name(head)
        if data:
            raise MalformedError("INVALID_ENTRY", "A commit has no bytes: they are in its parts.")
        entry = _commit.decode(head)
        expected = entry.expected_offset
        fields = {headers.STREAM_EXPECTED_OFFSET: expected.encode()} if expected is not None else {}
        asked = CommitRequest(
            entry.parts,
            entry.closed,
            _stamp(entry.producer) if entry.producer is not None else None,
            _as_header(entry.seq, "seq") if entry.seq is not None else None,
            parse_condition(fields),
            entry.fingerprint,
        )
        return Entry(name, parts.checked_commit(asked))
    except RequestError as error:
        return Entry(name, type(error)(error.code, error.detail))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Entry(name, MalformedError("INVALID_ENTRY", f"The entry cannot be understood: {error}."))


def _name(head: bytes) -> str:
    name = check_name(_path.decode(head).path.encode())
    if is_reserved(name, STREAM_ROOTS):
        raise MalformedError("RESERVED_PATH", "Paths below /__ds/ are the server's own, and no streams.")
    return name


def _stamp(producer: _Producer) -> Stamp:
    id = _as_header(producer.id, "producer's id")
    if len(id) > MAX_ID_BYTES:
        raise MalformedError("PRODUCER_ID_TOO_LONG", f"A producer's id is at most {MAX_ID_BYTES} bytes long.")
    return Stamp(id, producer.epoch, producer.seq)


def _as_header(text: str, what: str) -> bytes:
    """Encode what one stream's request has in a header: nothing that a header cannot hold."""
    if not text or not text.isprintable() or text != text.strip():
        raise MalformedError("INVALID_ENTRY", f"A {what} is text that a header can hold, and not empty.")
    return text.encode()


# -- Outcomes ------------------------------------------------------------------------------------


class Outcome(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a request for one entry alone would have been answered."""

    status: int
    code: str | None = None
    detail: str | None = None
    next_offset: str | None = None
    closed: bool = False


class _Problem(msgspec.Struct):
    code: str
    detail: str


_problem = msgspec.json.Decoder(_Problem)


def outcome_of(reply: Reply) -> Outcome:
    """Tell in an answer for many what a reply says about one."""
    fields = dict(reply.headers)
    tail = fields.get(headers.STREAM_NEXT_OFFSET)
    about = _problem.decode(reply.body) if isinstance(reply.body, bytes) and reply.body else None
    return Outcome(
        reply.status,
        about.code if about is not None else None,
        about.detail if about is not None else None,
        tail.decode() if tail is not None else None,
        headers.is_true(fields.get(headers.STREAM_CLOSED)),
    )
