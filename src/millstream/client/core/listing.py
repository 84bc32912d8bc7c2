"""Listing: which streams a server has, page by page. An extension: not every server can.

docs/protocol.md, "Extensions"; rule X2.
"""

from collections.abc import Iterator

import msgspec

from millstream.client.core import errors
from millstream.client.core.driving import run
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, refusal
from millstream.client.core.models import HeadersLike
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.http.sync_sockets import shared_client

MAX_PAGE = 1000


class Listed(msgspec.Struct, frozen=True, rename="camel"):
    """One stream of a listing."""

    path: str
    content_type: str
    tail: str
    closed: bool
    bytes: int
    created_ms: int | None = None
    ttl_seconds: int | None = None
    expires_ms: int | None = None
    retain_bytes: int | None = None
    retain_seconds: int | None = None
    forked_from: str | None = None


class Page(msgspec.Struct, frozen=True):
    """Some streams, in the order of their names; `cursor` leads to the next ones."""

    streams: list[Listed]
    cursor: str | None = None


_page = msgspec.json.Decoder(Page)


def page(
    endpoint: Endpoint,
    terms: Terms,
    *,
    prefix: str = "",
    glob: str = "",
    cursor: str = "",
    limit: int = MAX_PAGE,
) -> Plan[Page]:
    """Ask for one page."""
    given = {"prefix": prefix, "glob": glob, "cursor": cursor, "limit": str(limit)}
    params = tuple((name, value) for name, value in given.items() if value)
    ask = Ask(b"GET", params=params, timeout_s=terms.timeout_s)
    answer = yield from exchange(endpoint, ask, terms, safe=True)
    if answer.status == 404:
        raise errors.UnexpectedStatusError("This server lists no streams", url=endpoint.url, status=404)
    if answer.status != 200:
        raise refusal(endpoint, ask, answer, terms)
    try:
        return _page.decode(answer.body)
    except msgspec.MsgspecError as error:
        raise errors.ParseError(f"The listing is not understood ({error})", url=endpoint.url) from None


def fetch(
    url: str,
    *,
    prefix: str = "",
    glob: str = "",
    cursor: str = "",
    limit: int = MAX_PAGE,
    headers: HeadersLike | None = None,
    timeout_s: float = 30.0,
    retry: Retry | None = None,
) -> Page:
    """Get one page from the server at `url`."""
    endpoint = Endpoint(f"{url.rstrip('/')}/__ds/streams", headers)
    plan = page(endpoint, Terms(retry, timeout_s), prefix=prefix, glob=glob, cursor=cursor, limit=limit)
    return run(shared_client(), plan)


def walk(
    url: str,
    *,
    prefix: str = "",
    glob: str = "",
    headers: HeadersLike | None = None,
    retry: Retry | None = DEFAULT,
) -> Iterator[Listed]:
    """Give every stream, asking for pages as they are needed."""
    cursor = ""
    while True:
        found = fetch(url, prefix=prefix, glob=glob, cursor=cursor, headers=headers, retry=retry)
        yield from found.streams
        if found.cursor is None:
            return
        cursor = found.cursor
