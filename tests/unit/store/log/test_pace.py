"""Rests of background work: as long as the work, not for nothing, and not when somebody waits for it."""

from collections.abc import Callable

import pytest

from millstream.store.log.pace import resting


class Clock:
    """A clock that goes on when something works or sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept_s: list[float] = []

    def read_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds


def work(clock: Clock, items: int, each_s: float, is_urgent: Callable[[], bool] = lambda: False) -> None:
    rest = resting(clock.sleep, is_urgent, clock.read_s)
    for _ in range(items):
        rest()
        clock.now_s += each_s


def test_it_rests_as_long_as_it_has_worked() -> None:
    clock = Clock()
    work(clock, items=10_000, each_s=0.00001)
    assert sum(clock.slept_s) == pytest.approx(0.1, rel=0.01)
    assert all(0.0002 <= rest_s < 0.0003 for rest_s in clock.slept_s)


def test_a_little_work_is_not_interrupted() -> None:
    clock = Clock()
    work(clock, items=10, each_s=0.00001)
    assert clock.slept_s == []


def test_after_an_item_that_waited_for_the_disk_it_rests_no_longer_than_two_milliseconds() -> None:
    clock = Clock()
    work(clock, items=3, each_s=1.0)
    assert clock.slept_s == [0.002, 0.002]


def test_urgent_work_does_not_rest() -> None:
    clock = Clock()
    work(clock, items=1_000, each_s=0.001, is_urgent=lambda: clock.now_s > 100.5)
    assert len(clock.slept_s) > 0
    assert sum(clock.slept_s) < 0.51
