"""Parts in a table: bytes that are kept for a stream, and that nobody sees until they are committed.

Two things make a part: what decisions need to know of it, in `stream.staged`, and its bytes, in
`kept.staged` under the part's number. Both change together, in the functions below; an engine that
replays its log calls the same ones.

Rule X3.
"""

from abc import abstractmethod

from millstream.protocol import parts, streams
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.store.base import Committed, Dropped, Staged
from millstream.store.pending import Eventually
from millstream.store.table import Kept, TableStore

_EXPIRY_STEP_MS = 60_000
"""How often parts that nobody asks for are looked at; one that is asked for has expired on time."""


class StagingTable(TableStore):
    """A table whose streams have parts."""

    def __init__(self) -> None:
        super().__init__()
        self._staging: dict[int, Kept] = {}  # streams that may have parts
        self._parts_expired_ms = 0

    # -- What an engine adds ---------------------------------------------------------------------

    @abstractmethod
    def _commit_stage(self, kept: Kept, plan: parts.Stage, now_ms: int) -> Eventually[Staged]:
        """Make a part durable."""

    @abstractmethod
    def _commit_parts(self, kept: Kept, plan: parts.Commit, now_ms: int) -> Eventually[Committed]:
        """Make an append of parts durable, then visible."""

    @abstractmethod
    def _commit_drop(self, kept: Kept, plan: parts.Drop) -> Eventually[Dropped]:
        """Make it durable that parts are gone."""

    # -- The contract ----------------------------------------------------------------------------

    def stage(
        self, name: str, request: StageRequest, max_staged_bytes: int, now_ms: int
    ) -> Eventually[Staged]:
        """Keep a part, invisibly."""
        kept = self._find(name, now_ms)
        if not isinstance(kept, Kept):
            return kept
        self._expire_parts(kept, now_ms)
        plan = parts.plan_stage(kept.stream, request, max_staged_bytes, lambda number: kept.staged[number][:])
        if isinstance(plan, parts.Stage):
            keep_part(kept, plan, now_ms)
            self._staging[kept.stream.id] = kept
            return self._commit_stage(kept, plan, now_ms)
        if isinstance(plan, parts.AlreadyStaged):
            self._renew(kept, now_ms)
        return self._once_durable(kept, plan)

    def commit(self, name: str, request: CommitRequest, now_ms: int) -> Eventually[Committed]:
        """Append parts, in one atomic change."""
        kept = self._find(name, now_ms)
        if not isinstance(kept, Kept):
            return kept
        self._expire_parts(kept, now_ms)
        plan = parts.plan_commit(kept.stream, request, self.quotas.max_stream_bytes)
        if isinstance(plan, parts.Commit):
            self._release_parts(kept, append_parts(kept, plan, now_ms))
            if kept.stream.retention:
                self._watch(kept)
            return self._commit_parts(kept, plan, now_ms)
        if streams.renews_ttl(plan):
            self._renew(kept, now_ms)
        return self._once_durable(kept, plan)

    def drop_part(self, name: str, id: str, now_ms: int) -> Eventually[Dropped]:
        """Drop a part; one that is not there is as good as dropped."""
        kept = self._find(name, now_ms)
        if not isinstance(kept, Kept):
            return kept
        staged = kept.stream.staged
        if staged is None or id not in staged.parts:
            return self._once_durable(kept, parts.Drop([]))
        return self._drop(kept, [id])

    def expire(self, now_ms: int) -> None:
        """End the streams whose time is over, and drop the parts whose time is."""
        super().expire(now_ms)
        if self._parts_expired_ms <= now_ms < self._parts_expired_ms + _EXPIRY_STEP_MS:
            return
        self._parts_expired_ms = now_ms
        for id, kept in list(self._staging.items()):
            self._expire_parts(kept, now_ms)
            if not kept.staged:
                del self._staging[id]

    # -- How -------------------------------------------------------------------------------------

    def _expire_parts(self, kept: Kept, now_ms: int) -> None:
        if kept.staged and kept.stream.staged is not None:
            ids = kept.stream.staged.expired(now_ms)
            if ids:
                self._drop(kept, ids)

    def _drop(self, kept: Kept, ids: list[str]) -> Eventually[Dropped]:
        self._release_parts(kept, drop_parts(kept, ids))
        return self._commit_drop(kept, parts.Drop(ids))


def keep_part(kept: Kept, change: parts.Stage, now_ms: int) -> None:
    """Take in a part and its bytes."""
    kept.staged[parts.apply_stage(kept.stream, change, now_ms)] = change.data


def append_parts(kept: Kept, change: parts.Commit, now_ms: int) -> list[int]:
    """Append parts to a stream's content, and give the numbers of all that are parts no more.

    Each remains an append of its own for those who look for boundaries, so that nobody has to look
    through a whole commit, which may be larger than memory.
    """
    numbers = parts.take_parts(kept.stream, change.ids)
    for number in numbers:
        kept.content.append(kept.staged.pop(number))
    streams.apply_append(kept.stream, change.append, now_ms)
    return numbers + kept.drop_staged() if change.append.closes else numbers


def drop_parts(kept: Kept, ids: list[str]) -> list[int]:
    """Forget parts, and give their numbers."""
    numbers = parts.take_parts(kept.stream, ids)
    for number in numbers:
        del kept.staged[number]
    return numbers
