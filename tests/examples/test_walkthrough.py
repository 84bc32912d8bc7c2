"""The walk-through prints what it says that it prints."""

import sys

import pytest

from examples.conftest import EXAMPLES, SPARK_TIMEOUT_S, needs_java, run_spark
from running import Server

pytestmark = [needs_java, pytest.mark.timeout(SPARK_TIMEOUT_S + 20)]


def test_every_cell_prints_what_stands_below_it(server: Server) -> None:
    script = EXAMPLES / "walkthrough.py"
    lines = script.read_text().splitlines()
    promised = [line.removeprefix("# > ") for line in lines if line.startswith("# > ")]
    assert len(promised) > 10
    assert run_spark([sys.executable, str(script), server.url]).splitlines() == promised
