"""Subscriptions on a server that is killed: at least once, never back, nobody who is fenced (S1, S4)."""

from pathlib import Path

import pytest

from crash.deliveries import deliver_through_kills
from millstream.store.log import failpoints
from millstream.store.log.tools.check import verify

AT_A_DELIVERY = [name for name in failpoints.NAMES if name.startswith("delivery")]


def test_kills_at_any_time(tmp_path: Path) -> None:
    print(deliver_through_kills(tmp_path, 4))
    assert verify(tmp_path).is_sound


@pytest.mark.parametrize("failpoint", AT_A_DELIVERY)
def test_kills_at_each_step_of_a_delivery(tmp_path: Path, failpoint: str) -> None:
    print(deliver_through_kills(tmp_path, 2, failpoint=failpoint))
    assert verify(tmp_path).is_sound
