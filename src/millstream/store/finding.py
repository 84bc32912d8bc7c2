"""Finding the stream that a request names: what is found depends on what is to be done with it.

        to change it     not while changes are refused
        to remove it     accepted for longer
        to read it       only once its creation is durable

A stream whose time is over is ended when it is met, and is not found.
"""

from typing import Any

from millstream.protocol.streams import NotFound, SoftDeleted, Unstored
from millstream.store.base import Missing
from millstream.store.endings import Endings
from millstream.store.engine import Engine
from millstream.store.entries import StreamEntry
from millstream.store.pending import Pending


class Finding:
    """Finds the streams of an engine."""

    def __init__(self, engine: Engine, endings: Endings) -> None:
        self._engine = engine
        self._journal = engine.journal
        self._endings = endings
        self.adopt_streams()

    def adopt_streams(self) -> None:
        """Continue with the streams that the engine has now."""
        self.streams = self._engine.streams
        self.by_name = self.streams.by_name

    def find(self, name: str, now_ms: int) -> StreamEntry | Missing:
        """Find a stream, and end it if its time is over."""
        entry = self.by_name.get(name) or self.streams.find(name)  # most are in memory: a call less
        if entry is None:
            return NotFound(name)
        entry.used = True
        stream = entry.stream
        if stream.deadline_ms is not None and stream.expired(now_ms) and not stream.soft_deleted:
            self._endings.end(entry)
            return SoftDeleted(name) if stream.soft_deleted else NotFound(name)
        return SoftDeleted(name) if stream.soft_deleted else entry

    def for_change(self, name: str, now_ms: int) -> StreamEntry | Missing | Unstored | Pending[Any]:
        """Find a stream to change, unless changes are refused."""
        if self._journal.refusal is not None:
            return self._journal.refusal
        found = self.find(name, now_ms)
        if not isinstance(found, StreamEntry):
            return self._journal.confirm(found)
        return found if found.refusal is None else found.refusal

    def for_removal(self, name: str, now_ms: int) -> StreamEntry | Missing | Unstored | Pending[Any]:
        """Find a stream to remove something of it, which is accepted for longer than other changes."""
        if self._journal.removal_refusal is not None:
            return self._journal.removal_refusal
        found = self.find(name, now_ms)
        return found if isinstance(found, StreamEntry) else self._journal.confirm(found)

    def visible(self, name: str, now_ms: int) -> StreamEntry | Missing:
        """Find a stream to read: one whose creation is durable."""
        found = self.find(name, now_ms)
        if isinstance(found, StreamEntry) and not found.is_visible:
            return NotFound(name)
        return found

    def promised(self, name: str, stream_id: int, start: int) -> StreamEntry | None:
        """Find the stream that has promised bytes, if it still has them."""
        entry = self.streams.find(name)
        if entry is None or entry.stream.id != stream_id or entry.stream.soft_deleted or start < entry.start:
            return None
        entry.used = True
        return entry

    def renew(self, entry: StreamEntry, now_ms: int) -> None:
        """Begin the TTL of a stream anew, if it has one that slides."""
        if entry.stream.lifetime.is_sliding:
            self.streams.before_change(entry)
            entry.stream.renew(now_ms)
            self._journal.renew(entry)
