"""Problems: every refusal that a server sends, and the only place where its status is chosen.

The sections follow a request: the connection and its limits, the HTTP request, its authorization, the
stream. Decisions about streams return refusals as values, which are answered by their type (`REFUSALS`).
The others are functions, or constants where nothing varies. All are `application/problem+json` (RFC 9457)
with a stable `code`. Statuses of successes are in `replies`.

Rules A2, A3, A5 to A7, A11, C1, F1, F2, H2 to H4, O3, O4, P1 to P3, R1, R2, X3 to X6, X9.
"""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from millstream.protocol import caching, forks, headers, lifecycle, parts, reads, streams, trims
from millstream.protocol.conditions import OffsetConflict, TagConflict
from millstream.protocol.errors import (
    MalformedError,
    OutsideMountError,
    RequestError,
    TooLargeError,
    UnsupportedEncodingError,
)
from millstream.protocol.fingerprints import FingerprintDiffers
from millstream.protocol.http import Header, Reply
from millstream.protocol.offsets import format_offset
from millstream.protocol.producers import BadStart, Fenced, Gap, TooManyProducers

_PROBLEM = (headers.CONTENT_TYPE, b"application/problem+json")
_NO_STORE = (b"cache-control", caching.NO_STORE)
_CHALLENGE = b'Bearer realm="millstream"'
CHALLENGE: Final[Header] = (b"www-authenticate", _CHALLENGE)


def problem(status: int, code: str, detail: str, *extra: Header) -> Reply:
    """Describe a refusal for programs (`code`) and for people (`detail`)."""
    body = {"title": HTTPStatus(status).phrase, "status": status, "code": code, "detail": detail}
    return Reply(status, [_PROBLEM, _NO_STORE, *extra], escape_markup(msgspec.json.encode(body)))


def escape_markup(text: bytes) -> bytes:
    """Escape what a client sent, so that no browser takes it for markup (rule H2)."""
    return text.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")


def _retry_after(seconds: int) -> Header:
    return b"retry-after", b"%d" % seconds


# -- Connections and limits (rule H4) ------------------------------------------------------------

SERVER_FULL: Final = problem(503, "TOO_MANY_CONNECTIONS", "The server is full.", _retry_after(1))
REQUEST_TIMEOUT: Final = problem(408, "TIMEOUT", "The request took too long to arrive.")
OVERLOADED: Final = problem(
    503, "OVERLOADED", "More comes than the server can keep up with; nothing was changed.", _retry_after(1)
)
BODIES_FULL: Final = problem(
    503,
    "TOO_MANY_BODIES",
    "Clients send more large bodies at once than the server has room for; nothing was changed.",
    _retry_after(1),
)
GOING_AWAY: Final = problem(410, "GOING_AWAY", "The server is shutting down.")
INTERNAL_ERROR: Final = problem(500, "INTERNAL_ERROR", "The server failed to answer; its log says why.")


TOO_MANY_FOLLOWED: Final = problem(
    400,
    "TOO_MANY_STREAMS",
    "The globs match more streams that are not closed than a connection can follow, 1000 with those that are "
    "named: use globs that match fewer.",
)
GLOBS_FULL: Final = problem(
    503,
    "TOO_MANY_GLOBS",
    "Clients follow more different globs than the server has room for.",
    _retry_after(5),
)


def too_many_connections(limit: int) -> Reply:
    """Refuse a connection from an address that has as many as it may have."""
    detail = f"More than {limit} connections from one address."
    return problem(429, "TOO_MANY_CONNECTIONS", detail, _retry_after(1))


def rate_limited(per_second: float, unit: str, retry_after_s: int) -> Reply:
    """Refuse a request that comes too soon; `unit` is what is counted by: an address or a token."""
    detail = f"More than {per_second:g} requests a second by one {unit}."
    return problem(429, "RATE_LIMITED", detail, _retry_after(retry_after_s))


def not_ready(status: str) -> Reply:
    """Tell a load balancer that the server takes no appends."""
    return problem(503, "NOT_READY", f"The server does not accept appends: {status}.", _retry_after(5))


# -- The HTTP request ----------------------------------------------------------------------------

