"""Rates: how many requests a second one address or one token may make.

A bucket holds a second's worth of requests and fills up all the time; a request takes one out. Whoever
finds it empty is told when to come back. Buckets of those who have been away long enough to have full
ones are forgotten, so that memory follows who is there.

Rule H4.
"""

import math

import msgspec

from millstream.protocol.replies import Reply, problem
from millstream.server.http import Request
from millstream.server.settings import Settings

_MAX_BUCKETS = 65_536


class Exceeded(msgspec.Struct, frozen=True, gc=False):
    """The request came too soon."""

    retry_after_s: float


class RateLimit:
    """Buckets by caller."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._size = max(1.0, per_second)
        self._buckets: dict[bytes, tuple[float, float]] = {}

    @property
    def is_off(self) -> bool:
        """Whether everybody may go as fast as they can."""
        return self._per_second <= 0

    def take(self, caller: bytes, now_s: float) -> Exceeded | None:
        """Take a request out of the caller's bucket, if there is one left."""
        level, filled_s = self._buckets.pop(caller, (self._size, now_s))
        level = min(self._size, level + (now_s - filled_s) * self._per_second)
        if level < 1:
            self._buckets[caller] = level, now_s
            return Exceeded((1 - level) / self._per_second)
        self._buckets[caller] = level - 1, now_s
        if len(self._buckets) > _MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]  # the one that was used least recently
        return None

    def refusal(self, exceeded: Exceeded) -> Reply:
        """Tell a caller when to come back."""
        wait_s = max(1, math.ceil(exceeded.retry_after_s))
        return problem(
            429,
            "RATE_LIMITED",
            f"More than {self._per_second:g} requests a second.",
            [
                (b"retry-after", b"%d" % wait_s),
                (b"ratelimit", b'"requests";r=0;t=%d' % wait_s),
                (b"ratelimit-policy", b'"requests";q=%d;w=1' % max(1, int(self._per_second))),
            ],
        )


class Limits:
    """The rates of a server."""

    def __init__(self, settings: Settings) -> None:
        self._per_address = RateLimit(settings.rate_per_address)
        self._per_token = RateLimit(settings.rate_per_token)
        self.are_on = not (self._per_address.is_off and self._per_token.is_off)

    def check(self, request: Request, now_s: float) -> Reply | None:
        """Refuse a request that comes too soon."""
        token = request.headers.get(b"authorization", b"")
        for limit, caller in ((self._per_address, request.client), (self._per_token, token)):
            if limit.is_off or not caller:
                continue
            taken = limit.take(caller, now_s)
            if isinstance(taken, Exceeded):
                return limit.refusal(taken)
        return None
