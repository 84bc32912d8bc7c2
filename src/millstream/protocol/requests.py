"""Requests: headers, parameters and bodies, parsed.

Parsing knows no stream. It understands a request or raises `MalformedError`; whether the request is
accepted is decided in `streams`, `forks`, `parts` and `reads`.

PROTOCOL.md 5; rules A3, A4, C2, C4, F1, G7, L1, X1, X2, X6 to X8, X11.
"""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from millstream.protocol import headers, json_frames
from millstream.protocol.attributes import Changes, parse_attributes
from millstream.protocol.conditions import IF_MATCH, Condition, parse_condition
from millstream.protocol.content import is_json, may_be_bytes
from millstream.protocol.cursors import parse_cursor
from millstream.protocol.errors import MalformedError, TooLargeError
from millstream.protocol.expiry import FOREVER, Lifetime, parse_lifetime
from millstream.protocol.globs import MAX_GLOB_BYTES, glob_matches
from millstream.protocol.names import parse_name
from millstream.protocol.offsets import NOW, START, parse_offset
from millstream.protocol.origins import Origin, is_origin, parse_origin
from millstream.protocol.producers import Stamp, parse_stamp
from millstream.protocol.queries import Query
from millstream.protocol.retention import KEEP_ALL, Retention, parse_retention

Headers = Mapping[bytes, bytes]

MAX_NAMED: Final = 10_000
"""Most streams that one look-up may name."""

MAX_NAMED_BYTES: Final = 2**20
"""Largest body of a look-up: it is parsed on the event loop, in a millisecond or two."""

MAX_PAGE: Final = 1000
"""Most streams in one page of a listing, or of a deletion."""

USUAL_PAGE: Final = 100
"""Streams in one page of a listing that asks for no other number."""

_ATTRIBUTE: Final = b"attr."
"""The beginning of a parameter that selects streams by an attribute."""


class AppendRequest(msgspec.Struct, frozen=True, gc=False):
    """A POST: data to append, as it will be stored, or a close, or both."""

    data: bytes
    content_type: bytes
    closes: bool
    stamp: Stamp | None
    seq: bytes | None
    condition: Condition | None = None
    raw: bytes | None = None
    """The body as it came, where an older stream of its type may hold bytes and not JSON."""
    fingerprint: str | None = None
    """What a commit's writer says of its content (see `fingerprints`)."""


class CreateRequest(msgspec.Struct, frozen=True):
    """A PUT: the configuration of a stream, and its first content."""

    body: bytes = b""
    content_type: bytes | None = None
    closed: bool = False
    lifetime: Lifetime = FOREVER
    forked_from: str | None = None
    fork_offset: int | None = None
    fork_sub_offset: int = 0
    retention: Retention = KEEP_ALL
    attributes: Changes = {}
    messages: bytes | MalformedError | None = None
    """The body framed as JSON, or why it is not JSON; None if nobody has looked (see `check_content`)."""


class LiveMode(enum.Enum):
    """Whether a read waits for more, and how."""

    NO = "no"
    LONG_POLL = "long-poll"
    SSE = "sse"


NOT_LIVE: Final = LiveMode.NO
"""For code that runs for every read, as `content.JSON`."""


class ReadRequest(msgspec.Struct, frozen=True, gc=False):
    """A GET: from which offset, how far, and whether it waits for more."""

    offset: int = START
    live: LiveMode = NOT_LIVE
    cursor: int | None = None
    until: int | None = None
    limit: int | None = None
    origin: Origin | None = None
    """Where to begin, instead of at the offset (rules X7, X8)."""
    times: bool = False
    """Whether a response, or an event, holds appends of one time only (rule X7)."""
    timeout_ms: int | None = None
    """How long a long-poll waits at most, if its client says so (rule X10)."""


class ListingRequest(msgspec.Struct, frozen=True, gc=False):
    """A listing: which names, after which one, and how many at most (rule X2)."""

    prefix: str
    glob: str
    after: str
    limit: int
    attributes: Mapping[str, str] = {}
    """The values that the attributes of some names must have (rule X10)."""


class _Named(msgspec.Struct, forbid_unknown_fields=True):
    paths: list[str]


_named = msgspec.json.Decoder(_Named)


class DeletionRequest(msgspec.Struct, frozen=True, gc=False):
    """A deletion of many streams: which names, after which one, and how many at most (rule X11)."""

    prefix: str
    glob: str
    after: str
    limit: int

    def selects(self, name: str) -> bool:
        """Tell whether a stream whose name has the prefix is to be deleted."""
        return not self.glob or glob_matches(self.glob, name)