URL_TOO_LONG: Final = problem(414, "URL_TOO_LONG", "The URL is too long.")
HEADERS_TOO_LARGE: Final = problem(431, "HEADERS_TOO_LARGE", "The headers are too large or too many.")
MALFORMED_HTTP: Final = problem(400, "MALFORMED_HTTP", "The request is not valid HTTP/1.1.")
INVALID_HOST: Final = problem(
    400,
    "INVALID_HOST",
    "A request has one Host header: a name or an address, and a port if it is not the usual.",
)
UNSUPPORTED_VERSION: Final = problem(505, "UNSUPPORTED_VERSION", "Send HTTP/1.1 or HTTP/1.0.")
UNSUPPORTED_TRANSFER_CODING: Final = problem(
    501,
    "UNSUPPORTED_TRANSFER_CODING",
    "Transfer-Encoding may be chunked only; to compress a body, use Content-Encoding.",
)
UNEXPECTED_BODY: Final = problem(
    413, "BODY_TOO_LARGE", "Only PUT and POST to a stream may have a body of more than 64 KiB."
)


def body_too_large(max_bytes: int) -> Reply:
    """Refuse a body over the limit, before it arrives if `Content-Length` says so (rule A11)."""
    return problem(413, "BODY_TOO_LARGE", f"A request body is at most {max_bytes} bytes.")


def method_not_allowed(allowed: bytes) -> Reply:
    """Refuse a method that means nothing at this path (rule H3)."""
    return problem(405, "METHOD_NOT_ALLOWED", f"Allowed methods: {allowed.decode()}.", (b"allow", allowed))


def nothing_at(path: str) -> Reply:
    """Answer for a control path that does not exist (rule P2)."""
    detail = f"There is nothing at {path}. Paths below /__ds/ are the server's own; no stream can be there."
    return problem(404, "RESERVED_PATH", detail)


def only_here(paths: str) -> Reply:
    """Answer for a path that the admin port does not have."""
    return problem(404, "NOT_FOUND", f"Available paths: {paths}.")


_ERROR_STATUSES: Final[dict[type[RequestError], int]] = {
    MalformedError: 400,
    OutsideMountError: 404,
    TooLargeError: 413,
    UnsupportedEncodingError: 415,
}


def malformed(error: RequestError) -> Reply:
    """Answer a request that could not be understood."""
    return problem(_ERROR_STATUSES[type(error)], error.code, error.detail)


def missing_or_malformed(
    found: streams.Stream | streams.NotFound | streams.SoftDeleted, error: RequestError
) -> Reply:
    """Answer a malformed POST: whether the stream exists comes before syntax in the order of rule A2."""
    return malformed(error) if isinstance(found, streams.Stream) else REFUSALS[type(found)](found)


# -- Authorization -------------------------------------------------------------------------------


def _challenge(error: str, detail: str) -> Header:
    """Say in a header why a token was refused, too: the response to a HEAD has no body (RFC 6750, 3)."""
    safe = "".join(
        char if char.isascii() and char.isprintable() and char not in '"\\' else "?" for char in detail
    )
    value = b'%b, error="%b", error_description="%b"' % (_CHALLENGE, error.encode(), safe.encode())
    return b"www-authenticate", value


def _unauthorized(code: str, detail: str) -> Reply:
    return problem(401, code, detail, _challenge("invalid_token", detail))


INVALID_TOKEN: Final = _unauthorized("INVALID_TOKEN", "The token is not valid, or not valid now.")
INVALID_SIGNED_NAME: Final = _unauthorized("INVALID_TOKEN", "The signed name is not valid for this stream.")
UNREADABLE_BY_TOKEN: Final = _unauthorized("INVALID_TOKEN", "The token does not allow to read this stream.")
"""What AnyCable's clients get instead of 403."""


def invalid_token(reason: str) -> Reply:
    """Refuse a token; `reason` says what is wrong with it."""
    return _unauthorized("INVALID_TOKEN", f"The token is not valid: {reason}.")


def missing_token(expected: str) -> Reply:
    """Refuse a request without credentials; `expected` says what to send."""
    return problem(401, "MISSING_TOKEN", f"Send {expected}.", CHALLENGE)


