"""Admission: which changes are taken when more come than can be made durable in time.

A server that takes everything answers everybody late. This one takes what it can answer soon and tells
the rest at once to come back (503 with `Retry-After`), before any work is done for them. It looks at
two queues, each judged by the time that it makes a newcomer wait:

        the disk's    bytes that are decided and not yet durable, at the rate at which they become it
        the loop's    for how long this turn of the event loop has been at work already, which is how
                      long a request that is looked at now has been waiting at least

Bursts are no overload: what fits into the next commit may wait for a slow one as long as it takes, and
turns of the loop may be long for two seconds.

Rule H4.
"""

import time
from collections.abc import Callable

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
    """How long the bytes that wait for the disk will wait, by how fast others went before them."""

    def __init__(self, max_lag_s: float, max_bytes: int) -> None:
        self._max_lag_s = max_lag_s
        self._max_bytes = max_bytes
        self.floor_bytes = min(_FLOOR_BYTES, max_bytes)
        """Up to here nobody needs to ask."""
        self._bytes_per_s = 0.0
        self._sampled_s = 0.0
        self._sampled_bytes = 0

    def is_late(self, waiting_bytes: int, synced_bytes: int, now_s: float) -> bool:
        """Tell whether a change that comes now would wait too long; `synced_bytes` counts from the start."""
        if waiting_bytes <= self.floor_bytes:
            return False
        self._sample(synced_bytes, now_s)
        if waiting_bytes > self._max_bytes:
            return True
        return waiting_bytes > self._max_lag_s * self._bytes_per_s > 0

    def _sample(self, synced_bytes: int, now_s: float) -> None:
        """Measure the disk, while it has enough to do: who asks seldom measures nothing."""
        taken_s = now_s - self._sampled_s
        if taken_s < _SAMPLE_S:
            return
        if taken_s < _STALE_S:
            rate = max(1.0, (synced_bytes - self._sampled_bytes) / taken_s)
            self._bytes_per_s = (self._bytes_per_s + rate) / 2 if self._bytes_per_s else rate
        self._sampled_s, self._sampled_bytes = now_s, synced_bytes


class Turns:
    """Whether the turns of an event loop have been too long for too long."""

    def __init__(self, max_lag_s: float) -> None:
        self.max_lag_s = max_lag_s
        """Up to here nobody needs to ask."""
        self._late_since_s = self._late_until_s = 0.0

    def is_late(self, began_s: float, now_s: float) -> bool:
        """Tell whether what is looked at now, in the turn that began then, should be refused."""
        if now_s - began_s <= self.max_lag_s:
            return False
        if began_s - self._late_until_s > _REST_S:  # nothing was late for a while
            self._late_since_s = began_s
        self._late_until_s = now_s
        return began_s - self._late_since_s > _BURST_S


class Admission:
    """Takes a change, or says that now is not the time."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._max_changes = settings.max_unsynced_changes
        self._disk = DiskQueue(settings.max_disk_lag_ms / 1000, settings.max_unsynced_bytes)
        self._turns = Turns(settings.max_loop_lag_ms / 1000)
        self._floor_bytes, self._max_lag_s = self._disk.floor_bytes, self._turns.max_lag_s
        self.turn_began_s: Callable[[], float] = time.monotonic
        """Tells when the event loop's turn began; uvloop's clock stands still in between."""

    def refusal(self) -> Reply | None:
        """Refuse a change that would wait for too long; one of any size is taken when nothing waits."""
        store = self._store
        began_s, now_s = self.turn_began_s(), time.monotonic()
        waiting_bytes = store.unsynced_bytes
        if (
            (now_s - began_s > self._max_lag_s and self._turns.is_late(began_s, now_s))
            or (
                waiting_bytes > self._floor_bytes
                and self._disk.is_late(waiting_bytes, store.synced_bytes, now_s)
            )
            or store.unsynced_changes > self._max_changes
        ):
            return problems.OVERLOADED
        return None
