"""The listener that reports the queries of a session."""

import threading
from pathlib import Path

from millstream.spark.metrics import Exposition, MetricsListener
from spark.queries import Recorder, Streams

PATIENCE_S = 60


def test_a_listener_counts_what_queries_read(streams: Streams, tmp_path: Path) -> None:
    ended = threading.Event()

    class Ended(MetricsListener):
        def onQueryTerminated(self, event) -> None:
            super().onQueryTerminated(event)
            ended.set()

    streams.create("in", messages=[{"n": n} for n in range(30)])
    metrics = Exposition()
    listener = Ended(metrics, {"job": "test"})
    streams.spark.streams.addListener(listener)
    try:
        Recorder(tmp_path / "checkpoint").run(streams.following("in", maxRowsPerTrigger=20))
        assert ended.wait(PATIENCE_S), "the last event has come"
    finally:
        streams.spark.streams.removeListener(listener)
    found = {line.partition("{")[0]: line.rsplit(" ")[-1] for line in metrics.text().splitlines()}
    assert found["millstream_pipeline_rows_total"] == "30"
    assert found["millstream_pipeline_batches_total"] == "2"
    assert found["millstream_pipeline_lag_bytes"] == "0"
    assert found["millstream_pipeline_running"] == "0"
    assert metrics.text().count('job="test"') > 5
