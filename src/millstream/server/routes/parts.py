"""Routes of multipart appends: stage a part, commit parts, drop one (rule X3)."""

from collections.abc import Callable

from millstream.protocol import parts
from millstream.protocol.http import Reply
from millstream.protocol.parts import Commit, CommitRequest, StageRequest
from millstream.protocol.queries import Query
from millstream.protocol.replies import reply_to
from millstream.protocol.requests import AppendRequest
from millstream.server.request import Answer, Request
from millstream.server.settings import Settings
from millstream.server.telemetry.metrics import Metrics
from millstream.store.base import Committed, Store
from millstream.store.pending import when


class PartRoutes:
    """What is answered to requests with `part` or `parts` in their query."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        metrics: Metrics,
        clock_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._max_staged_bytes = settings.max_staged_bytes
        self._metrics = metrics
        self._clock_ms = clock_ms

    def post(self, name: str, posted: StageRequest | CommitRequest | AppendRequest) -> Answer:
        """Stage a part, or commit parts; a commit of none is a plain close."""
        if isinstance(posted, AppendRequest):
            return when(self._store.append(name, posted, self._clock_ms()), reply_to)
        if isinstance(posted, CommitRequest):
            return when(self._store.commit(name, posted, self._clock_ms()), self._committed)
        return when(self._store.stage(name, posted, self._max_staged_bytes, self._clock_ms()), reply_to)

    def delete(self, name: str, request: Request) -> Answer | None:
        """Drop a part; None is the deletion of a whole stream."""
        id = parts.part_of(Query(request.query))
        if id is None:
            return None
        return when(self._store.drop_part(name, id, self._clock_ms()), reply_to)

    def _committed(self, decision: Committed) -> Reply:
        if isinstance(decision, Commit):
            self._metrics.appends += 1
            self._metrics.appended_bytes += decision.size
        return reply_to(decision)
