"""Spark's source and sink on servers over PostgreSQL: what one server takes, the other one gives."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from postgres.cluster import shared
from postgres.servers import several
from spark.queries import Recorder, Streams
from spark.sink.sinks import Sinks

ROWS = 300


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """Two servers over one database."""
    cluster = shared()
    with several(cluster.url(cluster.new_schema()), 2) as servers:
        yield [server.url for server in servers]


@pytest.fixture
def folders(spark: SparkSession, urls: list[str]) -> list[Streams]:
    """The same folder, on each of the servers."""
    folder = f"spark/{uuid.uuid4()}"
    return [Streams(spark, url, folder) for url in urls]


def test_a_query_follows_what_is_appended_through_another_server(
    folders: list[Streams], tmp_path: Path
) -> None:
    writing, reading = folders
    log = writing.create("log", messages=[{"n": n} for n in range(ROWS)])
    recorder = Recorder(tmp_path).run(reading.following("log", maxRowsPerTrigger=ROWS // 2))
    log.append_all([{"n": ROWS + n} for n in range(ROWS)])
    recorder.run(reading.following("log"))
    assert [json.loads(value)["n"] for value in recorder.values] == list(range(2 * ROWS))


@pytest.mark.parametrize("commit", ["parts", "producer"])
def test_a_repeated_batch_counts_once_through_another_server(
    folders: list[Streams], tmp_path: Path, commit: str
) -> None:
    folders[0].create("in", messages=[{"n": n} for n in range(ROWS)])
    for streams in folders:
        sinks = Sinks(streams, tmp_path)
        sinks.run(streams.following("in").select("value"), commit=commit)
        sinks.forget_last_batch()
    for streams in folders:
        assert sorted(Sinks(streams, tmp_path).ns()) == list(range(ROWS))
