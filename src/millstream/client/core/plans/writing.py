"""Writing: create, append, close, fork, describe, configure and delete, as plans.

Each plan sends one request and returns its result, or raises the error that the refusal means.
Everything is safe to retry except an append without a producer's stamp.

PROTOCOL.md 4.1, 4.2, 5.1 to 5.5.
"""

from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import UnsetType

from millstream.client.core import bodies, errors
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, flag, next_offset, number, refusal, text
from millstream.client.core.models import AppendResult, Attributes, CloseResult, HeadResult, ProducerStamp
from millstream.client.core.plans import changing
from millstream.client.core.retry import Attempts
from millstream.client.core.transport import Answer, Headers
from millstream.protocol import headers
from millstream.protocol.content import DEFAULT_TYPE

_TRUE = b"true"


def create(
    endpoint: Endpoint,
    terms: Terms,
    *,
    content_type: str | None = None,
    ttl_seconds: int | None = None,
    expires_at: str | None = None,
    retain_bytes: int | None = None,
    retain_seconds: int | None = None,
    attributes: Attributes | None = None,
    body: Any = None,
    closed: bool = False,
    forked_from: str | None = None,
    fork_offset: str | None = None,
    fork_sub_offset: int | None = None,
) -> Plan[HeadResult]:
    """Create a stream, or find an equal one."""
    fields: Headers = {}
    if content_type is not None:
        fields[headers.CONTENT_TYPE] = content_type.encode("latin-1")
    if ttl_seconds is not None:
        fields[headers.STREAM_TTL] = b"%d" % ttl_seconds
    if expires_at is not None:
        fields[headers.STREAM_EXPIRES_AT] = expires_at.encode("latin-1")
    if retain_bytes is not None:
        fields[headers.STREAM_RETAIN_BYTES] = b"%d" % retain_bytes
    if retain_seconds is not None:
        fields[headers.STREAM_RETAIN_SECONDS] = b"%d" % retain_seconds
    if attributes:
        fields[headers.STREAM_ATTRIBUTES] = changing.write_attributes(attributes)
    if closed:
        fields[headers.STREAM_CLOSED] = _TRUE
    if forked_from is not None:
        fields[headers.STREAM_FORKED_FROM] = urlsplit(forked_from).path.encode("latin-1")
    if fork_offset is not None:
        fields[headers.STREAM_FORK_OFFSET] = fork_offset.encode("latin-1")
    if fork_sub_offset is not None:
        fields[headers.STREAM_FORK_SUB_OFFSET] = b"%d" % fork_sub_offset
    content = bodies.content(body, as_json=bodies.is_json(content_type)) if body is not None else b""
    ask = Ask(b"PUT", fields, body=content, timeout_s=terms.timeout_s)
    answer = yield from exchange(endpoint, ask, terms, safe=True)
    if answer.status not in (200, 201):
        raise refusal(endpoint, ask, answer, terms)
    default = None if forked_from is not None else DEFAULT_TYPE.decode()
    return HeadResult(
        content_type=text(answer, headers.CONTENT_TYPE) or content_type or default,
        offset=text(answer, headers.STREAM_NEXT_OFFSET),
        ttl_seconds=ttl_seconds,
        expires_at=expires_at,
        retain_bytes=retain_bytes,
        retain_seconds=retain_seconds,
        stream_closed=flag(answer, headers.STREAM_CLOSED),
        incarnation=text(answer, headers.STREAM_INCARNATION),
        attributes=changing.read_attributes(endpoint, answer),
    )


def head(endpoint: Endpoint, terms: Terms) -> Plan[HeadResult]:
    """Return a stream's metadata."""
    ask = Ask(b"HEAD", timeout_s=terms.timeout_s)
    answer = yield from exchange(endpoint, ask, terms, safe=True)
    if answer.status != 200:
        raise refusal(endpoint, ask, answer, terms)
    return _described(endpoint, answer)


def configure(
    endpoint: Endpoint,
    terms: Terms,
    content_type: str | None,
    *,
    ttl_seconds: int | UnsetType | None,
    expires_at: str | UnsetType | None,
    retain_bytes: int | UnsetType | None,
    retain_seconds: int | UnsetType | None,
    attributes: Attributes | None,
) -> Plan[HeadResult]:
    """Change a stream, and describe it as it is then."""
    answer = yield from changing.configure(
        endpoint,
        terms,
        ttl_seconds=ttl_seconds,
        expires_at=expires_at,
        retain_bytes=retain_bytes,
        retain_seconds=retain_seconds,
        attributes=attributes,
    )
    return msgspec.structs.replace(_described(endpoint, answer), content_type=content_type)


