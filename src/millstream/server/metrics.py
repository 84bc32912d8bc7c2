"""Metrics: what the server counts, in the text format of Prometheus.

Counting is an addition to an integer, because it happens on every request; everything else happens
when somebody asks. The five `ds_` names are AnyCable's, so that its dashboards go on working.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

# name without its ending, help, where the number is
_COUNTERS = (
    ("ds_requests", "GET and HEAD requests.", "reads"),
    ("ds_poll_requests", "Long-polls begun.", "polls"),
    ("ds_sse_requests", "Event streams begun.", "feeds"),
    ("millstream_appends", "Appends and closes that were acknowledged as new.", "appends"),
    ("millstream_appended_bytes", "Bytes in those appends, as stored.", "appended_bytes"),
    ("millstream_refused_requests", "Requests answered with 4xx.", "refused"),
    ("millstream_failed_requests", "Requests answered with 5xx.", "failed"),
)


class Metrics:
    """The numbers, and how they are told."""

    __slots__ = (
        "_gauges",
        "_registry",
        "appended_bytes",
        "appends",
        "failed",
        "feeds",
        "polls",
        "reads",
        "refused",
    )

    def __init__(self) -> None:
        self.reads = self.polls = self.feeds = self.appends = self.appended_bytes = 0
        self.refused = self.failed = 0
        self._gauges: list[tuple[str, str, Callable[[], float]]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count(self, status: int) -> None:
        """Count an answer that says no."""
        if status >= 500:
            self.failed += 1
        elif status >= 400:
            self.refused += 1

    def watch(self, name: str, help: str, value: Callable[[], float]) -> None:
        """Tell a number that something else knows, whenever somebody asks."""
        self._gauges.append((name, help, value))

    def collect(self) -> Iterator[Metric]:
        """Give all numbers; the registry calls it."""
        for name, help, attribute in _COUNTERS:
            yield CounterMetricFamily(name, help, value=getattr(self, attribute))
        for name, help, value in self._gauges:
            yield GaugeMetricFamily(name, help, value=value())

    def text(self) -> bytes:
        """Write everything as Prometheus reads it."""
        return generate_latest(self._registry)
