"""Changing what lives: another configuration, attributes, a later start. Not every server can do it.

Both are safe to retry: done twice, they leave what one leaves.

docs/protocol.md, "Extensions"; rule X10.
"""

import json
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from millstream.client.core import errors
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, next_offset, refusal, text
from millstream.client.core.models import Attributes, TrimResult
from millstream.client.core.transport import Answer, Headers
from millstream.protocol import headers

_attributes = msgspec.json.Decoder(dict[str, Any])
_NOT_THERE = (405, 501)


def configure(
    endpoint: Endpoint,
    terms: Terms,
    *,
    ttl_seconds: int | UnsetType | None = UNSET,
    expires_at: str | UnsetType | None = UNSET,
    retain_bytes: int | UnsetType | None = UNSET,
    retain_seconds: int | UnsetType | None = UNSET,
    attributes: Attributes | None = None,
) -> Plan[Answer]:
    """Change a stream; None removes, and what is not given stays."""
    fields: Headers = {}
    for name, value in (
        (headers.STREAM_TTL, ttl_seconds),
        (headers.STREAM_EXPIRES_AT, expires_at),
        (headers.STREAM_RETAIN_BYTES, retain_bytes),
        (headers.STREAM_RETAIN_SECONDS, retain_seconds),
    ):
        if value is not UNSET:
            fields[name] = b"none" if value is None else str(value).encode("latin-1")
    if attributes is not None:
        fields[headers.STREAM_ATTRIBUTES] = write_attributes(attributes)
    ask = Ask(b"PATCH", fields, timeout_s=terms.timeout_s)
    answer = yield from exchange(endpoint, ask, terms, safe=True)
    if answer.status in _NOT_THERE:
        raise errors.NotSupportedError(
            "This server cannot change streams (Millstream-Extensions does not name patch)",
            url=endpoint.url,
            status=answer.status,
        )
    if answer.status not in (200, 204):
        raise refusal(endpoint, ask, answer, terms)
    return answer


def trim(endpoint: Endpoint, terms: Terms, before: str) -> Plan[TrimResult]:
    """Drop the content before an offset."""
    ask = Ask(b"POST", params=(("trim", before),), timeout_s=terms.timeout_s)
    answer = yield from exchange(endpoint, ask, terms, safe=True)
    if answer.status not in (200, 204):
        raise refusal(endpoint, ask, answer, terms)
    earliest = text(answer, headers.STREAM_EARLIEST_OFFSET)
    if earliest is None:
        raise errors.NotSupportedError(
            "This server cannot trim streams (Millstream-Extensions does not name patch)", url=endpoint.url
        )
    return TrimResult(earliest, next_offset(answer, endpoint.url))


def write_attributes(attributes: Attributes) -> bytes:
    """Write attributes as the text of a header."""
    return json.dumps(dict(attributes), separators=(",", ":"), allow_nan=False).encode()


def read_attributes(endpoint: Endpoint, answer: Answer) -> dict[str, Any]:
    """Read the attributes of a stream; none if the server says nothing about them."""
    found = answer.headers.get(headers.STREAM_ATTRIBUTES)
    try:
        return _attributes.decode(found) if found is not None else {}
    except msgspec.MsgspecError as error:
        raise errors.ParseError(f"Stream-Attributes cannot be parsed ({error})", url=endpoint.url) from None
