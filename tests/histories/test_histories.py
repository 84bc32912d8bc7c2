"""Several clients at once, and a server that dies: one log explains what all of them were told."""

import os
from pathlib import Path

import pytest

from histories.histories import check_histories

HISTORIES = int(os.environ.get("MILLSTREAM_HISTORIES", "4"))


@pytest.mark.timeout(60 + 10 * HISTORIES)
def test_one_log_explains_what_everybody_was_told(tmp_path: Path) -> None:
    print(check_histories(tmp_path, range(HISTORIES), clients=8, steps=60))


@pytest.mark.timeout(60 + 10 * HISTORIES)
def test_compare_and_append_is_a_register(tmp_path: Path) -> None:
    """X6: one log explains who won each offset, and which tail everybody else was told."""
    print(check_histories(tmp_path, range(HISTORIES), clients=8, steps=60, compares=True))
