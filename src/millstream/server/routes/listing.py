"""The listing: streams in the order of their names, page by page, as far as the caller may read them.

A page continues after a name, its cursor. A caller who may read every stream gets the name itself. Other
callers must not learn names that they may not read, so for them:

        readable streams only     and `forkedFrom` only if the source is readable
        the cursor                the last stream of the page; sealed if that is not readable
        a long unreadable stretch is left behind page by page: a page looks at `_MAX_LOOKED_AT` streams at
                                  most, fewer for a token of many scopes, and may have none, but a cursor

A sealed cursor is the name, encrypted with a key of this process. So it is not valid after a restart; the
client then lists from the beginning.

A POST names the streams itself, thousands at once, and gets those that there are.

Rule X2.
"""

import base64
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Raw

from millstream.protocol import replies
from millstream.protocol.errors import MalformedError
from millstream.protocol.http import Reply
from millstream.protocol.names import MAX_NAME_BYTES, check_name
from millstream.protocol.requests import ListingRequest
from millstream.protocol.streams import Stream
from millstream.server.access.grants import Action, Grant
from millstream.server.request import Answer
from millstream.server.routes.slicing import in_slices
from millstream.store.base import Head, Listed, Page, Store
from millstream.store.pending import Eventually, when

_MAX_LOOKED_AT = 1000
_MAX_MATCHES = 10_000  # of scopes with names, for one page: some milliseconds
_STEP = 100  # streams looked at in one go when the page needs fewer
_MARK: Final = "~"  # begins a sealed cursor; a name begins with a slash
_NONCE_BYTES = 12

MayRead = Callable[[str], bool]
"""Whether the caller may read the stream of a name."""


class CursorSeal:
    """Encrypts names, so that a cursor tells nothing about them, not even their length."""

    def __init__(self) -> None:
        self._cipher = AESGCM(secrets.token_bytes(16))

    def seal(self, name: str) -> str:
        """Make a cursor of a name."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        padded = name.encode().ljust(MAX_NAME_BYTES, b"\0")  # no name has a NUL
        sealed = nonce + self._cipher.encrypt(nonce, padded, None)
        return _MARK + base64.urlsafe_b64encode(sealed).decode()

    def unseal(self, cursor: str) -> str:
        """Give the name of a cursor, which may be one that is not sealed."""
        if not cursor.startswith(_MARK):
            return cursor
        try:
            sealed = base64.urlsafe_b64decode(cursor[len(_MARK) :])
            padded = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
        except (ValueError, InvalidTag):
            raise MalformedError(
                "INVALID_CURSOR", "The cursor is not valid, or no longer: list from the beginning."
            ) from None
        return padded.rstrip(b"\0").decode()


class Listing:
    """Answers listings."""

    def __init__(self, store: Store, seal: CursorSeal, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._seal = seal
        self._clock_ms = clock_ms

    def answer(self, asked: ListingRequest, grant: Grant) -> Answer:
        """Answer with a page of the streams that a grant allows to read."""
        after = self._seal.unseal(asked.after)
        if grant.allows_all(Action.READ):
            return when(self._look(asked, after, asked.limit), _whole_page)
        budget = max(1, min(_MAX_LOOKED_AT, _MAX_MATCHES // len(grant.scopes)))
        return self._search(asked, partial(grant.allows, Action.READ), [], budget, after)

    def answer_named(self, paths: list[str], grant: Grant) -> Answer:
        """Answer with those of some streams that there are, as far as a grant allows to read them."""
        may_read = partial(grant.allows, Action.READ)

        def row(path: str) -> Eventually[Raw | None]:
            try:
                name = check_name(path.encode())
            except MalformedError:  # no stream can be there
                return None
            if not may_read(name):
                return None
            return when(self._store.head(name, self._clock_ms()), partial(_row, may_read))

        return in_slices(paths, row, replies.named, None)

    def _look(self, asked: ListingRequest, after: str, limit: int) -> Eventually[Listed]:
        return self._store.listing(
            asked.prefix, asked.glob or None, after, limit, self._clock_ms(), asked.attributes
        )

    def _search(
        self, asked: ListingRequest, may_read: MayRead, found: list[Stream], budget: int, after: str
    ) -> Answer:
        """Add what is readable of the store's next page to `found`, until that or the budget is enough."""
        step = min(max(asked.limit - len(found), _STEP), budget)

        def add(page: Listed) -> Answer:
            if not isinstance(page, Page):
                return replies.reply_to(page)
            found.extend(stream for stream in page.streams if may_read(stream.name))
            if len(found) > asked.limit or (len(found) == asked.limit and page.next_after is not None):
                del found[asked.limit :]
                return replies.listing(found, found[-1].name, may_read)
            cursor = page.next_after
            was_cut = len(page.streams) < step  # by the store, which looks at so many names for one page
            if cursor is not None and not was_cut and budget > step:
                return self._search(asked, may_read, found, budget - step, cursor)
            if cursor is not None and not may_read(cursor):
                cursor = self._seal.seal(cursor)
            return replies.listing(found, cursor, may_read)

        return when(self._look(asked, after, step), add)


def _row(may_read: MayRead, found: Head) -> Raw | None:
    return replies.listed(found, may_read) if isinstance(found, Stream) else None


def _whole_page(page: Listed) -> Reply:
    if not isinstance(page, Page):
        return replies.reply_to(page)
    return replies.listing(page.streams, page.next_after, lambda _: True)
