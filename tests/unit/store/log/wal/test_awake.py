"""Staying awake: only for a writer that is quick, and never for long."""

import time
from collections.abc import Callable

import pytest

from millstream.store.log.wal import awake
from millstream.store.log.wal.awake import Awake

QUICK_S = 0.00005
SLOW_S = 0.01


class Turns:
    """Turns of a loop, taken one by one."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def take_turns(self) -> int:
        count = 0
        while self.calls:
            count += 1
            self.calls.pop(0)()
        return count


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    monkeypatch.setattr(awake, "_cores", lambda: 2)
    return Turns()


def test_a_writer_that_comes_back_at_once_is_looked_out_for_until_patience_ends(turns: Turns) -> None:
    loop = Awake(turns.call_soon)
    now_s = time.monotonic()
    loop.answered(now_s, now_s)
    assert not turns.calls  # the first time nobody knows how quick it is
    loop.answered(now_s + QUICK_S, now_s + QUICK_S)
    loop.answered(now_s + 2 * QUICK_S, now_s + 2 * QUICK_S)
    assert len(turns.calls) == 1  # one lookout is enough
    assert turns.take_turns() >= 1
    assert time.monotonic() >= now_s + 2 * QUICK_S + awake._PATIENCE_S


def test_a_slow_writer_lets_the_loop_sleep(turns: Turns) -> None:
    loop = Awake(turns.call_soon)
    now_s = time.monotonic()
    for number in range(3):
        loop.answered(now_s + number * SLOW_S, now_s + number * SLOW_S)
    assert not turns.calls


def test_a_single_core_is_left_to_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awake, "_cores", lambda: 1)
    turns = Turns()
    loop = Awake(turns.call_soon)
    loop.answered(0.0, 0.0)
    loop.answered(QUICK_S, QUICK_S)
    assert not turns.calls
