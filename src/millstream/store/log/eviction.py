"""Eviction: streams that nobody uses leave memory; the catalog has them.

Every few seconds a round begins, over all that are in memory, some of them at a time. One that was used
since the last round is told from one that was not by a mark that using it sets and a round takes away.
"""

from collections.abc import Callable, Container

from millstream.store.log.intervals import elapsed
from millstream.store.log.stream_cache import Residents
from millstream.store.table import Kept

_STEP = 5_000  # streams looked at in one go
_ROUND_AGE_MS = 5_000


class Evictions:
    """Rounds over the streams in memory."""

    def __init__(self, log_renewal: Callable[[Kept], None]) -> None:
        self._log_renewal = log_renewal
        self._round: list[Kept] = []
        self._begun_ms = 0

    def go_on(self, residents: Residents, in_picture: Container[int], now_ms: int) -> None:
        """Let go of some streams that nobody has used since the last round."""
        if not self._round and elapsed(self._begun_ms, now_ms, _ROUND_AGE_MS):
            self._round = list(residents.by_id.values())
            self._begun_ms = now_ms
        for kept in self._round[-_STEP:]:
            if kept.used:
                kept.used = False
            elif _is_idle(kept, residents, in_picture):
                if kept.logged_deadline_ms == (kept.stream.deadline_ms or 0):
                    residents.evict(kept)
                else:  # the catalog must hear of it first
                    self._log_renewal(kept)
        del self._round[-_STEP:]

    def forget(self) -> None:
        """End the round: other streams are in memory now."""
        self._round.clear()


def _is_idle(kept: Kept, residents: Residents, in_picture: Container[int]) -> bool:
    id = kept.stream.id
    return (
        residents.by_id.get(id) is kept
        and kept.stream.fork_count == 0
        and not kept.staged
        and id not in residents.dirty
        and id not in in_picture
    )
