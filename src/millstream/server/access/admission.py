"""Admission: load shedding when more changes arrive than can be made durable in time.

A server that accepts everything under overload answers everybody late. This one accepts what it can
answer soon and refuses the rest at once (503 with `Retry-After`), before it does any work for them. It
estimates how long a new change would wait in two queues:

        disk          bytes that are accepted and not yet durable, divided by the rate of the disk
        event loop    how long this iteration of the loop has run already: a request that is handled now
                      has waited at least as long

Bursts are not overload: what fits into the next commit is accepted however slow the disk is, and
iterations of the loop may be long for two seconds.

Rule H4.
"""

from collections.abc import Callable
from time import monotonic

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.settings import Settings
from millstream.store.base import Store

_BURST_S = 2.0
_REST_S = 0.25
_FLOOR_BYTES = 8 * 2**20  # what one commit takes
_SAMPLE_S = 0.05
_STALE_S = 1.0


class DiskQueue:
    """Estimates how long bytes wait for the disk, from its recent rate."""

    def __init__(self, max_lag_s: float, max_bytes: int) -> None:
        self._max_lag_s = max_lag_s
        self._max_bytes = max_bytes
        self.floor_bytes = min(_FLOOR_BYTES, max_bytes)
        """Up to this many waiting bytes, `is_late` is always false."""
        self._bytes_per_s = 0.0
        self._sampled_s = 0.0
        self._sampled_bytes = 0

    def is_late(self, waiting_bytes: int, synced_bytes: int, now_s: float) -> bool:
        """Tell whether a new change would wait too long; `synced_bytes` is the total since the start."""
        if waiting_bytes <= self.floor_bytes:
            return False
        self._sample(synced_bytes, now_s)
        if waiting_bytes > self._max_bytes:
            return True
        return waiting_bytes > self._max_lag_s * self._bytes_per_s > 0

    def _sample(self, synced_bytes: int, now_s: float) -> None:
        """Measure the disk's rate, while it is busy: samples that are far apart say nothing."""
        taken_s = now_s - self._sampled_s
        if taken_s < _SAMPLE_S:
            return
        if taken_s < _STALE_S:
            rate = max(1.0, (synced_bytes - self._sampled_bytes) / taken_s)
            self._bytes_per_s = (self._bytes_per_s + rate) / 2 if self._bytes_per_s else rate
        self._sampled_s, self._sampled_bytes = now_s, synced_bytes


class LoopLag:
    """Detects that iterations of the event loop have been too long for too long."""

    def __init__(self, max_lag_s: float) -> None:
        self.max_lag_s = max_lag_s
        """Up to this lag, `is_late` is always false."""
        self._late_since_s = self._late_until_s = 0.0

    def is_late(self, began_s: float, now_s: float) -> bool:
        """Tell whether to refuse a request now, in the iteration that began at `began_s`."""
        if now_s - began_s <= self.max_lag_s:
            return False
        if began_s - self._late_until_s > _REST_S:  # no lag for a while: a new burst
            self._late_since_s = began_s
        self._late_until_s = now_s
        return began_s - self._late_since_s > _BURST_S


class Admission:
    """Accepts or refuses changes."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._backlog = store.backlog
        self._max_changes = settings.max_unsynced_changes
        self._disk = DiskQueue(settings.max_disk_lag_ms / 1000, settings.max_unsynced_bytes)
        self._loop = LoopLag(settings.max_loop_lag_ms / 1000)
        self._floor_bytes, self._max_lag_s = self._disk.floor_bytes, self._loop.max_lag_s
        self.iteration_began_s: Callable[[], float] = monotonic
        """Gives the time at which the loop's iteration began: uvloop's clock stands still during one."""

    def refusal(self) -> Reply | None:
        """Refuse a change that would wait too long; one of any size is accepted when none waits."""
        backlog = self._backlog
        began_s, now_s = self.iteration_began_s(), monotonic()
        waiting_bytes = backlog.unsynced_bytes
        if (
            (now_s - began_s > self._max_lag_s and self._loop.is_late(began_s, now_s))
            or (
                waiting_bytes > self._floor_bytes
                and self._disk.is_late(waiting_bytes, backlog.synced_bytes, now_s)
            )
            or backlog.unsynced_changes > self._max_changes
        ):
            return problems.OVERLOADED
        return None
