"""Deletions of many streams, page by page. An extension that not every server has.

A page that was deleted twice, because its answer was lost, is harmless; the second answer counts less.

docs/protocol.md, "Extensions"; rule X11.
"""

from collections.abc import Callable

import msgspec

from millstream.client.core import errors
from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, refusal

OnProgress = Callable[[int], None]
"""Called after each page with how many streams are deleted so far."""


class DeletedPage(msgspec.Struct, frozen=True):
    """How many streams a page has deleted; `cursor` is where the next one starts, None on the last."""

    deleted: int
    cursor: str | None = None


_page = msgspec.json.Decoder(DeletedPage)


def delete_all(
    endpoint: Endpoint, terms: Terms, prefix: str | None, glob: str | None, on_progress: OnProgress | None
) -> Plan[int]:
    """Request pages until nothing is left, and return how many streams were deleted."""
    cursor: str | None = None
    deleted = 0
    while True:
        try:
            page = yield from _delete_page(endpoint, terms, prefix, glob, cursor)
        except errors.BadRequestError as error:
            if error.code != "INVALID_CURSOR" or cursor is None:
                raise
            cursor = None  # the server was restarted: what is deleted is deleted, and it starts over
            continue
        deleted += page.deleted
        if on_progress is not None:
            on_progress(deleted)
        cursor = page.cursor
        if cursor is None:
            return deleted


def _delete_page(
    endpoint: Endpoint, terms: Terms, prefix: str | None, glob: str | None, cursor: str | None
) -> Plan[DeletedPage]:
    given = {"prefix": prefix, "glob": glob, "cursor": cursor}
    # An empty prefix is sent, and refused: it may come from a variable that was not set.
    params = tuple((name, value) for name, value in given.items() if value is not None)
    ask = Ask(b"DELETE", params=params, timeout_s=terms.timeout_s)
    answer = yield from exchange(endpoint, ask, terms, safe=True)
    if answer.status in (404, 405):
        raise errors.NotSupportedError(
            "This server cannot delete streams by prefix", url=endpoint.url, status=answer.status
        )
    if answer.status != 200:
        raise refusal(endpoint, ask, answer, terms)
    try:
        return _page.decode(answer.body)
    except msgspec.MsgspecError as error:
        raise errors.ParseError(f"The answer cannot be parsed ({error})", url=endpoint.url) from None
