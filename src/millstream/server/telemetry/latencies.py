"""How long requests take: a histogram for each route and status.

The route is the method, or what the request's `route` says: live reads are meant to wait, and requests of the
control APIs are about the server. Event streams are not counted: how long they stay open says nothing.

Reading the clock twice and counting would take several percent of a small request. So every request is timed
as long as there are few, and one of `_WEIGHT` when there are many, which then counts as so many:

        interval   |- the first _TIMED: each, weight 1 -|- the rest: one of _WEIGHT, weight _WEIGHT -|
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from time import monotonic
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric

from millstream.server.request import Request

CONTROL: Final = b"control"
LIVE: Final = b"live"

_NAMES: Final = {
    b"GET": "read",
    b"HEAD": "head",
    b"POST": "append",
    b"PUT": "create",
    b"PATCH": "configure",
    b"DELETE": "delete",
    b"OPTIONS": "options",
    CONTROL: "control",
    LIVE: "live",
    b"": "other",  # any other method
}
_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_TIMED: Final = 25
_WEIGHT: Final = 31  # a prime, so that it is in step with no pattern of requests


class Latency:
    """The latencies of one route and status."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_S) + 1)
        self.sum_s = 0.0


class Timing:
    """A request that is timed: when it began, and for how many it counts."""

    __slots__ = ("_began_s", "_latencies", "_weight")

    def __init__(self, latencies: "Latencies", weight: int) -> None:
        self._latencies = latencies
        self._weight = weight
        self._began_s = monotonic()

    def end(self, request: Request, status: int) -> None:
        """Count the request, now that its response is there."""
        took_s = monotonic() - self._began_s
        self._latencies.count(request.route or request.method, status, took_s, self._weight)


class Latencies:
    """The latencies of a server's requests."""

    def __init__(self) -> None:
        self._by_route: dict[tuple[bytes, int], Latency] = {}
        self._timed = 0
        self.skip = 0
        """How many requests to skip before the next is timed."""

    def start_interval(self) -> None:
        """Time every request again; called regularly."""
        self._timed = self.skip = 0

    def sample(self) -> Timing | None:
        """Time a request, which has just arrived, if it is its turn."""
        if self.skip:
            self.skip -= 1
            return None
        return self.begin()

    def begin(self) -> Timing:
        """Time a request, which has just arrived and is not skipped."""
        if self._timed < _TIMED:
            self._timed += 1
            return Timing(self, 1)
        self.skip = _WEIGHT - 1
        return Timing(self, _WEIGHT)

    def count(self, route: bytes, status: int, took_s: float, weight: int) -> None:
        """Count a request."""
        key = route if route in _NAMES else b"", status
        latency = self._by_route.get(key)
        if latency is None:
            latency = self._by_route[key] = Latency()
        latency.counts[bisect_left(_BOUNDS_S, took_s)] += weight
        latency.sum_s += took_s * weight

    def collect(self) -> Iterator[Metric]:
        """Yield the histograms; called by the registry."""
        family = HistogramMetricFamily(
            "millstream_request_seconds",
            "Time from a whole request to its response, without event streams; sampled under load.",
            labels=["route", "status"],
        )
        bounds = [*(f"{bound:g}" for bound in _BOUNDS_S), "+Inf"]
        for (route, status), latency in self._by_route.items():
            buckets = list(zip(bounds, accumulate(latency.counts), strict=True))
            family.add_metric([_NAMES[route], str(status)], buckets, latency.sum_s)
        yield family
