"""Walks: which streams match the globs of a feed, and in which order its client is told of them.

        old streams    in the order of their names, page by page, glob by glob
        new streams    created after all that the client was told of: afterwards, in the order of their
                       creation, whether the walk has found them or they were reported when they were created

After each page, and each new stream, `origin` says how far the client has been told (`protocol.events`), so
that it can go on from there on another connection. New streams that wait are limited: if there are more, the
latest are dropped, and a further walk finds them again.

Rule X9.
"""

from bisect import insort
from typing import Final

import msgspec

from millstream.protocol import origins
from millstream.protocol.events import EventsRequest, Origin, literal_prefix
from millstream.protocol.offsets import NOW, START
from millstream.protocol.streams import Stream
from millstream.store.base import Listed, Page, Store
from millstream.store.pending import Eventually

_MAX_WAITING: Final = 1000


class Join(msgspec.Struct, frozen=True):
    """A stream to follow, and from where."""

    name: str
    offset: int | origins.Origin
    by_glob: bool = True
    id: int = 0
    """Of a stream that a glob has found; an older one of the same name is gone."""


class GlobWalk:
    """How far a feed's client has been told of the streams that its globs match."""

    def __init__(self, store: Store, asked: EventsRequest) -> None:
        self._store = store
        self._asked = asked
        self._place = 0  # of the glob whose streams come next
        self._after = ""
        self._waiting: list[tuple[int, str]] = []
        self._left_out_after: int | None = None
        self._until_id = store.newest_id  # later ones are reported when they are created
        origin = asked.origin
        self.origin = origin if origin.newest is not None else Origin(origin.offset, self._until_id)

    @property
    def is_walking(self) -> bool:
        """Whether there may be old streams of which the client has not been told."""
        return self._place < len(self._asked.globs)

    @property
    def has_new(self) -> bool:
        """Whether new streams wait; their turn is after the walk."""
        return bool(self._waiting)

    def next_page(self, limit: int, now_ms: int) -> Eventually[Listed]:
        """Look at more names; `take` the page when it is there."""
        glob = self._asked.globs[self._place]
        return self._store.listing(literal_prefix(glob), glob, self._after, limit, now_ms)

    def take(self, page: Page) -> list[Join]:
        """Decide which streams of a page are followed, and from where."""
        place, joins = self._place, []
        for stream in page.streams:
            join = self._judge(stream, place)
            if join is not None:
                joins.append(join)
        if page.next_after is not None:
            self._after = page.next_after
        else:
            self._place, self._after = place + 1, ""
        return joins

    def _judge(self, stream: Stream, place: int) -> Join | None:
        name, id = stream.name, stream.id
        if name in self._asked.streams or id > self._until_id or self._asked.first_glob(name) != place:
            return None
        if self.origin.is_new(id):
            self.add_new(name, id)
            return None
        offset = self.origin.begins(name, id, place)
        # Nothing will come of a stream that is closed, so a reader of what is new need not hear of it.
        return None if offset == NOW and stream.closed else Join(name, offset, id=id)

    def told(self, last: str | None) -> bool:
        """Note that the client was told of streams up to the last one; tells whether `origin` has changed."""
        before = self.origin
        if not self.is_walking:
            if before.offset == START:
                self.origin = Origin(NOW, before.newest)
        elif before.offset == START and not self._after:
            self.origin = _later(before, self._place, "")
        elif before.offset == START and last is not None:
            self.origin = _later(before, self._place, last)
        return self.origin != before

    def add_new(self, name: str, id: int) -> None:
        """Let a new stream wait for its turn, unless too many do."""
        if not self.origin.is_new(id) or (self._left_out_after is not None and id > self._left_out_after):
            return
        if (id, name) not in self._waiting:
            insort(self._waiting, (id, name))
        if len(self._waiting) > _MAX_WAITING:
            self._waiting.pop()
            self._left_out_after = self._waiting[-1][0]

    def next_new(self) -> Join:
        """Take the oldest of the new streams; the client has been told of it with its first event."""
        id, name = self._waiting.pop(0)
        self.origin = Origin(self.origin.offset, id, self.origin.told_globs, self.origin.told)
        return Join(name, START, id=id)

    def walk_again(self) -> bool:
        """Walk once more if new streams were left out; tells whether that is so."""
        if self._left_out_after is None or self._waiting:
            return False
        self._left_out_after = None
        self._until_id = self._store.newest_id
        self._place = 0
        return True


def _later(origin: Origin, place: int, name: str) -> Origin:
    """Note how far the client was told; a walk that is done once more tells nothing new at first."""
    told = max((origin.told_globs, origin.told), (place, name))
    return Origin(origin.offset, origin.newest, *told)
