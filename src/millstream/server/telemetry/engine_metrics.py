"""What the engine has measured, as metrics: syncs, checkpoints, recovery, sizes.

How much room the data takes is found by looking at every file. That is done on a thread of its own, only
when somebody asks for metrics, and so seldom that it never takes more than a fiftieth of the time.
"""

import threading
import time
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from millstream.store.base import Store
from millstream.store.measures import Histogram, Sizes

_LOOK_EVERY_S = 10.0
_PAUSE_PER_WORK = 50
_FIRST_LOOK_S = 0.1


class SizeWatch:
    """The sizes of a store as they were not long ago."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sizes: Sizes | None = None
        self._looking: threading.Thread | None = None
        self._look_again_s = 0.0

    def latest(self) -> Sizes | None:
        """Give the sizes; begin to look again if they are old."""
        if self._looking is None and time.monotonic() >= self._look_again_s:
            self._looking = threading.Thread(target=self._look, name="millstream-sizes", daemon=True)
            self._looking.start()
            if self._sizes is None:  # a small store is measured by then; a large one the next time
                self._looking.join(_FIRST_LOOK_S)
        return self._sizes

    def _look(self) -> None:
        began_s = time.monotonic()
        try:
            self._sizes = self._store.measure_sizes()
        finally:
            took_s = time.monotonic() - began_s
            self._look_again_s = time.monotonic() + max(_LOOK_EVERY_S, _PAUSE_PER_WORK * took_s)
            self._looking = None


class EngineMetrics:
    """The metrics of a store; nothing for one without a disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sizes = SizeWatch(store)

    def collect(self) -> Iterator[Metric]:
        """Give all numbers; the registry calls it."""
        measures = self._store.measures
        if measures is None:
            return
        yield _histogram("millstream_sync_seconds", "Time of each sync of the log.", measures.sync_s)
        yield _histogram(
            "millstream_sync_records", "Changes that each sync made durable.", measures.sync_records
        )
        yield _histogram("millstream_checkpoint_seconds", "Time of each checkpoint.", measures.checkpoint_s)
        since_s = measures.writing_since_s
        gauges = [
            (
                "millstream_durable_lag_records",
                "Changes that are accepted and not durable yet.",
                self._store.unsynced_changes,
            ),
            (
                "millstream_durable_lag_seconds",
                "For how long the batch that is being written has been.",
                time.monotonic() - since_s if since_s else 0.0,
            ),
            ("millstream_recovery_seconds", "Time of the recovery at the start.", measures.recovery_s),
            (
                "millstream_log_bytes",
                "Size of the log that a start may have to read.",
                self._store.log_bytes(),
            ),
        ]
        sizes = self._sizes.latest()
        if sizes is not None:
            gauges += [
                ("millstream_store_bytes", "Size of all files of the store.", sizes.store_bytes),
                ("millstream_disk_free_bytes", "Room left on the store's disk.", sizes.free_bytes),
            ]
        for name, help, value in gauges:
            yield GaugeMetricFamily(name, help, value=value)


def _histogram(name: str, help: str, histogram: Histogram) -> Metric:
    counts = list(accumulate(list(histogram.counts)))
    bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    return HistogramMetricFamily(
        name, help, buckets=list(zip(bounds, counts, strict=True)), sum_value=histogram.sum
    )