HOST_NOT_ALLOWED: Final = problem(
    403,
    "HOST_NOT_ALLOWED",
    "A server without tokens is called by a name of its own machine, such as localhost, or by one that its "
    "setting allowed_hosts has.",
)
ORIGIN_NOT_ALLOWED: Final = problem(
    403,
    "ORIGIN_NOT_ALLOWED",
    "A web page of another origin may not write to a server without tokens, unless its setting cors_origin "
    "names that origin.",
)
NOT_LOCAL: Final = problem(
    403,
    "NOT_LOCAL",
    "Without tokens, these streams are for clients on the server's own machine. To serve others, the "
    "application sets auth_secret, auth_key or auth_jwks, passes authorize= to MillstreamApp, or passes "
    "insecure=True if everybody may do everything.",
)


_SHOWN_SCOPES = 5


def forbidden(action: str, scopes: Sequence[str]) -> Reply:
    """Refuse what a valid token does not allow; `scopes` are what it does."""
    shown = ", ".join(scopes[:_SHOWN_SCOPES]) + (", ..." if len(scopes) > _SHOWN_SCOPES else "")
    detail = f"The token does not allow to {action} this stream. Its scopes: {shown or 'none'}."
    return problem(403, "FORBIDDEN", detail, _challenge("insufficient_scope", detail))


def not_authorized(action: str) -> Reply:
    """Refuse what the application around an ASGI app does not allow."""
    return problem(403, "FORBIDDEN", f"The application does not allow you to {action} this.")


LISTING_FORBIDDEN: Final = problem(403, "FORBIDDEN", "The token does not allow to read any stream.")
WRITING_FORBIDDEN: Final = problem(403, "FORBIDDEN", "The token does not allow to write any stream.")


FOLLOWING_FORBIDDEN: Final = problem(403, "FORBIDDEN", "The token does not allow to read any stream.")


def is_forbidden(reply: Reply) -> bool:
    """Tell whether a reply refuses a valid token."""
    return reply.status == 403


# -- Streams -------------------------------------------------------------------------------------


def _not_found(refusal: streams.NotFound) -> Reply:
    return problem(404, "NOT_FOUND", f"There is no stream at {refusal.name}.")


def _soft_deleted(refusal: streams.SoftDeleted) -> Reply:
    return problem(410, "GONE", f"The stream at {refusal.name} was deleted.")


def _no_space(_refusal: streams.NoSpace) -> Reply:
    return problem(507, "NO_SPACE", "The server's disk is full; nothing was changed.", _retry_after(5))


def _store_failed(_refusal: streams.StoreFailed) -> Reply:
    detail = "The server's disk failed; whether the change was kept shows after a restart."
    return problem(503, "STORE_FAILED", detail, _retry_after(5))


def _backlogged(_refusal: streams.Backlogged) -> Reply:
    detail = "The server's checkpoints are behind, and its log says why; nothing was changed."
    return problem(503, "CHECKPOINTS_BEHIND", detail, _retry_after(1))


def _not_saved(refusal: streams.NotSaved) -> Reply:
    detail = f"The server cannot save {refusal.name}, and its log says why; nothing was changed."
    return problem(503, "STREAM_NOT_SAVED", detail, _retry_after(5))


def _unreachable(refusal: streams.Unreachable) -> Reply:
    outcome = "whether the change was kept is not known" if refusal.is_unknown else "nothing was changed"
    detail = f"The server's database cannot be reached; {outcome}."
    return problem(503, "DATABASE_UNREACHABLE", detail, _retry_after(1))


def _stream_full(refusal: streams.StreamFull) -> Reply:
    return problem(413, "STREAM_FULL", f"A stream is at most {refusal.max_bytes} bytes here.")


# -- Appending and closing (rules A2, A5 to A7, A9, R2) ------------------------------------------


def _closed(refusal: streams.Closed) -> Reply:
    tail = (headers.STREAM_NEXT_OFFSET, format_offset(refusal.tail))
    return problem(409, "STREAM_CLOSED", "The stream is closed.", tail, (headers.STREAM_CLOSED, b"true"))


def _type_mismatch(refusal: streams.TypeMismatch) -> Reply:
    expected, received = refusal.expected.decode("latin-1"), refusal.received.decode("latin-1")
    detail = f"The stream's content type is {expected}, the request's {received}."
    return problem(409, "CONTENT_TYPE_MISMATCH", detail)


def _seq_regressed(refusal: streams.SeqRegressed) -> Reply:
    last, received = refusal.last.decode("latin-1"), refusal.received.decode("latin-1")
    detail = f"Stream-Seq must rise bytewise: {received!r} came after {last!r}."
    tail = (headers.STREAM_NEXT_OFFSET, format_offset(refusal.tail))
    return problem(409, "SEQUENCE_REGRESSION", detail, tail)


