"""What the web page's overview shows: facts about the server, and the history of its numbers.

Both come from counters that exist for the metrics. Facts are computed when they are requested; the sizes
of the data are measured in the background (`engine_metrics.SizeWatch`) and are None until they are known.
"""

import msgspec

from millstream.server.live.readers import LiveReaders
from millstream.server.telemetry.engine_metrics import SizeWatch
from millstream.server.telemetry.history import COLUMNS, EVERY_MS, KEPT_MS, History, Sample
from millstream.server.telemetry.metrics import BUILD, Metrics
from millstream.store.base import Store


class ServerFacts(msgspec.Struct, frozen=True, rename="camel"):
    """The server, as it is now; totals are since its start."""

    version: str
    python: str
    store: str
    durability: str | None
    started_ms: int
    uptime_seconds: int
    streams: int
    live_readers: int
    store_bytes: int | None
    free_bytes: int | None
    appends: int
    appended_bytes: int
    reads: int
    refused: int
    failed: int


class Overview:
    """Facts and history of one server."""

    def __init__(self, live: LiveReaders, metrics: Metrics, sizes: SizeWatch, started_ms: int) -> None:
        self._live = live
        self._store: Store = live.store
        self._metrics = metrics
        self._sizes = sizes
        self._started_ms = started_ms
        self.history = History(self._sample)

    def facts(self, now_ms: int) -> bytes:
        """Give the facts as JSON."""
        metrics, settings = self._metrics, self._live.settings
        has_disk = self._store.measures is not None
        sizes = self._sizes.latest(wait_s=0) if has_disk else None
        facts = ServerFacts(
            version=BUILD["version"],
            python=BUILD["python"],
            store=settings.store,
            durability=settings.durability if has_disk else None,
            started_ms=self._started_ms,
            uptime_seconds=max(0, now_ms - self._started_ms) // 1000,
            streams=self._store.count_streams(),
            live_readers=self._live_readers(),
            store_bytes=sizes.store_bytes if sizes is not None else None,
            free_bytes=sizes.free_bytes if sizes is not None else None,
            appends=metrics.appends,
            appended_bytes=metrics.appended_bytes,
            reads=metrics.reads,
            refused=metrics.refused,
            failed=metrics.failed,
        )
        return msgspec.json.encode(facts)

    def samples(self, after_ms: int, now_ms: int) -> bytes:
        """Give the samples that were taken after a time, and the numbers of now, as JSON."""
        samples = self.history.since(after_ms, now_ms)
        page = {"everyMs": EVERY_MS, "keptMs": KEPT_MS, "columns": COLUMNS, "samples": samples}
        return msgspec.json.encode(page)

    def _sample(self, now_ms: int) -> Sample:
        metrics, measures = self._metrics, self._store.measures
        return Sample(
            at_ms=now_ms,
            appends=metrics.appends,
            appended_bytes=metrics.appended_bytes,
            reads=metrics.reads,
            live_readers=self._live_readers(),
            syncs=sum(measures.sync_s.counts) if measures is not None else None,
            sync_seconds=measures.sync_s.sum if measures is not None else None,
        )

    def _live_readers(self) -> int:
        return len(self._live.feeds) + len(self._live.polls)