def parse_named(body: bytes) -> list[str]:
    """Read a POST that looks up streams by their paths (rule X2)."""
    if len(body) > MAX_NAMED_BYTES:
        raise TooLargeError("BODY_TOO_LARGE", f"The body of a look-up is at most {MAX_NAMED_BYTES} bytes.")
    try:
        paths = _named.decode(body).paths
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedError("INVALID_PATHS", f'The body is {{"paths": ["/a", ...]}}: {error}.') from None
    if len(paths) > MAX_NAMED:
        raise MalformedError("INVALID_PATHS", f"A request names at most {MAX_NAMED} streams.")
    return list(dict.fromkeys(paths))


def parse_append(fields: Headers, body: bytes) -> AppendRequest:
    """Read a POST."""
    content_type = fields.get(headers.CONTENT_TYPE, b"")
    closes = headers.STREAM_CLOSED in fields and headers.is_true(fields[headers.STREAM_CLOSED])
    stamp = parse_stamp(fields)
    raw = None
    if body:
        if not content_type:
            raise MalformedError("MISSING_CONTENT_TYPE", "An append with a body needs a Content-Type.")
        if is_json(content_type):
            raw = body if may_be_bytes(content_type) else None
            body = json_frames.frame(body)
            if not body:
                raise MalformedError("EMPTY_APPEND", "An empty JSON array appends nothing.")
    elif not closes:
        raise MalformedError("EMPTY_APPEND", "An append needs a body, or Stream-Closed: true to close.")
    condition = None
    if headers.STREAM_EXPECTED_OFFSET in fields or IF_MATCH in fields:
        condition = parse_condition(fields)
    return AppendRequest(body, content_type, closes, stamp, fields.get(headers.STREAM_SEQ), condition, raw)


def parse_create(fields: Headers, body: bytes) -> CreateRequest:
    """Read a PUT."""
    forked_from = fields.get(headers.STREAM_FORKED_FROM)
    fork_offset = fields.get(headers.STREAM_FORK_OFFSET)
    fork_sub_offset = fields.get(headers.STREAM_FORK_SUB_OFFSET)
    if forked_from is None and (fork_offset is not None or fork_sub_offset is not None):
        raise MalformedError(
            "FORK_WITHOUT_SOURCE", "Stream-Fork-Offset and -Sub-Offset need Stream-Forked-From beside them."
        )
    sub_offset = 0
    if fork_sub_offset is not None:
        sub_offset = headers.parse_canonical_integer(fork_sub_offset, "Stream-Fork-Sub-Offset")
        if sub_offset and fork_offset is None:
            raise MalformedError("SUB_OFFSET_WITHOUT_OFFSET", "A fork sub-offset needs Stream-Fork-Offset.")
    noted = fields.get(headers.STREAM_ATTRIBUTES)
    return CreateRequest(
        body=body,
        content_type=fields.get(headers.CONTENT_TYPE) or None,
        closed=headers.is_true(fields.get(headers.STREAM_CLOSED)),
        lifetime=parse_lifetime(fields.get(headers.STREAM_TTL), fields.get(headers.STREAM_EXPIRES_AT)),
        forked_from=parse_name(forked_from) if forked_from is not None else None,
        fork_offset=_parse_fork_offset(fork_offset) if fork_offset is not None else None,
        fork_sub_offset=sub_offset,
        retention=parse_retention(
            fields.get(headers.STREAM_RETAIN_BYTES), fields.get(headers.STREAM_RETAIN_SECONDS)
        ),
        attributes=parse_attributes(noted) if noted is not None else {},
    )


def check_content(create: CreateRequest) -> CreateRequest:
    """Frame the body as JSON ahead of the decision, where a stream that is created would need it.

    Whether it is needed is only known then: the stream may exist, or be a fork with its source's type.
    """
    content_type = create.content_type
    may_be_json = is_json(content_type) if content_type else create.forked_from is not None
    if not create.body or not may_be_json:
        return create
    messages: bytes | MalformedError
    try:
        messages = json_frames.frame(create.body)
    except MalformedError as error:
        messages = MalformedError(error.code, error.detail)  # without a traceback, whose frames hold the body
    return msgspec.structs.replace(create, messages=messages)


def location(fields: Headers, scheme: bytes, path: bytes, *, trust_forwarded: bool) -> bytes:
    """Give the URL of a new stream as its client addressed it, through proxies only if trusted (rule C2)."""
    host = fields.get(b"host", b"localhost")
    if trust_forwarded:
        scheme = fields.get(b"x-forwarded-proto", scheme).partition(b",")[0].strip()
        host = fields.get(b"x-forwarded-host", host).partition(b",")[0].strip()
    return b"%b://%b%b" % (scheme, host, path)


def _parse_fork_offset(text: bytes) -> int | None:
    offset = parse_offset(text)
    if offset == START:
        return 0
    return None if offset == NOW else offset


