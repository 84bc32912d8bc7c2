"""What a table offers to its subscriptions: its streams, its journal, and time for long work."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from millstream.protocol import json_frames, streams
from millstream.protocol.content import Kind
from millstream.protocol.requests import AppendRequest
from millstream.protocol.streams import Unstored
from millstream.store.base import Appended
from millstream.store.engine import Engine
from millstream.store.entries import StreamEntry
from millstream.store.finding import Finding
from millstream.store.pending import Eventually, Pending, when
from millstream.store.slices import Slices, UnfinishedError

D = TypeVar("D")

_log = logging.getLogger("millstream")


class SubscriptionHost:
    """A table, as its subscriptions see it."""

    def __init__(
        self,
        engine: Engine,
        finding: Finding,
        slices: Slices,
        append: Callable[[str, AppendRequest, int], Eventually[Appended]],
    ) -> None:
        self._engine = engine
        self._finding = finding
        self._slices = slices
        self._append = append
        self.keep = engine.journal.keep
        self.later: Callable[[Callable[[], None]], None] = slices.add

    @property
    def refusal(self) -> Unstored | None:
        """Why no change is accepted at the moment, if none is."""
        return self._engine.journal.refusal

    def confirm(self, decision: D) -> D | Pending[Any]:
        """Delay a decision until all that it was made on is durable."""
        return self._engine.journal.confirm(decision)

    def tails(self, names: list[str]) -> Mapping[str, int]:
        """Give where streams end, of those that exist."""
        by_name = self._engine.streams.by_name
        found = [by_name[name] for name in names if name in by_name]
        if len(found) < len(names):
            found = self._find_all(names)
        return {entry.stream.name: entry.stream.tail for entry in found if not entry.stream.soft_deleted}

    def _find_all(self, names: list[str]) -> list[StreamEntry]:
        try:
            return self._engine.streams.find_all(names)
        except Exception:  # one of them is damaged: the others are there
            if len(names) > 1:
                return [entry for name in names for entry in self._find_all([name])]
            _log.exception("%s has subscriptions, and cannot be loaded", names[0])
            return []

    def names(self, prefix: str) -> Iterator[str]:
        """Give the names of streams that begin with something, in order."""
        return self._engine.streams.walk(prefix, "")

    def append_event(self, name: str, event: bytes, now_ms: int) -> Eventually[str | None]:
        """Append an event to a stream of any type; gives what is wrong, if something is."""
        entry = self._finding.for_change(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return f"the wake stream {name} does not exist"
        if entry.stream.closed:
            return f"the wake stream {name} is closed"
        stream = entry.stream
        data = json_frames.frame(event) if stream.kind is Kind.JSON else event + b"\n"
        request = AppendRequest(data, stream.content_type, closes=False, stamp=None, seq=None)
        return when(self._append(name, request, now_ms), _complaint)

    def in_slices(self, step: Callable[[], bool]) -> Eventually[None]:
        """Take steps until one says that there are no more, with time for others in between."""
        if step():
            return None

        def attempt() -> None:
            if not step():
                raise UnfinishedError

        return self._slices.decide(attempt)


def _complaint(decision: Appended) -> str | None:
    if isinstance(decision, streams.Append):
        return None
    return f"the wake stream accepts no events: {type(decision).__name__}"
