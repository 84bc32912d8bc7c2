"""Streams to run pipelines on, with the one Spark of all tests."""

from pathlib import Path

import pytest

from spark.pipelines.pipes import Pipes
from spark.queries import Streams


@pytest.fixture
def pipes(streams: Streams, tmp_path: Path) -> Pipes:
    return Pipes(streams, tmp_path)
