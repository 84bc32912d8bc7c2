"""The source and the sink on Spark Connect; `make torture` has pipelines there, and a standalone cluster."""

import shutil
from pathlib import Path

import pytest

from spark.elsewhere.places import JOB_TIMEOUT_S, on_connect

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: openjdk-17-jre-headless"),
    pytest.mark.timeout(JOB_TIMEOUT_S + 150),
]


def test_a_job_reads_and_writes_in_every_way_on_spark_connect(tmp_path: Path) -> None:
    assert "0 lost, 0 doubled" in on_connect(tmp_path, with_pipelines=False)
