"""How streams end: one, or many at once.

A request to delete many goes through names in order, in turns of the event loop:

        names in order --those that match--> deleted, some at a time --> answer, with a cursor
              ^                                       |
              +----- time is over: the next turn -----+

A turn has some milliseconds, so that it does not hold others up. An answer has some turns, so that it comes
soon, whatever it has to look at.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from millstream.protocol import lifecycle
from millstream.protocol.requests import DeletionRequest
from millstream.store.base import Deleted, DeletedPage, ManyDeleted
from millstream.store.engine import Engine
from millstream.store.entries import Ending, StreamEntry, ancestors, release_sources
from millstream.store.pending import Eventually
from millstream.store.quotas import Quotas
from millstream.store.slices import Slices, UnfinishedError

_TURN_S: Final = 0.002
_MAX_S: Final = 0.1  # for one answer, without the time between its turns
_MAX_LOOKED_AT: Final = 10_000  # names for one answer
_TOGETHER: Final = 64  # streams that are deleted at once: less than a turn, also if none is in memory


class Endings:
    """Ends streams, and counts those that there are."""

    def __init__(self, engine: Engine, slices: Slices) -> None:
        self._engine = engine
        self._slices = slices
        self._journal = engine.journal
        self.quotas = Quotas()
        self.on_ended: Callable[[str], None] = lambda _name: None
        """Called with the name of a stream that has ended, once that is recorded."""
        self.count = 0
        """How many streams there are, also those that are deleted and kept for their forks."""

    def recount(self) -> None:
        """Count the streams that the engine has now."""
        self.quotas.recount(self._engine.streams.existing)
        self.count = self._engine.streams.count()

    def add(self, name: str) -> None:
        """Count a stream that is created."""
        self.quotas.add(name)
        self.count += 1

    def end(self, entry: StreamEntry) -> Eventually[Deleted]:
        """End a stream, and each ancestor that was kept only for it; while it has forks, keep it for them."""
        # An expired stream that is met while changes are refused ends later; readers see no difference.
        if self._journal.removal_refusal is not None:
            return self._journal.removal_refusal
        plan = lifecycle.plan_delete(entry.stream)
        if not isinstance(plan, lifecycle.Delete):
            return self._journal.confirm(plan)
        self._engine.streams.before_change(entry)
        self.drop_all_parts(entry)
        if plan.soft:
            entry.stream.soft_deleted = True
            return self._ended(entry, Ending(plan, [], None))
        for ancestor in ancestors(entry):
            self._engine.streams.before_change(ancestor)
        removed, source = release_sources(entry)
        for gone in removed:
            self.quotas.remove(gone.stream.name)
        self.count -= len(removed)
        return self._ended(entry, Ending(plan, removed, source))

    def _ended(self, entry: StreamEntry, ending: Ending) -> Eventually[Deleted]:
        done = self._journal.end(entry, ending)
        self.on_ended(entry.stream.name)
        return done

    def end_all(self, entries: list[StreamEntry]) -> None:
        """End streams, those that can in one record."""
        alone: list[StreamEntry] = []
        for entry in entries:
            if lifecycle.ends_alone(entry.stream):
                self._engine.streams.before_change(entry)
                self.drop_all_parts(entry)
                self.quotas.remove(entry.stream.name)
                alone.append(entry)
            else:
                self.end(entry)
        if alone:
            self.count -= len(alone)
            self._journal.end_all(alone)
            for entry in alone:
                self.on_ended(entry.stream.name)

    def drop_all_parts(self, entry: StreamEntry) -> None:
        """Drop the parts of a stream that can no longer be appended to."""
        if entry.staged:
            self._journal.release_parts(entry, entry.drop_all_parts())

    def delete_some(
        self, request: DeletionRequest, may_delete: Callable[[str], bool], now_ms: int
    ) -> Eventually[ManyDeleted]:
        """Delete the streams of a page, in the order of their names."""
        deletion = Deletion(
            self._engine.streams.walk(request.prefix, request.after),
            lambda name: request.selects(name) and may_delete(name),
            partial(self._delete_named, now_ms=now_ms),
            request.limit,
        )
        attempt = partial(self._continue, deletion)
        try:
            return attempt()
        except UnfinishedError:
            return self._slices.decide(attempt)

    def _continue(self, deletion: "Deletion") -> Eventually[ManyDeleted]:
        if self._journal.removal_refusal is not None:
            return self._journal.removal_refusal
        page = deletion.advance()
        if page is None:
            raise UnfinishedError
        return self._journal.confirm(page)

    def _delete_named(self, names: list[str], now_ms: int) -> int:
        found = [entry for entry in self._engine.streams.find_all(names) if not entry.stream.soft_deleted]
        self.end_all(found)
        return sum(not entry.stream.expired(now_ms) for entry in found)


class Deletion:
    """One request to delete what matches, and how far it has come."""

    def __init__(
        self,
        names: Iterator[str],
        matches: Callable[[str], bool],
        delete: Callable[[list[str]], int],
        limit: int,
    ) -> None:
        self._names = names
        self._matches = matches
        self._delete = delete  # gives how many of them there were
        self._limit = limit
        self._after: str | None = ""
        self._deleted = 0
        self._looked_at = 0
        self._used_s = 0.0

    def advance(self) -> DeletedPage | None:
        """Work for one turn; None when there is more to do."""
        began_s = time.monotonic()
        ends_s = began_s + _TURN_S
        while not self._is_done and time.monotonic() < ends_s:
            self._deleted += self._delete(self._next_matching(ends_s))
        self._used_s += time.monotonic() - began_s
        return DeletedPage(self._deleted, self._after) if self._is_done else None

    @property
    def _is_done(self) -> bool:
        is_enough = self._looked_at >= _MAX_LOOKED_AT or self._used_s > _MAX_S
        return is_enough or self._deleted >= self._limit or self._after is None

    def _next_matching(self, ends_s: float) -> list[str]:
        found: list[str] = []
        most = min(_TOGETHER, self._limit - self._deleted)
        for name in self._names:
            self._after = name
            self._looked_at += 1
            if self._matches(name):
                found.append(name)
            if len(found) == most or self._looked_at == _MAX_LOOKED_AT or time.monotonic() > ends_s:
                return found
        self._after = None
        return found
