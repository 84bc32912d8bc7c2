"""Metrics of subscriptions: how many, how far behind, how many attempts and with what outcome."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from millstream.server.deliveries.sending import Deliveries
from millstream.store.base import Store


class DeliveryMetrics:
    """The metrics of a store's subscriptions, and of the webhooks of its server."""

    def __init__(self, store: Store, deliveries: Deliveries, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._deliveries = deliveries
        self._clock_ms = clock_ms

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; called by the registry."""
        subscriptions, deliveries = self._store.subscriptions, self._deliveries
        attempts = CounterMetricFamily(
            "millstream_webhook_attempts", "Webhooks sent, by what came of it.", labels=["outcome"]
        )
        for outcome, count in deliveries.attempts.items():
            attempts.add_metric([outcome], count)
        yield attempts
        yield CounterMetricFamily(
            "millstream_wake_events", "Events written to wake streams.", value=subscriptions.waking.events
        )
        yield CounterMetricFamily(
            "millstream_wake_event_failures",
            "Events that a wake stream did not accept; each is tried again.",
            value=subscriptions.waking.event_failures,
        )
        gauges = [
            ("millstream_subscriptions", "Subscriptions.", len(subscriptions.entries)),
            (
                "millstream_subscriptions_failing",
                "Subscriptions whose last attempt to deliver has failed.",
                subscriptions.failing,
            ),
            ("millstream_subscription_lag_seconds", "How long the oldest wake has been open.", self._lag_s()),
            ("millstream_webhooks_under_way", "Webhooks being sent now.", deliveries.under_way),
            ("millstream_webhooks_waiting", "Webhooks that wait for their turn.", deliveries.waiting),
        ]
        for name, help, value in gauges:
            yield GaugeMetricFamily(name, help, value=value)

    def _lag_s(self) -> float:
        now_ms = self._clock_ms()
        entries = self._store.subscriptions.entries.values()
        since = [entry.state.pending_ms for entry in entries if entry.state.pending_ms is not None]
        return max(0, now_ms - min(since, default=now_ms)) / 1000
