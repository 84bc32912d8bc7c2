"""The engine that keeps everything in memory: for tests, caches and streams that may be lost."""

import itertools
import secrets
from collections.abc import Iterator

from millstream.protocol import parts, retention, streams
from millstream.protocol.streams import Stream
from millstream.store.names import SortedNames
from millstream.store.parts import StagingTable
from millstream.store.pieces import TrimmedPieces
from millstream.store.table import Ending, Kept


class MemoryStore(StagingTable):
    """Streams that live as long as the process: every change is as durable as it gets at once."""

    def __init__(self) -> None:
        super().__init__()
        # A random beginning, so that an entity tag of another run never matches.
        self._ids = itertools.count(secrets.randbits(47))
        self._names = SortedNames()

    def _next_id(self) -> int:
        return next(self._ids)

    def _new_content(self, stream: Stream) -> TrimmedPieces:
        return TrimmedPieces(stream.base)

    def _lookup(self, name: str) -> Kept | None:
        return self._by_name.get(name)

    def _walk_names(self, prefix: str, after: str) -> Iterator[str]:
        return self._names.walk(prefix, after)

    def _commit_create(self, kept: Kept, plan: streams.Create) -> streams.Create:
        self._names.add(plan.stream.name)
        self._publish(kept)
        return plan

    def _commit_append(self, kept: Kept, plan: streams.Append, now_ms: int) -> streams.Append:
        self._publish(kept)
        return plan

    def _commit_end(self, kept: Kept, ending: Ending) -> streams.Delete:
        for gone in ending.gone:
            self._names.remove(gone.stream.name)
        if ending.staying_source is not None:
            _let_go(ending.staying_source)
        self.listener(kept.stream.name)
        return ending.plan

    def _commit_renewal(self, kept: Kept, now_ms: int) -> None:
        pass

    def _commit_stage(self, kept: Kept, plan: parts.Stage, now_ms: int) -> parts.Stage:
        return plan

    def _commit_parts(self, kept: Kept, plan: parts.Commit, now_ms: int) -> parts.Commit:
        self._publish(kept)
        return plan

    def _commit_drop(self, kept: Kept, plan: parts.Drop) -> parts.Drop:
        return plan

    def _commit_trim(self, kept: Kept, change: retention.Trim) -> None:
        kept.start = change.start
        _let_go(kept)
        self.listener(kept.stream.name)

    def _publish(self, kept: Kept) -> None:
        kept.tail, kept.closed = kept.stream.tail, kept.stream.closed
        self.listener(kept.stream.name)


def _let_go(kept: Kept) -> None:
    """Free the bytes that neither the stream's readers nor its forks may ask for any more."""
    assert isinstance(kept.content, TrimmedPieces)  # this engine makes no other
    kept.content.trim(kept.stream.start, kept.stream.shared)
