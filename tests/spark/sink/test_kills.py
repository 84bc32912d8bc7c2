"""The short forms of the kill loops; `make torture` has the long ones."""

import shutil
from pathlib import Path

import pytest

from spark.sink.kills import kill_dedup, kill_drivers, kill_executors

TIMEOUT_S = 900

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None, reason="Spark needs Java: apt-get install openjdk-17-jre-headless"
)


@pytest.mark.timeout(TIMEOUT_S)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    assert "0 lost, 0 doubled" in kill_drivers(tmp_path, kills=1)


@pytest.mark.timeout(TIMEOUT_S)
def test_a_dedup_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    assert "0 lost, 0 doubled" in kill_dedup(tmp_path, kills=1)


@pytest.mark.timeout(TIMEOUT_S)
def test_executors_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    """On a real cluster, with tasks that fail and tasks that are doubled by speculation."""
    assert "0 lost, 0 doubled" in kill_executors(tmp_path, kills=1)
