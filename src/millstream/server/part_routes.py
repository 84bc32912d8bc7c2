"""Routes of multipart appends: stage a part, commit parts, drop one (rule X3)."""

from collections.abc import Callable

from millstream.protocol import parts
from millstream.protocol.http import Reply
from millstream.protocol.parts import Commit
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
        body_of: Callable[[Request], bytes],
        clock_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._max_staged_bytes = settings.max_staged_bytes
        self._metrics = metrics
        self._body_of = body_of
        self._clock_ms = clock_ms

    def post(self, name: str, request: Request) -> Answer | AppendRequest | None:
        """Stage or commit; a commit of nothing is a plain close, and None is a plain append."""
        query = Query(request.query)
        if parts.is_commit(query):
            commit = parts.parse_commit(request.headers, self._body_of(request))
            if isinstance(commit, AppendRequest):
                return commit
            return when(self._store.commit(name, commit, self._clock_ms()), self._committed)
        id = parts.part_of(query)
        if id is None:
            return None
        stage = parts.parse_stage(id, request.headers, self._body_of(request))
        return when(self._store.stage(name, stage, self._max_staged_bytes, self._clock_ms()), reply_to)

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
