"""Metrics: what the server counts, in the text format of Prometheus.

Counting is an addition to an integer, because it happens on every request; everything else happens
when somebody asks. The five `ds_` names are AnyCable's, so that its dashboards go on working. What
the engine measures is told by `engine_metrics`.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
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
    (
        "millstream_dropped_readers",
        "Connections given up because the client did not take its answer.",
        "dropped",
    ),
)

Labelled = dict[str, float]
"""Values by the label's value."""


class Collects(Protocol):
    """Something that has metrics to tell."""

    def collect(self) -> Iterator[Metric]:
        """Give them, as they are now."""
        ...


class Metrics:
    """The numbers, and how they are told."""

    __slots__ = (
        "_gauges",
        "_registry",
        "appended_bytes",
        "appends",
        "dropped",
        "failed",
        "feeds",
        "polls",
        "reads",
        "refused",
    )

    def __init__(self) -> None:
        self.reads = self.polls = self.feeds = self.appends = self.appended_bytes = 0
        self.refused = self.failed = self.dropped = 0
        self._gauges: list[tuple[str, str, str, Callable[[], float | Labelled]]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def count(self, status: int) -> None:
        """Count an answer that says no."""
        if status >= 500:
            self.failed += 1
        elif status >= 400:
            self.refused += 1

    def watch(self, name: str, help: str, value: Callable[[], float | Labelled], *, label: str = "") -> None:
        """Tell a number that something else knows, or one for each value of a label, when somebody asks."""
        self._gauges.append((name, help, label, value))

    def include(self, others: Collects) -> None:
        """Tell the metrics of something else, too."""
        self._registry.register(others)

    def collect(self) -> Iterator[Metric]:
        """Give all numbers; the registry calls it."""
        for name, help, attribute in _COUNTERS:
            yield CounterMetricFamily(name, help, value=getattr(self, attribute))
        for name, help, label, value in self._gauges:
            found = value()
            if isinstance(found, dict):
                family = GaugeMetricFamily(name, help, labels=[label])
                for labelled, number in found.items():
                    family.add_metric([labelled], number)
                yield family
            else:
                yield GaugeMetricFamily(name, help, value=found)

    def text(self) -> bytes:
        """Write everything as Prometheus reads it."""
        return generate_latest(self._registry)
