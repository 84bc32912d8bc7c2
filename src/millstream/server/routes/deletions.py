"""Deletions of many streams: those of a prefix or a glob that the caller may write, page by page.

Streams that the caller may not write are left alone, as the listing leaves out what may not be read. The
cursor is the last name that was looked at. It is sealed (`listing.CursorSeal`) unless the caller may read it.

Rule X11.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from millstream.protocol import replies
from millstream.protocol.http import Reply
from millstream.protocol.requests import DeletionRequest
from millstream.server.access.grants import Action, Grant
from millstream.server.request import Answer
from millstream.server.routes.listing import CursorSeal
from millstream.store.base import DeletedPage, ManyDeleted, Store
from millstream.store.pending import when


class Deletions:
    """Answers deletions of many streams."""

    def __init__(self, store: Store, seal: CursorSeal, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._seal = seal
        self._clock_ms = clock_ms

    def answer(self, asked: DeletionRequest, grant: Grant) -> Answer:
        """Delete a page of the streams that a grant allows to write."""
        may_delete = _anything if grant.allows_all(Action.WRITE) else partial(grant.allows, Action.WRITE)
        asked = msgspec.structs.replace(asked, after=self._seal.unseal(asked.after))
        return when(self._store.delete_some(asked, may_delete, self._clock_ms()), partial(self._reply, grant))

    def _reply(self, grant: Grant, found: ManyDeleted) -> Reply:
        if not isinstance(found, DeletedPage):
            return replies.reply_to(found)
        cursor = found.next_after
        if cursor is not None and not grant.allows(Action.READ, cursor):
            cursor = self._seal.seal(cursor)
        return replies.many_deleted(found.deleted, cursor)


def _anything(_name: str) -> bool:
    return True
