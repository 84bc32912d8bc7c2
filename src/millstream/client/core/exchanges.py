"""Exchanges: one request, retried while that is safe, and the error that a refusal means.

The core is generators ("plans") that yield effects. The driver performs each effect and sends back its
outcome, or throws the `TransportError` that it raised:

    Send(endpoint, ask)   -> Answer            a complete response
    Open(endpoint, ask)   -> Answer            status and headers; `Read` gives the body
    Read()                -> bytes             b"" at the end
    Shut()                -> None              close what was opened
    Sleep(seconds)        -> None
    Call(function, value) -> its result        the user's `on_error` or `decide`
    Deliver(chunk)        -> None              for the user: the driver returns to its caller
    Started()             -> None              the first successful response has arrived
"""

import re
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec

from millstream.client.core import errors, retry
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.retry import DEFAULT, REAL, Attempts, Chance, Retry
from millstream.client.core.transport import Answer, Headers
from millstream.protocol import headers
from millstream.protocol.errors import MalformedError


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a request and return the complete response."""

    endpoint: Endpoint
    ask: Ask


class Open(msgspec.Struct, frozen=True, gc=False):
    """Send a request and return the head of its response."""

    endpoint: Endpoint
    ask: Ask


class Read(msgspec.Struct, frozen=True, gc=False):
    """Return the next bytes of the opened response."""


class Shut(msgspec.Struct, frozen=True, gc=False):
    """Close the opened response."""


class Sleep(msgspec.Struct, frozen=True, gc=False):
    """Wait."""

    seconds: float


class Call(msgspec.Struct, frozen=True, gc=False):
    """Call the user's function."""

    function: Callable[[Any], Any]
    argument: Any


class Started(msgspec.Struct, frozen=True, gc=False):
    """The first successful response has arrived."""


class ContentChunk(msgspec.Struct, frozen=True, gc=False):
    """Content, and the reader's position after it.

    Several SSE data events may precede their control event; each is one part.
    """

    parts: tuple[bytes, ...]
    offset: str
    up_to_date: bool
    cursor: str | None
    stream_closed: bool
    last_time: str | None = None

    @property
    def data(self) -> bytes:
        """The parts as one."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class FollowedChunk(ContentChunk, frozen=True, gc=False):
    """Content of one of many streams that are followed."""

    path: str = ""
    content_type: str = ""
    stream_deleted: bool = False


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Hand a chunk to the user."""

    chunk: ContentChunk


Effect = Send | Open | Read | Shut | Sleep | Call | Started | Deliver
R = TypeVar("R")
Plan = Generator[Effect, Any, R]


class Terms(msgspec.Struct, frozen=True):
    """Retries and timeouts."""

    retry: Retry | None = DEFAULT
    timeout_s: float = 30.0
    chance: Chance = REAL


def exchange(
    endpoint: Endpoint, ask: Ask, terms: Terms, *, safe: bool, attempts: Attempts | None = None
) -> Plan[Answer]:
    """Send until the response is final, and return it, whatever its status.

    A request that is not `safe` is retried only if it was provably not carried out.
    """
    safe = safe or (terms.retry is not None and terms.retry.doubtful_appends)
    while True:
        outcome: Answer | errors.TransportError
        try:
            answer: Answer = yield Send(endpoint, ask)
        except errors.TransportError as error:
            outcome = error
        else:
            if answer.status not in retry.STATUSES:
                return answer
            outcome = answer
        attempts = attempts or Attempts(terms.retry, terms.chance)  # rarely needed
        delay_s = delay_after(outcome, attempts, terms, safe=safe)
        if delay_s is None:
            if isinstance(outcome, errors.TransportError):
                raise outcome
            return outcome
        yield Sleep(delay_s)


def delay_after(
    outcome: Answer | errors.TransportError, attempts: Attempts, terms: Terms, *, safe: bool
) -> float | None:
    """Return the delay before the next attempt; None if this outcome is final."""
    attempts.doubtful |= not retry.may_repeat(outcome, safe=False)
    if not retry.may_repeat(outcome, safe=safe):
        return None
    asked = retry.retry_after_s(outcome, terms.chance) if isinstance(outcome, Answer) else None
    return attempts.delay_s(asked)


# -- Refusals -----------------------------------------------------------------------------------


class _Problem(msgspec.Struct):
    code: str = ""
    detail: str = ""


_problem = msgspec.json.Decoder(_Problem)


def refusal(endpoint: Endpoint, ask: Ask, answer: Answer, terms: Terms) -> errors.MillstreamError:
    """Return the error that a refusal means. Status and headers decide; the problem's code refines."""
    url, status, found = endpoint.url, answer.status, answer.headers
    problem = _read_problem(answer)
    code = problem.code or None
    because = f" ({problem.detail.rstrip('.')})" if problem.detail else ""
    match status:
        case 400:
            return errors.BadRequestError(f"The server refused the request{because}", url=url, code=code)
        case 403 if headers.PRODUCER_EPOCH in found:
            epoch = number(found, headers.PRODUCER_EPOCH, url)
            name = ask.headers.get(headers.PRODUCER_ID, b"").decode("latin-1")
            message = f"A newer session of producer {name!r} took over with epoch {epoch}"
            return errors.StaleEpochError(message, url=url, current_epoch=epoch)
        case 401 | 403:
            return errors.UnauthorizedError(f"Not allowed{because}", url=url, status=status, code=code)
        case 404 if code == "RESERVED_PATH":
            return errors.StreamNotFoundError(f"No stream can be here{because}", url=url, code=code)
        case 404:
            return errors.StreamNotFoundError("There is no such stream", url=url, code=code)
        case 409:
            return _conflict(url, ask, answer, problem, because)
        case 410:
            earliest = _text(found, headers.STREAM_EARLIEST_OFFSET)
            message = f"No longer there{because}"
            return errors.StreamGoneError(message, url=url, code=code, earliest_offset=earliest)
        case 413:
            message = f"The append is too large for the server{because}"
            return errors.PayloadTooLargeError(message, url=url, code=code)
        case 429:
            wait_s = retry.retry_after_s(answer, terms.chance)
            return errors.RateLimitedError("Too many requests", url=url, retry_after=wait_s)
    return errors.UnexpectedStatusError(
        f"The server answered {status}{because}", url=url, status=status, code=code
    )


