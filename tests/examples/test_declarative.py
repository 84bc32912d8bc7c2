"""The declarative pipeline, run twice as a user runs it: the second run takes what is new, once."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pyspark
import pytest

from examples.conftest import EXAMPLES, SPARK_TIMEOUT_S, needs_java, run, run_spark
from millstream import stream
from running import Server

SPARK_PIPELINES = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"

pytestmark = [needs_java, pytest.mark.timeout(2 * SPARK_TIMEOUT_S + 60)]

Reading = tuple[str, datetime, float]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy, because a run leaves tables and a catalog beside the project."""
    copy = tmp_path / "declarative"
    shutil.copytree(EXAMPLES / "declarative", copy)
    spec = copy / "spark-pipeline.yml"
    text = spec.read_text()
    assert "file:///tmp/millstream-sensors" in text
    spec.write_text(text.replace("file:///tmp/millstream-sensors", (tmp_path / "storage").as_uri()))
    return copy


def spark_pipelines(project: Path, server: Server) -> None:
    command = [str(SPARK_PIPELINES), "--conf", "spark.sql.catalogImplementation=hive", "run"]
    # SPARK_TESTING, set at all, makes Spark take a free port instead of 15002.
    environment = {"MILLSTREAM_URL": server.url, "SPARK_TESTING": "0"}
    run_spark(command, cwd=project, environment=environment)


def rows(project: Path, table: str) -> list[dict[str, Any]]:
    files = (project / "spark-warehouse" / table).glob("*.parquet")
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


def key(reading: dict[str, Any]) -> Reading:
    at = reading["at"]  # text in a stream, a time without a zone in Parquet
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at.replace(tzinfo=UTC)
    return reading["sensor"], moment, reading["celsius"]


def test_two_runs_bring_every_reading_once_to_the_table_and_to_the_stream(
    project: Path, server: Server
) -> None:
    for day in range(2):
        assert run("declarative/feed.py", server.url, str(day)).count("100 readings") == 3
        spark_pipelines(project, server)
        fed = []
        for sensor in ("cellar", "kitchen", "roof"):
            with stream(f"{server.url}/sensors/{sensor}", live=False) as response:
                fed += [key({"sensor": sensor, **one}) for one in response.iter_json()]
        assert len(fed) == 300 * (day + 1)
        assert sorted(map(key, rows(project, "readings"))) == sorted(fed)
        with stream(f"{server.url}/alerts", live=False) as response:
            assert sorted(map(key, response.iter_json())) == sorted(one for one in fed if one[2] > 30)
        assert sorted(map(str, rows(project, "by_sensor"))) == sorted(
            str({"sensor": name, "readings": len(found), "hottest": max(found)})
            for name in ("cellar", "kitchen", "roof")
            for found in [[celsius for sensor, _, celsius in fed if sensor == name]]
        )
