"""Listing streams with blocking calls. The plan, and what a page holds, are in core/listing.py."""

from collections.abc import Iterator, Mapping

from millstream.client.core.exchanges import Terms
from millstream.client.core.models import HeadersLike
from millstream.client.core.plans.listing import MAX_PAGE, Listed, Page, endpoint_of, page
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.http.sync_sockets import shared_client
from millstream.client.sync.driving import run


def fetch(
    url: str,
    *,
    prefix: str = "",
    glob: str = "",
    cursor: str = "",
    limit: int = MAX_PAGE,
    attributes: Mapping[str, str] | None = None,
    headers: HeadersLike | None = None,
    timeout_s: float = 30.0,
    retry: Retry | None = None,
) -> Page:
    """Get one page from the server at `url`."""
    endpoint = endpoint_of(url, headers)
    plan = page(
        endpoint,
        Terms(retry, timeout_s),
        prefix=prefix,
        glob=glob,
        cursor=cursor,
        limit=limit,
        attributes=attributes,
    )
    return run(shared_client(), plan)


def walk(
    url: str,
    *,
    prefix: str = "",
    glob: str = "",
    attributes: Mapping[str, str] | None = None,
    headers: HeadersLike | None = None,
    retry: Retry | None = DEFAULT,
) -> Iterator[Listed]:
    """Iterate over all streams, requesting pages as needed."""
    cursor = ""
    while True:
        found = fetch(
            url, prefix=prefix, glob=glob, cursor=cursor, attributes=attributes, headers=headers, retry=retry
        )
        yield from found.streams
        if found.cursor is None:
            return
        cursor = found.cursor
