"""Metrics of the server, in the Prometheus text format.

Counters are plain integers, because they change on every request; all other work is done when metrics are
requested. The five `ds_` names are AnyCable's, so that its dashboards work. `engine_metrics` adds the
metrics of the store, and `latencies` how long requests take.
"""

import platform
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from millstream.server.telemetry.latencies import Latencies

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

# name without `_total`, help, attribute of Metrics
_COUNTERS = (
    ("ds_requests", "GET and HEAD requests.", "reads"),
    ("ds_poll_requests", "Long-polls started.", "polls"),
    ("ds_sse_requests", "Event streams started.", "feeds"),
    ("millstream_appends", "New appends and closes acknowledged.", "appends"),
    ("millstream_appended_bytes", "Bytes in those appends, as stored.", "appended_bytes"),
    ("millstream_refused_requests", "Responses with status 4xx.", "refused"),
    ("millstream_failed_requests", "Responses with status 5xx.", "failed"),
    (
        "millstream_dropped_readers",
        "Connections closed because the client did not read its response.",
        "dropped",
    ),
)

BUILD = {"version": version("millstream"), "python": platform.python_version()}

Labelled = dict[str, float]
"""Values by the label's value."""


class Collects(Protocol):
    """A source of metrics."""

    def collect(self) -> Iterator[Metric]:
        """Yield the current values."""
        ...


class Metrics:
    """Counters and gauges of the server."""

    __slots__ = (
        "_gauges",
        "_registry",
        "appended_bytes",
        "appends",
        "dropped",
        "failed",
        "feeds",
        "latencies",
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
        self.latencies = Latencies()
        self._registry.register(self.latencies)
        ProcessCollector(registry=self._registry)

    def count(self, status: int) -> None:
        """Count a response with an error status."""
        if status >= 500:
            self.failed += 1
        elif status >= 400:
            self.refused += 1

    def watch(self, name: str, help: str, value: Callable[[], float | Labelled], *, label: str = "") -> None:
        """Add a gauge whose value, or value per label, is computed when metrics are requested."""
        self._gauges.append((name, help, label, value))

    def include(self, others: Collects) -> None:
        """Include the metrics of another source."""
        self._registry.register(others)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; called by the registry."""
        yield InfoMetricFamily("millstream_build", "The version that is running.", value=BUILD)
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
        """Return everything in the Prometheus text format."""
        return generate_latest(self._registry)
