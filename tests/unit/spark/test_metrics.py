"""Metrics as Prometheus text, at a port and in a file."""

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from millstream.spark.metrics import CONTENT_TYPE, Exposition
from millstream.spark.options import OptionError
from millstream.spark.pipelines.running import Progress

PROGRESS = Progress(
    batch=3,
    batch_rows=5,
    rows=20,
    batches=4,
    dead_letters=2,
    late_rows=1,
    expectations={"positive": 6},
    lag_bytes=81920,
    seconds=2.5,
)


def samples(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_each_metric_is_described_once_and_has_a_sample_for_each_query() -> None:
    metrics = Exposition()
    for query in ("a", 'b"\\'):
        metrics.begin(query, {"query": query})
        metrics.update(query, PROGRESS)
    metrics.end("a")
    text = metrics.text()
    found = samples(text)
    assert found['millstream_pipeline_rows_total{query="a"}'] == "20"
    assert found['millstream_pipeline_lag_bytes{query="b\\"\\\\"}'] == "81920"
    assert found['millstream_pipeline_unmet_expectations_total{query="a",rule="positive"}'] == "6"
    assert found['millstream_pipeline_late_rows_total{query="a"}'] == "1"
    assert found['millstream_pipeline_running{query="a"}'] == "0"
    names = re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", text, re.MULTILINE)
    assert len(names) == len(set(names)) == text.count("# HELP ")
    assert {name.partition("{")[0] for name in found} == set(names)


def test_what_is_not_known_has_no_sample() -> None:
    metrics = Exposition()
    metrics.begin("a", {})
    assert samples(metrics.text()) == {"millstream_pipeline_running{}": "1"}
    metrics.update("another", PROGRESS)
    assert samples(metrics.text()) == {"millstream_pipeline_running{}": "1"}


def test_a_port_serves_the_metrics() -> None:
    with Exposition("127.0.0.1:0") as metrics:
        metrics.begin("a", {"query": "a"})
        url = f"http://127.0.0.1:{metrics.port}"
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            assert answer.read().decode() == metrics.text()
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"{url}/other", timeout=30)
        refused.value.close()
        with pytest.raises(OptionError, match="cannot be served"):
            Exposition(f":{metrics.port}")


def test_a_file_has_the_last_batch(tmp_path: Path) -> None:
    file = tmp_path / "archive.prom"
    with Exposition(str(file)) as metrics:
        metrics.begin("a", {"pipeline": "archive"})
        metrics.update("a", PROGRESS)
        assert file.read_text() == metrics.text()
    assert [path.name for path in tmp_path.iterdir()] == ["archive.prom"]


@pytest.mark.parametrize("place", ["nowhere/at/all.prom", "127.0.0.1:99999"])
def test_a_place_that_cannot_be_is_refused(place: str) -> None:
    with pytest.raises(OptionError, match="option metrics"):
        Exposition(place)


def test_only_the_last_queries_are_remembered() -> None:
    metrics = Exposition()
    for number in range(1100):
        metrics.begin(str(number), {"query": str(number)})
    assert len(samples(metrics.text())) == 1000