def _offset_conflict(refusal: OffsetConflict) -> Reply:
    tail, expected = format_offset(refusal.tail), format_offset(refusal.expected)
    detail = f"The stream ends at {tail.decode()}, not at {expected.decode()}."
    return problem(409, "EXPECTED_OFFSET_CONFLICT", detail, (headers.STREAM_NEXT_OFFSET, tail))


def _tag_conflict(refusal: TagConflict) -> Reply:
    tail = format_offset(refusal.tail)
    detail = f"The stream ends at {tail.decode()}, which has none of the tags in If-Match."
    fields = (headers.STREAM_NEXT_OFFSET, tail), (b"etag", refusal.tag)
    return problem(412, "PRECONDITION_FAILED", detail, *fields)


def _fenced(refusal: Fenced) -> Reply:
    epoch = refusal.current_epoch
    detail = f"A newer session of this producer has taken over with epoch {epoch}."
    return problem(403, "STALE_EPOCH", detail, (headers.PRODUCER_EPOCH, b"%d" % epoch))


def _gap(refusal: Gap) -> Reply:
    return problem(
        409,
        "SEQUENCE_GAP",
        f"Producer-Seq {refusal.expected} is missing before {refusal.received}.",
        (headers.PRODUCER_EXPECTED_SEQ, b"%d" % refusal.expected),
        (headers.PRODUCER_RECEIVED_SEQ, b"%d" % refusal.received),
    )


def _bad_start(refusal: BadStart) -> Reply:
    return problem(400, "EPOCH_START", f"A new epoch begins with Producer-Seq 0, not {refusal.received}.")


def _too_many_producers(refusal: TooManyProducers) -> Reply:
    detail = (
        f"The stream knows {refusal.limit} producers, as many as it may, and all were used lately. "
        "Give a producer one id for its whole life, and a higher epoch when it restarts."
    )
    return problem(403, "TOO_MANY_PRODUCERS", detail)


# -- Parts (rules X3, X5) -------------------------------------------------------------------------


def _part_missing(refusal: parts.PartMissing) -> Reply:
    detail = f"There is no part {refusal.id}: it was not staged, or is committed, dropped or expired."
    return problem(409, "PART_MISSING", detail)


def _fingerprint_differs(refusal: FingerprintDiffers) -> Reply:
    detail = (
        "The producer made this commit before, with other content: its fingerprint was "
        f"{refusal.committed!r}, and is {refusal.received!r} now. Nothing was changed."
    )
    tail = (headers.STREAM_NEXT_OFFSET, format_offset(refusal.tail))
    return problem(409, "FINGERPRINT_DIFFERS", detail, tail)


def _part_conflict(refusal: parts.PartConflict) -> Reply:
    return problem(409, "PART_CONFLICT", f"The part {refusal.id} is staged with other bytes.")


def _too_many_parts(_refusal: parts.TooManyParts) -> Reply:
    detail = f"At most {parts.MAX_PARTS} parts of a stream wait at a time; commit or delete some."
    return problem(413, "TOO_MANY_PARTS", detail)


def _staged_too_much(refusal: parts.StagedTooMuch) -> Reply:
    detail = f"At most {refusal.max_bytes} bytes of a stream wait at a time; commit or delete some parts."
    return problem(413, "STAGED_TOO_MUCH", detail)


# -- Creating and forking (rules C1, F1, F2) -----------------------------------------------------


def _config_mismatch(refusal: lifecycle.ConfigMismatch) -> Reply:
    detail = f"A stream at {refusal.name} exists with another {refusal.what}."
    return problem(409, "CONFIG_MISMATCH", detail)


def _name_in_use(refusal: lifecycle.NameInUse) -> Reply:
    detail = f"The stream at {refusal.name} was deleted, but forks still need it."
    return problem(409, "NAME_IN_USE", detail)


def _too_many_streams(refusal: lifecycle.TooManyStreams) -> Reply:
    detail = f"There are {refusal.limit} streams below {refusal.above} already."
    return problem(403, "TOO_MANY_STREAMS", detail)


def _source_not_found(refusal: forks.SourceNotFound) -> Reply:
    return problem(404, "FORK_SOURCE_NOT_FOUND", f"There is no stream at {refusal.name} to fork from.")