_PART_ERRORS: dict[str, type[errors.MillstreamError]] = {
    "PART_MISSING": errors.PartMissingError,
    "PART_CONFLICT": errors.PartConflictError,
    "FINGERPRINT_DIFFERS": errors.PartConflictError,
}


def _conflict(url: str, ask: Ask, answer: Answer, problem: _Problem, because: str) -> errors.MillstreamError:
    found = answer.headers
    if headers.is_true(found.get(headers.STREAM_CLOSED)):
        return errors.StreamClosedError(url=url, final_offset=_text(found, headers.STREAM_NEXT_OFFSET))
    if headers.PRODUCER_EXPECTED_SEQ in found:
        expected = number(found, headers.PRODUCER_EXPECTED_SEQ, url)
        received = number(found, headers.PRODUCER_RECEIVED_SEQ, url)
        message = f"The producer's append {received} came before {expected}"
        return errors.SequenceGapError(message, url=url, expected=expected, received=received)
    if headers.STREAM_EXPECTED_OFFSET in ask.headers and _is_elsewhere(ask, found, problem):
        current = _text(found, headers.STREAM_NEXT_OFFSET)
        message = f"The stream ends at {current}, not where it was expected to"
        return errors.OffsetConflictError(message, url=url, current_offset=current)
    if problem.code in _PART_ERRORS:
        return _PART_ERRORS[problem.code](f"The parts do not fit{because}", url=url, code=problem.code)
    if ask.method == b"PUT":
        message = f"The path is taken by another stream{because}"
        return errors.StreamExistsError(message, url=url, code=problem.code or None)
    if problem.code == "CONTENT_TYPE_MISMATCH" or (
        not problem.code and headers.STREAM_SEQ not in ask.headers
    ):
        return errors.ContentTypeMismatchError(f"Not the stream's content type{because}", url=url)
    return errors.SequenceConflictError(f"The sequence must rise{because}", url=url)


def _is_elsewhere(ask: Ask, found: Headers, problem: _Problem) -> bool:
    """Tell by the code, or on servers without codes by the tail that the refusal names."""
    if problem.code:
        return problem.code == "EXPECTED_OFFSET_CONFLICT"
    tail = found.get(headers.STREAM_NEXT_OFFSET)
    return tail is not None and tail != ask.headers[headers.STREAM_EXPECTED_OFFSET]


_REASON = re.compile(r'error="([^"]*)"(?:.*error_description="([^"]*)")?', re.IGNORECASE)
_CODES = {"invalid_token": "INVALID_TOKEN", "insufficient_scope": "FORBIDDEN"}


def _read_challenge(answer: Answer) -> _Problem:
    """Read why a token was refused from `WWW-Authenticate` (RFC 6750, 3): a HEAD has no body."""
    challenge = _text(answer.headers, b"www-authenticate")
    if challenge is None:
        return _Problem()
    found = _REASON.search(challenge)
    if found is None:
        return _Problem("MISSING_TOKEN", "The server requires a token")
    return _Problem(_CODES.get(found[1], ""), found[2] or "")


def _read_problem(answer: Answer) -> _Problem:
    if not answer.body or b"json" not in answer.headers.get(headers.CONTENT_TYPE, b""):
        return _read_challenge(answer) if answer.status in (401, 403) else _Problem()
    try:
        return _problem.decode(answer.body)
    except msgspec.MsgspecError:
        return _Problem()


# -- Reading headers -----------------------------------------------------------------------------


def number(found: Headers, name: bytes, url: str) -> int:
    """Read a header that must be an integer."""
    try:
        return headers.parse_integer(found.get(name, b""), name.decode())
    except MalformedError as error:
        raise errors.ParseError(error.detail.rstrip("."), url=url) from None


def next_offset(answer: Answer, url: str) -> str:
    """Read the offset that every response about a stream carries."""
    offset = _text(answer.headers, headers.STREAM_NEXT_OFFSET)
    if not offset:
        raise errors.ParseError(
            "The answer lacks Stream-Next-Offset, so it is not a durable stream's",
            url=url,
            status=answer.status,
        )
    return offset


def text(answer: Answer, name: bytes) -> str | None:
    """Read a header as text, None when it is absent."""
    return _text(answer.headers, name)


def _text(found: Headers, name: bytes) -> str | None:
    value = found.get(name)
    return value.decode("latin-1") if value is not None else None


def flag(answer: Answer, name: bytes) -> bool:
    """Return whether a flag header is set."""
    return headers.is_true(answer.headers.get(name))