def _described(endpoint: Endpoint, answer: Answer) -> HeadResult:
    return HeadResult(
        content_type=text(answer, headers.CONTENT_TYPE),
        offset=text(answer, headers.STREAM_NEXT_OFFSET),
        etag=text(answer, b"etag"),
        cache_control=text(answer, b"cache-control"),
        ttl_seconds=_given_number(endpoint, answer, headers.STREAM_TTL),
        expires_at=text(answer, headers.STREAM_EXPIRES_AT),
        retain_bytes=_given_number(endpoint, answer, headers.STREAM_RETAIN_BYTES),
        retain_seconds=_given_number(endpoint, answer, headers.STREAM_RETAIN_SECONDS),
        earliest_offset=text(answer, headers.STREAM_EARLIEST_OFFSET),
        first_time=text(answer, headers.STREAM_FIRST_TIME),
        last_time=text(answer, headers.STREAM_LAST_TIME),
        start_offset=text(answer, headers.STREAM_START_OFFSET),
        stream_closed=flag(answer, headers.STREAM_CLOSED),
        extensions=_extensions(answer),
        incarnation=text(answer, headers.STREAM_INCARNATION),
        attributes=changing.read_attributes(endpoint, answer),
    )


def _given_number(endpoint: Endpoint, answer: Answer, name: bytes) -> int | None:
    return number(answer.headers, name, endpoint.url) if name in answer.headers else None


def _extensions(answer: Answer) -> tuple[str, ...]:
    named = text(answer, headers.MILLSTREAM_EXTENSIONS) or ""
    return tuple(name.strip() for name in named.split(",") if name.strip())


def delete(endpoint: Endpoint, terms: Terms) -> Plan[None]:
    """Delete a stream. If a retry finds nothing, the first attempt deleted it."""
    ask = Ask(b"DELETE", timeout_s=terms.timeout_s)
    attempts = Attempts(terms.retry, terms.chance)
    answer = yield from exchange(endpoint, ask, terms, safe=True, attempts=attempts)
    if answer.status in (200, 202, 204) or (answer.status in (404, 410) and attempts.failures):
        return
    raise refusal(endpoint, ask, answer, terms)


def append_ask(
    body: bytes,
    terms: Terms,
    content_type: bytes,
    *,
    seq: str | None = None,
    stamp: ProducerStamp | None = None,
    closes: bool = False,
    expected_offset: str | None = None,
) -> Ask:
    """Make the request of an append; with `closes` it closes the stream."""
    fields: Headers = {headers.CONTENT_TYPE: content_type} if body else {}
    if seq is not None:
        fields[headers.STREAM_SEQ] = seq.encode("latin-1")
    if closes:
        fields[headers.STREAM_CLOSED] = _TRUE
    if expected_offset is not None:
        fields[headers.STREAM_EXPECTED_OFFSET] = expected_offset.encode("latin-1")
    if stamp is not None:
        fields[headers.PRODUCER_ID] = stamp.id.encode("latin-1")
        fields[headers.PRODUCER_EPOCH] = b"%d" % stamp.epoch
        fields[headers.PRODUCER_SEQ] = b"%d" % stamp.seq
    return Ask(b"POST", fields, body=body, timeout_s=terms.timeout_s)


def append(
    endpoint: Endpoint, terms: Terms, ask: Ask, attempts: Attempts | None = None
) -> Plan[AppendResult]:
    """Append; safe to retry only with a producer's stamp. `attempts` tells how it went."""
    stamped = headers.PRODUCER_ID in ask.headers
    answer = yield from exchange(endpoint, ask, terms, safe=stamped, attempts=attempts)
    if stamped and answer.status == 204 and headers.STREAM_NEXT_OFFSET not in answer.headers:
        # The reference server does not return the tail when an append is a duplicate.
        found = yield from head(endpoint, terms)
        return AppendResult(found.offset or "", found.stream_closed, duplicate=True)
    return appended(endpoint, terms, ask, answer)


def appended(endpoint: Endpoint, terms: Terms, ask: Ask, answer: Answer) -> AppendResult:
    """Interpret the response to an append."""
    if answer.status not in (200, 204):
        raise refusal(endpoint, ask, answer, terms)
    return AppendResult(
        next_offset(answer, endpoint.url),
        flag(answer, headers.STREAM_CLOSED),
        answer.status == 204 and headers.PRODUCER_ID in ask.headers and bool(ask.body),
    )


def close(
    endpoint: Endpoint, terms: Terms, body: bytes, content_type: bytes, expected_offset: str | None = None
) -> Plan[CloseResult]:
    """Close a stream. With a last message this is an append, and not safe to retry."""
    ask = append_ask(body, terms, content_type, closes=True, expected_offset=expected_offset)
    answer = yield from exchange(endpoint, ask, terms, safe=not body)
    result = appended(endpoint, terms, ask, answer)
    if not result.stream_closed:
        raise errors.ParseError("The server did not confirm that the stream is closed", url=endpoint.url)
    return CloseResult(result.next_offset)


def content_type_of(endpoint: Endpoint, terms: Terms) -> Plan[str]:
    """Look up a stream's content type."""
    found = yield from head(endpoint, terms)
    return found.content_type or DEFAULT_TYPE.decode()


def fork_url(source: str, target: str) -> str:
    """Return the URL of a fork: a URL as it is, a path on the source's server."""
    parts = urlsplit(target)
    if parts.scheme:
        return target
    if not target.startswith("/"):
        raise ValueError(f"a fork is named by a URL or an absolute path, not {unquote(target)!r}")
    return urlsplit(source)._replace(path=parts.path, query=parts.query, fragment="").geturl()
