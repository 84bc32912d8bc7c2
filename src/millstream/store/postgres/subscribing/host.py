"""What a round offers to the subscriptions of its table.

A round decides without waiting, on what was prepared: tails that were looked up, wake streams that are
locked, and the streams that a new subscription finds. Whatever else is asked for ends the attempt, and is
prepared for the next one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from millstream.store.pending import Eventually
from millstream.store.postgres.loaded.content import NotPreparedError
from millstream.store.subscribing import SubscriptionHost


class RoundHost(SubscriptionHost):
    """A table of a round, as its subscriptions see it."""

    prepared_tails: Mapping[str, int | None] = {}
    """The tails that were looked up; None where there is no stream."""
    locked: frozenset[str] = frozenset()
    """The streams that may be appended to."""
    found: Iterable[str] = ()
    """The streams that a new subscription watches."""

    def begin(self) -> None:
        """Forget what was prepared."""
        self.prepared_tails, self.locked, self.found = {}, frozenset(), ()
        self._steps: list[Callable[[], None]] = []
        self.later = self._steps.append

    def finish(self) -> None:
        """Take the steps that were put off: a round has no later."""
        while self._steps:
            self._steps.pop(0)()

    def tails(self, names: list[str]) -> Mapping[str, int]:
        """Give where streams end, of those that exist."""
        by_name, prepared = self._engine.streams.by_name, self.prepared_tails
        missing = [name for name in names if name not in by_name and name not in prepared]
        if missing:
            raise NotPreparedError(tails=missing)
        found: dict[str, int] = {}
        for name in names:
            entry = by_name.get(name)
            tail = entry.stream.tail if entry is not None else prepared.get(name)
            if tail is not None and not (entry is not None and entry.stream.soft_deleted):
                found[name] = tail
        return found

    def names(self, prefix: str) -> Iterator[str]:
        """Give the streams that were found for a new subscription."""
        return iter(self.found)

    def append_event(self, name: str, event: bytes, now_ms: int) -> Eventually[str | None]:
        """Append an event to a stream of any type; gives what is wrong, if something is."""
        if name not in self.locked:
            raise NotPreparedError(streams=[name])
        return super().append_event(name, event, now_ms)

    def in_slices(self, step: Callable[[], bool]) -> Eventually[None]:
        """Take all steps: what there is to look at is bounded by what was prepared."""
        while not step():
            pass
        return None
