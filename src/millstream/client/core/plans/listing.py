"""Listing: which streams a server has, page by page. An extension that not every server has.

docs/protocol.md, "Extensions"; rule X2.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from millstream.client.core import errors
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, refusal
from millstream.client.core.models import HeadersLike

MAX_PAGE = 1000


class Listed(msgspec.Struct, frozen=True, rename="camel"):
    """One stream of a listing; None is what a server does not say."""

    path: str
    content_type: str
    tail: str
    closed: bool
    bytes: int
    created_ms: int | None = None
    last_write_ms: int | None = None
    first_time: str | None = None
    last_time: str | None = None
    ttl_seconds: int | None = None
    expires_ms: int | None = None
    retain_bytes: int | None = None
    retain_seconds: int | None = None
    forked_from: str | None = None
    inherited_bytes: int | None = None
    attributes: dict[str, Any] = {}
    incarnation: str | None = None


class Page(msgspec.Struct, frozen=True):
    """Some streams, ordered by name; `cursor` is where the next page starts, None on the last page."""

    streams: list[Listed]
    cursor: str | None = None


_page = msgspec.json.Decoder(Page)


def endpoint_of(url: str, headers: HeadersLike | None) -> Endpoint:
    """Locate the listing of the server at `url`."""
    return Endpoint(f"{url.rstrip('/')}/__ds/streams", headers)


def page(
    endpoint: Endpoint,
    terms: Terms,
    *,
    prefix: str = "",
    glob: str = "",
    cursor: str = "",
    limit: int = MAX_PAGE,
    attributes: Mapping[str, str] | None = None,
) -> Plan[Page]:
    """Request one page; of `attributes`, streams must have all."""
    given = {"prefix": prefix, "glob": glob, "cursor": cursor, "limit": str(limit)}
    params = tuple((name, value) for name, value in given.items() if value)
    params += tuple((f"attr.{name}", value) for name, value in (attributes or {}).items())
    ask = Ask(b"GET", params=params, timeout_s=terms.timeout_s)
    answer = yield from exchange(endpoint, ask, terms, safe=True)
    if answer.status == 404:
        raise errors.UnexpectedStatusError("This server cannot list streams", url=endpoint.url, status=404)
    if answer.status != 200:
        raise refusal(endpoint, ask, answer, terms)
    try:
        return _page.decode(answer.body)
    except msgspec.MsgspecError as error:
        raise errors.ParseError(f"The listing cannot be parsed ({error})", url=endpoint.url) from None
