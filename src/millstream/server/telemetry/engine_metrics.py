"""Metrics of the store: syncs, checkpoints, recovery, sizes.

Measuring the size of the data means a `stat` of every file. It runs on its own thread, only when metrics are
requested, and rarely enough to take at most a fiftieth of the time.
"""

import threading
import time
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from millstream.store.base import Store
from millstream.store.measures import Histogram, ReplicaMeasures, Sizes

_MEASURE_EVERY_S = 10.0
_PAUSE_PER_WORK = 50
_FIRST_WAIT_S = 0.1


class SizeWatch:
    """The recent sizes of a store, refreshed in the background."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sizes: Sizes | None = None
        self._measuring: threading.Thread | None = None
        self._next_s = 0.0

    def latest(self, wait_s: float = _FIRST_WAIT_S) -> Sizes | None:
        """Return the last known sizes; start a new measurement if they are old, and wait for the first."""
        if self._measuring is None and time.monotonic() >= self._next_s:
            self._measuring = threading.Thread(target=self._measure, name="millstream-sizes", daemon=True)
            self._measuring.start()
            if self._sizes is None:  # long enough for a small store; a large one has sizes in the next scrape
                self._measuring.join(wait_s)
        return self._sizes

    def _measure(self) -> None:
        began_s = time.monotonic()
        try:
            self._sizes = self._store.measure_sizes()
        finally:
            took_s = time.monotonic() - began_s
            self._next_s = time.monotonic() + max(_MEASURE_EVERY_S, _PAUSE_PER_WORK * took_s)
            self._measuring = None


class EngineMetrics:
    """The metrics of a store: of its disk and of its replica, where it has them."""

    def __init__(self, store: Store, sizes: SizeWatch) -> None:
        self._store = store
        self._sizes = sizes

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; called by the registry."""
        replica = self._store.replica_measures
        if replica is not None:
            yield from replica_metrics(replica)
        measures = self._store.measures
        if measures is None:
            return
        yield histogram_family(
            "millstream_sync_seconds", "Duration of each sync of the log.", measures.sync_s
        )
        yield histogram_family("millstream_sync_records", "Changes per sync.", measures.sync_records)
        yield histogram_family(
            "millstream_checkpoint_seconds", "Duration of each checkpoint.", measures.checkpoint_s
        )
        yield CounterMetricFamily(
            "millstream_checkpoint_failures",
            "Checkpoints that failed and were tried again.",
            value=measures.checkpoint_failures,
        )
        yield CounterMetricFamily(
            "millstream_stream_loads",
            "Streams that were loaded into memory because they were needed.",
            value=measures.stream_loads,
        )
        yield CounterMetricFamily(
            "millstream_stream_evictions",
            "Streams that left memory because it was needed for others.",
            value=measures.stream_evictions,
        )
        yield CounterMetricFamily(
            "millstream_scrubbed_blocks",
            "Blocks of saved content that were read again to look for damage.",
            value=measures.scrubbed_blocks,
        )
        yield CounterMetricFamily(
            "millstream_scrub_rounds",
            "How often everything that is saved was read to look for damage.",
            value=measures.scrub_rounds,
        )
        since_s, postponed_s = measures.writing_since_s, measures.postponed_since_s
        gauges = [
            (
                "millstream_durable_lag_records",
                "Changes that are accepted and not durable yet.",
                self._store.backlog.unsynced_changes,
            ),
            (
                "millstream_durable_lag_seconds",
                "How long the current batch has been in progress.",
                time.monotonic() - since_s if since_s else 0.0,
            ),
            (
                "millstream_checkpoint_postponed_seconds",
                "How long a checkpoint has been due that another process keeps from beginning.",
                time.monotonic() - postponed_s if postponed_s else 0.0,
            ),
            (
                "millstream_unsaved_bytes",
                "Bytes of changes that wait in memory for a checkpoint.",
                self._store.unsaved_bytes,
            ),
            (
                "millstream_unsaved_streams",
                "Streams that the last checkpoint could not save, though it saved others.",
                measures.unsaved_streams,
            ),
            (
                "millstream_damaged_streams",
                "Streams that were found to be damaged on the disk.",
                measures.damaged_streams,
            ),
            ("millstream_cached_streams", "Streams in memory.", measures.cached_streams),
            (
                "millstream_cached_stream_bytes",
                "Memory that they take, without content that waits for a checkpoint.",
                measures.cached_bytes,
            ),
            ("millstream_recovery_seconds", "Duration of the recovery at startup.", measures.recovery_s),
            (
                "millstream_log_bytes",
                "Size of the log.",
                self._store.log_bytes(),
            ),
        ]
        sizes = self._sizes.latest()
        if sizes is not None:
            gauges += [
                ("millstream_store_bytes", "Size of all files of the store.", sizes.store_bytes),
                ("millstream_disk_free_bytes", "Free space on the store's disk.", sizes.free_bytes),
            ]
        for name, help, value in gauges:
            yield GaugeMetricFamily(name, help, value=value)


def replica_metrics(measures: ReplicaMeasures) -> Iterator[Metric]:
    """Give what is read from the replica of a database."""
    yield CounterMetricFamily(
        "millstream_replica_reads",
        "How often content was read from the replica.",
        value=measures.reads,
    )
    yield CounterMetricFamily(
        "millstream_replica_misses",
        "How often the replica did not have content yet, and the database was asked.",
        value=measures.misses,
    )
    yield GaugeMetricFamily(
        "millstream_replica_used", "Whether the replica is asked: 1, or 0.", value=measures.is_used
    )
    if measures.lag_s is not None:
        yield GaugeMetricFamily(
            "millstream_replica_lag_seconds",
            "How long ago was what the replica certainly has.",
            value=measures.lag_s,
        )


def histogram_family(name: str, help: str, histogram: Histogram) -> Metric:
    """Give a histogram in the form that Prometheus expects."""
    counts = list(accumulate(list(histogram.counts)))
    bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    return HistogramMetricFamily(
        name, help, buckets=list(zip(bounds, counts, strict=True)), sum_value=histogram.sum
    )
