"""Retries: whether to retry, and after how long.

Exponential backoff with full jitter, so that clients which failed together do not retry together. A
`Retry-After` is obeyed. The delays of one request are limited in total; a delay that would exceed the
limit is not begun.
"""

import random
import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from millstream.client.core.errors import TransportError
from millstream.client.core.transport import Answer

STATUSES: Final = frozenset((429, 500, 502, 503, 504))
"""Statuses that may be different next time."""

REFUSED: Final = 429
"""The one that says that nothing was done."""

_MAX_DOUBLINGS = 32


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How to retry a request after a transient failure.

    Reads, HEAD, PUT, DELETE, closing and producers' appends are retried. A plain append is retried only if
    it was provably not stored; `doubtful_appends` retries it always, at the risk of storing it twice.

    >>> DurableStream(url, retry=Retry(max_total_s=5)).head().stream_closed
    False
    """

    initial_delay_s: float = 0.1
    max_delay_s: float = 10.0
    max_total_s: float = 60.0
    max_attempts: int | None = None
    doubtful_appends: bool = False


DEFAULT: Final = Retry()


class Chance(msgspec.Struct, frozen=True):
    """Time and randomness, as arguments."""

    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    random: Callable[[], float] = random.random


REAL: Final = Chance()


class Attempts:
    """The failures of one request so far."""

    def __init__(self, retry: Retry | None, chance: Chance = REAL) -> None:
        self._retry = retry
        self._chance = chance
        self._started = chance.clock()
        self.failures = 0
        self.doubtful = False
        """Whether one of them may have been carried out nevertheless."""

    def delay_s(self, retry_after_s: float | None = None) -> float | None:
        """Count a failure; return the delay before the next attempt, None to give up."""
        self.failures += 1
        retry = self._retry
        if retry is None or (retry.max_attempts is not None and self.failures >= retry.max_attempts):
            return None
        doublings = min(self.failures - 1, _MAX_DOUBLINGS)
        delay_s = self._chance.random() * min(retry.max_delay_s, retry.initial_delay_s * 2**doublings)
        if retry_after_s is not None:
            delay_s += retry_after_s  # never earlier than asked, and spread out
        left_s = self._started + retry.max_total_s - self._chance.clock()
        return delay_s if delay_s <= left_s else None


def retry_after_s(answer: Answer, chance: Chance = REAL) -> float | None:
    """Read `Retry-After`: seconds or a date; None if it is absent or malformed."""
    text = answer.headers.get(b"retry-after", b"").decode("latin-1").strip()
    if text.isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, aware.timestamp() - chance.wall_clock())


def may_repeat(outcome: Answer | TransportError, *, safe: bool) -> bool:
    """Return whether a request with this outcome may be sent again.

    `safe` requests always may. Others, plain appends, only if they were not carried out: they were never
    sent, or the server refused them because of a rate limit (429).
    """
    if isinstance(outcome, TransportError):
        return (safe or outcome.unsent) and outcome.code != "UNTRUSTED"
    return outcome.status == REFUSED or (safe and outcome.status in STATUSES)
