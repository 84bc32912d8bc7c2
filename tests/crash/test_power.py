"""The power goes, and what was acknowledged is on the disk."""

import os
from pathlib import Path

import pytest

from crash.power import power_cuts, why_not

CUTS = int(os.environ.get("MILLSTREAM_POWER_CUTS", "4"))


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.timeout(60 + 3 * CUTS)
def test_nothing_is_lost_when_the_power_is_cut(tmp_path: Path, kind: str) -> None:
    if reason := why_not(kind):
        pytest.skip(reason)
    print(power_cuts(tmp_path, CUTS, kind))
