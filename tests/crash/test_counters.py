"""A counter in a stream: raised by eight programs through kills, it ends at its exact sum (rule X6)."""

from pathlib import Path

import pytest

from crash.counters import count_through_kills


@pytest.mark.timeout(180)
def test_a_counter_ends_at_its_exact_sum(tmp_path: Path) -> None:
    print(count_through_kills(tmp_path, 12, seed=1, kills=8))