def parse_read(query: Query) -> ReadRequest:
    """Read the parameters of a GET, or of a HEAD that asks what the GET would answer."""
    offset = query.one(b"offset")
    origin = None
    if offset is not None and is_origin(offset):
        origin, offset = parse_origin(offset), None
    elif offset is not None and len(query) == 1:
        return ReadRequest(parse_offset(offset))
    live = parse_live(query)
    until = query.one(b"until")
    limit = query.one(b"limit")
    cursor = query.one(b"cursor")
    timeout = query.one(b"timeout")
    return ReadRequest(
        offset=parse_offset(offset) if offset is not None else START,
        live=live,
        cursor=parse_cursor(cursor) if cursor is not None else None,
        until=_parse_until(until) if until is not None else None,
        limit=_parse_limit(limit) if limit is not None else None,
        origin=origin,
        times=_parse_flag(query, b"times"),
        timeout_ms=headers.parse_integer(timeout, "timeout") if timeout is not None else None,
    )


def parse_live(query: Query) -> LiveMode:
    """Read whether a read waits for more, and how; one that does needs an offset (rule L1)."""
    text = query.one(b"live")
    if text is None or text == b"false":
        return LiveMode.NO
    try:
        mode = LiveMode(text.decode())
    except ValueError:
        raise MalformedError("INVALID_LIVE_MODE", "live is long-poll or sse.") from None
    if mode is not LiveMode.NO and query.one(b"offset") is None:
        raise MalformedError("MISSING_OFFSET", "A live read needs an offset; offset=-1 is the start.")
    return mode


def asks_what_get_answers(query: Query) -> bool:
    """Tell whether a HEAD asks for the headers of a GET rather than of the stream (rule X1)."""
    return query.has(b"offset") or query.has(b"until") or query.has(b"limit")


def parse_listing(query: Query) -> ListingRequest:
    """Read the parameters of a listing."""
    limit = _page_size(query, USUAL_PAGE)
    after = _text(query, b"cursor")
    return ListingRequest(_text(query, b"prefix"), _glob(query), after, limit, _attributes(query))


def parse_deletion(query: Query) -> DeletionRequest:
    """Read the parameters of a deletion of many streams; what it deletes is said, never left out."""
    prefix, glob = _text(query, b"prefix"), _glob(query)
    if not (prefix or glob) or (query.has(b"prefix") and not prefix):
        raise MalformedError(
            "MISSING_PREFIX",
            "Say what to delete: prefix=/chat/ or glob=/chat/*, or prefix=/ for every stream.",
        )
    if query.names(_ATTRIBUTE):
        raise MalformedError("INVALID_PARAMETER", "Streams are deleted by path only, not by attributes.")
    if prefix and not prefix.startswith("/"):
        raise MalformedError("INVALID_PREFIX", "prefix begins with a slash, as every stream's path does.")
    return DeletionRequest(prefix, glob, _text(query, b"cursor"), _page_size(query, MAX_PAGE))


def _attributes(query: Query) -> Mapping[str, str]:
    try:
        return {name[len(_ATTRIBUTE) :].decode(): _text(query, name) for name in query.names(_ATTRIBUTE)}
    except UnicodeDecodeError:
        raise MalformedError("INVALID_PARAMETER", "The name of an attribute must be UTF-8.") from None


def _page_size(query: Query, usual: int) -> int:
    limit = headers.parse_integer(query.one(b"limit") or b"%d" % usual, "limit")
    if not 1 <= limit <= MAX_PAGE:
        raise MalformedError("INVALID_LIMIT", f"limit is from 1 to {MAX_PAGE}.")
    return limit


def _glob(query: Query) -> str:
    if len(query.one(b"glob") or b"") > MAX_GLOB_BYTES:
        raise MalformedError("GLOB_TOO_LONG", f"glob is at most {MAX_GLOB_BYTES} bytes long.")
    return _text(query, b"glob")


def parse_access(query: Query) -> str | None:
    """Read the stream that a question about access is about; None for any stream."""
    return _text(query, b"path") or None


def parse_history(query: Query) -> int:
    """Read the time, in milliseconds, after which samples are wanted; 0 for all."""
    return headers.parse_integer(query.one(b"after") or b"0", "after")


def _text(query: Query, name: bytes) -> str:
    try:
        return (query.one(name) or b"").decode()
    except UnicodeDecodeError:
        raise MalformedError("INVALID_PARAMETER", f"{name.decode()} must be UTF-8.") from None


def _parse_flag(query: Query, name: bytes) -> bool:
    text = query.one(name)
    if text not in (None, b"true", b"false"):
        raise MalformedError("INVALID_PARAMETER", f"{name.decode()} is true or false.")
    return text == b"true"


def _parse_until(text: bytes) -> int:
    until = parse_offset(text)
    if until < 0:
        raise MalformedError("INVALID_UNTIL", "until is an offset that this server gave, not -1 or now.")
    return until


def _parse_limit(text: bytes) -> int:
    limit = headers.parse_integer(text, "limit")
    if limit == 0:
        raise MalformedError("INVALID_LIMIT", "limit is a number of bytes, at least 1.")
    return limit
