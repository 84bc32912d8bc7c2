"""Rate limits: how many requests a second one address or one token may make.

Each caller has a token bucket that holds one second's worth of requests and refills continuously. A
request that finds it empty is refused with `Retry-After`. The number of buckets is bounded: the least
recently used one is dropped. Every response says what is left, in `RateLimit` and `RateLimit-Policy`.
Buckets fill by a monotonic clock: the wall clock may be set back, and nobody should wait for that.

Rule H4.
"""

import math
import time
from collections.abc import Callable

import msgspec

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.live.feeds import EventFeed
from millstream.server.settings import Settings

_MAX_BUCKETS = 65_536


class Level(msgspec.Struct, frozen=True, gc=False):
    """A bucket after a request: what is left, and when it is full again, or holds one if it was empty."""

    remaining: int
    reset_s: float
    exceeded: bool = False


class RateLimit:
    """Buckets by caller."""

    def __init__(self, name: str, per_second: float) -> None:
        self.name = name
        self.per_second = per_second
        self._size = max(1.0, per_second)
        self._buckets: dict[bytes, tuple[float, float]] = {}

    @property
    def is_off(self) -> bool:
        """Whether there is no limit."""
        return self.per_second <= 0

    @property
    def quota(self) -> int:
        """How many requests a full bucket holds."""
        return int(self._size)

    def take(self, caller: bytes, now_s: float) -> Level:
        """Take one request from the caller's bucket, if one is left."""
        level, filled_s = self._buckets.pop(caller, (self._size, now_s))
        level = min(self._size, level + (now_s - filled_s) * self.per_second)
        if level < 1:
            self._buckets[caller] = level, now_s
            return Level(0, (1 - level) / self.per_second, exceeded=True)
        level -= 1
        self._buckets[caller] = level, now_s
        if len(self._buckets) > _MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]  # the least recently used one
        return Level(int(level), (self._size - level) / self.per_second)


class Rates(msgspec.Struct, frozen=True):
    """The outcome of a request's rate limits: headers for its response, or a refusal."""

    levels: tuple[tuple[RateLimit, Level], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.levels)

    def and_then(self, other: "Rates") -> "Rates":
        """Combine the outcomes of two limits."""
        return Rates(self.levels + other.levels) if other.levels else self

    @property
    def refusal(self) -> Reply | None:
        """The refusal, if a limit was exceeded."""
        for limit, level in self.levels:
            if level.exceeded:
                return problems.rate_limited(limit.per_second, limit.name, _seconds(level))
        return None

    def written_on(self, answer: Reply | EventFeed) -> Reply | EventFeed:
        """Add the headers to a reply; event streams have none."""
        return self.added_to(answer) if isinstance(answer, Reply) else answer

    def added_to(self, reply: Reply) -> Reply:
        """Add the headers to a reply."""
        if not self.levels:
            return reply
        left = ", ".join(
            f'"{limit.name}";r={level.remaining};t={_seconds(level)}' for limit, level in self.levels
        )
        policy = ", ".join(f'"{limit.name}";q={limit.quota};w=1' for limit, _ in self.levels)
        fields = [(b"ratelimit", left.encode()), (b"ratelimit-policy", policy.encode())]
        return Reply(reply.status, [*reply.headers, *fields], reply.body)


_UNLIMITED = Rates()


class Limits:
    """The rate limits of a server."""

    def __init__(self, settings: Settings, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._per_address = RateLimit("address", settings.rate_per_address)
        self._per_token = RateLimit("token", settings.rate_per_token)
        self.are_on = not (self._per_address.is_off and self._per_token.is_off)

    def by_address(self, address: bytes) -> Rates:
        """Count a request by its address."""
        return self._count(self._per_address, address)

    def by_token(self, token: bytes) -> Rates:
        """Count a request by its token, which is verified: invented tokens must not fill the table."""
        return self._count(self._per_token, token)

    def _count(self, limit: RateLimit, caller: bytes) -> Rates:
        if limit.is_off or not caller:
            return _UNLIMITED
        return Rates(((limit, limit.take(caller, self._clock_s())),))


def _seconds(level: Level) -> int:
    return max(1, math.ceil(level.reset_s))
