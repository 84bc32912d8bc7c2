"""Refusals of requests about subscriptions: `{"error": {"code", "message"}}`, and their statuses.

That form is the protocol's for these routes; all others have `application/problem+json`
(`protocol.problems`). A refusal that was made for both, such as one of a token, is put into this form by
`as_error`.

PROTOCOL.md 7; rules S3, S4, H2.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from millstream.protocol import caching, headers, problems
from millstream.protocol.errors import RequestError, TooLargeError
from millstream.protocol.http import Header, Reply
from millstream.protocol.subscriptions.requests import MAX_BODY_BYTES
from millstream.protocol.subscriptions.wakes import (
    AlreadyClaimed,
    BadAck,
    Fenced,
    NothingPending,
    WrongType,
)

_JSON: Header = (headers.CONTENT_TYPE, b"application/json")
_NO_STORE: Header = (b"cache-control", caching.NO_STORE)


class Unknown(msgspec.Struct, frozen=True):
    """There is no such subscription."""


class Differs(msgspec.Struct, frozen=True):
    """The subscription exists with another configuration."""


class TooMany(msgspec.Struct, frozen=True):
    """There are as many subscriptions as there may be."""

    limit: int


Refusal = Unknown | Differs | TooMany | Fenced | AlreadyClaimed | NothingPending | WrongType | BadAck


def error(status: int, code: str, message: str, *extra: Header, **fields: Any) -> Reply:
    """Describe a refusal for programs (`code`) and for people (`message`)."""
    body = msgspec.json.encode({"error": {"code": code, "message": message, **fields}})
    return Reply(status, [_JSON, _NO_STORE, *extra], problems.escape_markup(body))


INVALID_TOKEN: Final = error(
    401,
    "TOKEN_INVALID",
    "This needs the token of a claim, or of a webhook, of this subscription as Authorization: Bearer.",
    problems.CHALLENGE,
)
TOO_LARGE: Final = error(413, "BODY_TOO_LARGE", f"The body is larger than {MAX_BODY_BYTES} bytes.")
NOT_READABLE: Final = error(
    403, "FORBIDDEN", "A subscription needs a token that may read all streams that it can match."
)

_REFUSALS: dict[type[Any], Callable[[Any], Reply]] = {
    Unknown: lambda _: error(404, "SUBSCRIPTION_NOT_FOUND", "There is no such subscription."),
    Differs: lambda _: error(
        409, "SUBSCRIPTION_ALREADY_EXISTS", "The subscription exists with another configuration."
    ),
    TooMany: lambda one: error(
        409, "TOO_MANY_SUBSCRIPTIONS", f"There are {one.limit} subscriptions, which is the limit here."
    ),
    Fenced: lambda _: error(409, "FENCED", "This wake is over: another one has begun, or its lease ended."),
    AlreadyClaimed: lambda one: error(
        409,
        "ALREADY_CLAIMED",
        "Another worker has the lease.",
        current_holder=one.holder,
        generation=one.generation,
    ),
    NothingPending: lambda _: error(409, "NO_PENDING_WORK", "Nothing is pending."),
    WrongType: lambda one: error(
        400, "INVALID_REQUEST", f"This is for subscriptions of the type {one.needed} only."
    ),
    BadAck: lambda one: error(400, "INVALID_OFFSET", f"{one.stream} {one.reason}; nothing was changed."),
}


def refused(refusal: Any) -> Reply:
    """Answer a refusal by its type; those that are not of subscriptions are of the store."""
    made = _REFUSALS.get(type(refusal))
    return made(refusal) if made is not None else as_error(problems.REFUSALS[type(refusal)](refusal))


def malformed(wrong: RequestError) -> Reply:
    """Answer a request that cannot be understood."""
    return TOO_LARGE if isinstance(wrong, TooLargeError) else error(400, wrong.code, wrong.detail)


def rejected_url(reason: str) -> Reply:
    """Refuse a target of webhooks (rule S3)."""
    return error(400, "WEBHOOK_URL_REJECTED", reason)


def as_error(reply: Reply) -> Reply:
    """Put a refusal that was made for any route into the form of these."""
    if (headers.CONTENT_TYPE, b"application/problem+json") not in reply.headers:
        return reply
    assert isinstance(reply.body, bytes)
    found = msgspec.json.decode(reply.body)
    extra = [field for field in reply.headers if field[0] not in (headers.CONTENT_TYPE, b"cache-control")]
    return error(reply.status, found["code"], found["detail"], *extra)
