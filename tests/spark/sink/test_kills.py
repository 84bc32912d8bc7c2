"""The short form of the kill loop of drivers.

`make torture` has the long one, and those of executors on a cluster, of dedup and of replay. What these do
with a batch that a death has left half done is tested without a death, in the Spark that all tests share.
"""

import shutil
from pathlib import Path

import pytest

from spark.sink.kills import kill_drivers

TIMEOUT_S = 900

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None, reason="Spark needs Java: apt-get install openjdk-17-jre-headless"
)


@pytest.mark.timeout(TIMEOUT_S)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Its tasks fail at their first attempt, too."""
    assert "0 lost, 0 doubled" in kill_drivers(tmp_path, kills=1)
