"""Eviction: streams stay in memory until they pass their budget, then the least recently used leave.

What counts: all entries (`memory_use`), and the content of changes that wait for a checkpoint. Beyond the
budget, clean streams are evicted down to a little below it, some in each turn of the event loop. When a look
at all of them, twice because the first one may only clear marks, does not free enough, the rest cannot leave
before a checkpoint has saved it; then the next attempt is after that, or some seconds later.

Producers are dropped earlier: only the streams that are being written need theirs.
"""

from collections.abc import Callable, Iterator
from functools import partial

from millstream.store.entries import StreamEntry
from millstream.store.log.cache.stream_cache import StreamCache
from millstream.store.log.intervals import elapsed
from millstream.store.log.runtime import Runtime
from millstream.store.log.saving.checkpoint import Checkpoints

_SPARE_SHARE = 32  # of the budget is free when an eviction has ended
_SPARE_ORDER = 5_000
_RETRY_MS = 5_000
_PRODUCERS_STEP = 1_000  # streams looked at for their producers in one go
_PRODUCERS_IDLE_MS = 60_000


class Eviction:
    """Keeps the streams in memory within their budget."""

    def __init__(self, runtime: Runtime, checkpoints: Checkpoints, memory_bytes: int) -> None:
        self._runtime = runtime
        self._checkpoints = checkpoints
        self._memory_bytes = memory_bytes
        self._is_running = False
        self._is_stopped = False
        self._failed_ms = 0  # when one could not free enough; 0 if it may begin at any time

    def begin(
        self,
        cache: StreamCache,
        unsaved_bytes: int,
        record_deadline: Callable[[StreamEntry], None],
        now_ms: int,
    ) -> None:
        """Begin to evict streams if there are too many, and drop producers that are not needed."""
        cache.drop_producers(_PRODUCERS_STEP, self._checkpoints.includes, now_ms - _PRODUCERS_IDLE_MS)
        if self._is_running:
            return
        self._is_stopped = False
        is_over = cache.memory.bytes + unsaved_bytes > self._memory_bytes
        if is_over and (not self._failed_ms or elapsed(self._failed_ms, now_ms, _RETRY_MS)):
            self._is_running = True
            most_bytes = max(0, self._memory_bytes - self._memory_bytes // _SPARE_SHARE - unsaved_bytes)
            work = self._evict(cache, most_bytes, record_deadline)
            self._runtime.begin_work(work, partial(self._done, cache, most_bytes, now_ms))
        elif len(cache.memory.order) > 2 * len(cache.by_id) + _SPARE_ORDER:
            self._is_running = True
            self._runtime.begin_work(_forget_removed(cache), self._end)

    def retry(self) -> None:
        """Evict as soon as it is needed: a checkpoint has made streams clean."""
        self._failed_ms = 0

    def stop(self) -> None:
        """Evict no more for now: what looks saved may not be."""
        self._is_stopped = True

    def _evict(
        self, cache: StreamCache, most_bytes: int, record_deadline: Callable[[StreamEntry], None]
    ) -> Iterator[None]:
        memory = cache.memory
        for _ in range(2 * len(memory.order)):
            if memory.bytes <= most_bytes or not memory.order or self._is_stopped:
                return
            cache.evict_oldest(self._checkpoints.includes, record_deadline)
            yield

    def _done(self, cache: StreamCache, most_bytes: int, now_ms: int) -> None:
        self._failed_ms = now_ms if cache.memory.bytes > most_bytes else 0
        self._end()

    def _end(self) -> None:
        self._is_running = False


def _forget_removed(cache: StreamCache) -> Iterator[None]:
    """Look at each place in the order once, and give up those of streams that were removed."""
    order = cache.memory.order
    for _ in range(len(order)):
        if not order:
            return
        id = order.popleft()
        if id in cache.by_id:
            order.append(id)
        yield
