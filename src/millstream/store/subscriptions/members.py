"""The streams of one subscription: a cursor for each, and which of them have something pending.

A stream that the glob matches and that is processed up to its tail needs no cursor: when it is written to,
it is linked at the tail before that, which is where the cursor was. So cursors of such streams are kept for
those who look at the subscription, at most `MAX_IDLE` of them, and memory is taken by what is pending only.
For the same reason a new subscription need not look at every stream that there is.

After a start it is not known what is pending, until somebody asks (`classify`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain, islice
from typing import Final

from millstream.protocol.subscriptions.states import Link
from millstream.store.subscriptions.rows import Rows, encode, link_key

MAX_IDLE: Final = 1_000

Tails = Callable[[list[str]], Mapping[str, int]]
"""Gives the tails of streams, of those that exist."""


class Members:
    """The links of a subscription."""

    def __init__(self, key: str, links: dict[str, Link] | None = None) -> None:
        self._key = key
        self.links = links if links is not None else {}
        self.pending: dict[str, None] = {}
        """Streams that have something pending, those that have it for longest first."""
        self._idle: dict[str, None] = {}  # linked by the glob, with nothing pending
        self._is_classified = not self.links

    def classify(self, tails: Tails) -> None:
        """Find out what is pending, if that is not known."""
        if self._is_classified:
            return
        found = tails(list(self.links))
        self._is_classified = True
        for name, link in self.links.items():
            if found.get(name, 0) > link.acked:
                self.pending[name] = None
            elif not link.is_explicit:
                self._idle[name] = None

    @property
    def to_classify(self) -> Collection[str]:
        """The streams whose tails must be known to tell what is pending."""
        return () if self._is_classified else self.links.keys()

    def note_append(self, name: str, tail: int, rows: Rows) -> None:
        """Take in that a stream gets more behind a tail."""
        if name in self.pending:
            return
        if name not in self.links:
            self._set(name, Link(tail), rows)
        self._idle.pop(name, None)
        self.pending[name] = None

    def link(self, name: str, tail: int, rows: Rows) -> None:
        """Link a stream that the glob has found, at its tail, unless it is linked."""
        if name not in self.links:
            self._set(name, Link(tail), rows)
            self._note_idle(name, rows)

    def add(self, name: str, tail: int, rows: Rows) -> None:
        """Link a stream explicitly, at its tail; one that is linked keeps its cursor."""
        link = self.links.get(name)
        if link is None or not link.is_explicit:
            self._set(name, Link(link.acked if link is not None else tail, True), rows)
            self._idle.pop(name, None)

    def remove(self, name: str, rows: Rows, *, is_matched: bool) -> None:
        """Remove an explicit link; a stream that the glob matches stays."""
        link = self.links.get(name)
        if link is None or not link.is_explicit:
            return
        if is_matched:
            self._set(name, Link(link.acked), rows)
            if name not in self.pending and self._is_classified:
                self._note_idle(name, rows)
        else:
            self._drop(name, rows)

    def move(self, moved: Mapping[str, int], tails: Mapping[str, int], rows: Rows) -> None:
        """Move cursors forward."""
        for name, offset in moved.items():
            link = self.links[name]
            if offset != link.acked:
                self._set(name, Link(offset, link.is_explicit), rows)
            if offset >= tails.get(name, 0):
                self.pending.pop(name, None)
                if not link.is_explicit:
                    self._note_idle(name, rows)

    def restart(self, name: str, start: int, rows: Rows) -> None:
        """Begin anew with a stream that is created where one of its name is linked."""
        link = self.links.get(name)
        if link is not None and link.acked != start:
            self._set(name, Link(start, link.is_explicit), rows)

    def note_end(self, name: str, rows: Rows) -> None:
        """Take in that a stream is gone; one that was named remains a member, should it come again."""
        link = self.links.get(name)
        if link is None:
            return
        if link.is_explicit:
            self.pending.pop(name, None)
            self.restart(name, 0, rows)
        else:
            self._drop(name, rows)

    def drop_all(self, rows: Rows) -> None:
        """Drop every link."""
        for name in self.links:
            rows[link_key(self._key, name)] = None

    def listed(self, limit: int) -> list[str]:
        """Give some of the streams, those with something pending first."""
        return list(islice(self._in_order(), limit))

    def _in_order(self) -> Iterator[str]:
        return chain(self.pending, (name for name in self.links if name not in self.pending))

    def _note_idle(self, name: str, rows: Rows) -> None:
        self._idle[name] = None
        if len(self._idle) > MAX_IDLE:
            self._drop(next(iter(self._idle)), rows)

    def _set(self, name: str, link: Link, rows: Rows) -> None:
        self.links[name] = link
        rows[link_key(self._key, name)] = encode(link)

    def _drop(self, name: str, rows: Rows) -> None:
        del self.links[name]
        self.pending.pop(name, None)
        self._idle.pop(name, None)
        rows[link_key(self._key, name)] = None