def _source_deleted(refusal: forks.SourceDeleted) -> Reply:
    detail = f"The stream at {refusal.name} was deleted; it takes no new forks."
    return problem(409, "FORK_SOURCE_DELETED", detail)


def _fork_beyond_tail(refusal: forks.ForkBeyondTail) -> Reply:
    tail = format_offset(refusal.tail).decode()
    return problem(400, "FORK_OFFSET_BEYOND_TAIL", f"The source ends at {tail}, before Stream-Fork-Offset.")


def _fork_before_start(refusal: forks.ForkBeforeStart) -> Reply:
    earliest = format_offset(refusal.earliest)
    detail = f"The source keeps nothing before {earliest.decode()}."
    return problem(410, "OFFSET_GONE", detail, (headers.STREAM_EARLIEST_OFFSET, earliest))


def _fork_unaligned(_refusal: forks.ForkUnaligned) -> Reply:
    return problem(400, "INVALID_OFFSET", "Stream-Fork-Offset is inside a message of the source.")


def _sub_offset_overshoot(refusal: forks.SubOffsetOvershoot) -> Reply:
    detail = f"Stream-Fork-Sub-Offset may be at most {refusal.available} here, the size of the next append."
    return problem(400, "FORK_SUB_OFFSET_OVERSHOOT", detail)


# -- Reading (rules O3, O4) ----------------------------------------------------------------------

STALE_OFFSET: Final = problem(410, "OFFSET_GONE", "The stream is not the one in which the offset was given.")
NOT_JSON: Final = problem(400, "NOT_JSON", "AnyCable's clients read JSON streams only.")


def _offset_gone(refusal: reads.OffsetGone) -> Reply:
    earliest = format_offset(refusal.earliest)
    detail = f"The stream keeps nothing before {earliest.decode()}; offset=-1 reads from there."
    return problem(410, "OFFSET_GONE", detail, (headers.STREAM_EARLIEST_OFFSET, earliest))


def _offset_unaligned(_refusal: reads.OffsetUnaligned) -> Reply:
    return problem(400, "INVALID_OFFSET", "The offset is inside a message; use one from Stream-Next-Offset.")


def _trim_beyond_tail(refusal: trims.TrimBeyondTail) -> Reply:
    tail = format_offset(refusal.tail).decode()
    return problem(400, "TRIM_BEYOND_TAIL", f"The stream ends at {tail}; trim=now drops all of it.")


REFUSALS: Final[dict[type, Callable[[Any], Reply]]] = {
    streams.NotFound: _not_found,
    streams.SoftDeleted: _soft_deleted,
    streams.NoSpace: _no_space,
    streams.StoreFailed: _store_failed,
    streams.Backlogged: _backlogged,
    streams.NotSaved: _not_saved,
    streams.Unreachable: _unreachable,
    streams.StreamFull: _stream_full,
    streams.Closed: _closed,
    streams.TypeMismatch: _type_mismatch,
    streams.SeqRegressed: _seq_regressed,
    OffsetConflict: _offset_conflict,
    TagConflict: _tag_conflict,
    Fenced: _fenced,
    Gap: _gap,
    BadStart: _bad_start,
    TooManyProducers: _too_many_producers,
    parts.PartMissing: _part_missing,
    FingerprintDiffers: _fingerprint_differs,
    parts.PartConflict: _part_conflict,
    parts.TooManyParts: _too_many_parts,
    parts.StagedTooMuch: _staged_too_much,
    lifecycle.ConfigMismatch: _config_mismatch,
    lifecycle.NameInUse: _name_in_use,
    lifecycle.TooManyStreams: _too_many_streams,
    forks.SourceNotFound: _source_not_found,
    forks.SourceDeleted: _source_deleted,
    forks.ForkBeyondTail: _fork_beyond_tail,
    forks.ForkBeforeStart: _fork_before_start,
    forks.ForkUnaligned: _fork_unaligned,
    forks.SubOffsetOvershoot: _sub_offset_overshoot,
    reads.OffsetGone: _offset_gone,
    reads.OffsetUnaligned: _offset_unaligned,
    trims.TrimBeyondTail: _trim_beyond_tail,
    reads.ReadFailed: lambda _: INTERNAL_ERROR,
    MalformedError: lambda error: malformed(error),
}
"""Every refusal that is a value, by its type."""
