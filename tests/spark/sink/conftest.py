"""Sinks to write to with the one Spark of all tests."""

from pathlib import Path

import pytest

from spark.queries import Streams
from spark.sink.sinks import Sinks


@pytest.fixture
def sinks(streams: Streams, tmp_path: Path) -> Sinks:
    return Sinks(streams, tmp_path)
