"""Turns of background work: after the requests that are there, never long, and none when somebody waits."""

import asyncio
import threading
import time
from collections.abc import Callable

from millstream.store.log import pace
from millstream.store.log.pace import CallOnLoop, Turns

PATIENCE_S = 20.0


class Clock:
    """A clock that goes on when something works."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def read_s(self) -> float:
        return self.now_s


class Worker:
    """A thread that works and asks for turns, and counts what it has done."""

    def __init__(
        self, call_on_loop: CallOnLoop, items: int, is_urgent: Callable[[], bool] = lambda: False
    ) -> None:
        self.done = 0
        self._clock = Clock()
        self._turns = Turns(call_on_loop, is_urgent, self._clock.read_s)
        self._items = items
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        for _ in range(self._items):
            self._turns.rest()
            self.done += 1
            self._clock.now_s += 0.0001


def until(condition: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends_s
        time.sleep(0.001)


def test_it_works_when_the_event_loop_gives_it_a_turn() -> None:
    asked: list[Callable[[], None]] = []
    worker = Worker(asked.append, items=20)
    for turn in range(1, 4):
        until(lambda turn=turn: len(asked) == turn)  # type: ignore[misc]  # bound now
        assert worker.done == 5 * turn, "half a millisecond of work"
        asked[-1]()
    until(lambda: worker.done == 20)
    worker.thread.join(PATIENCE_S)
    assert len(asked) == 3


def test_a_little_work_is_not_interrupted() -> None:
    asked: list[Callable[[], None]] = []
    Worker(asked.append, items=5).thread.join(PATIENCE_S)
    assert asked == []


def test_waiting_for_a_disk_is_not_work() -> None:
    asked: list[Callable[[], None]] = []

    def work() -> None:
        turns = Turns(asked.append, lambda: False)
        for _ in range(5):
            turns.rest()
            time.sleep(2 * pace._WORK_S)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE_S)
    assert asked == []


def test_urgent_work_does_not_wait() -> None:
    asked: list[Callable[[], None]] = []
    Worker(asked.append, items=1_000, is_urgent=lambda: True).thread.join(PATIENCE_S)
    assert asked == []


def test_it_goes_on_by_itself_when_no_event_loop_answers() -> None:
    asked: list[Callable[[], None]] = []
    worker = Worker(asked.append, items=1_000)
    worker.thread.join(PATIENCE_S)
    assert worker.done == 1_000
    assert len(asked) == 1, "it asks once, and then knows"
    asked[0]()  # too late: it gives nobody a turn, and waits for nobody


def test_the_event_loop_does_not_wait_for_a_thread_that_waits_for_a_disk() -> None:
    """And a turn that took long is followed by others that the event loop waits for."""
    slow, ended = threading.Event(), threading.Event()
    waits_s: list[float] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        given_twice = asyncio.Event()

        def call_on_loop(give: Callable[[], None]) -> None:
            def timed() -> None:
                begun_s = loop.time()
                give()
                waits_s.append(loop.time() - begun_s)
                if len(waits_s) == 2:
                    given_twice.set()

            loop.call_soon_threadsafe(timed)

        def work() -> None:
            turns = Turns(call_on_loop, lambda: False, time.monotonic)
            turns.rest()
            for item in range(4):
                time.sleep(pace._WORK_S)
                turns.rest()
                if item == 1:
                    slow.wait(PATIENCE_S)
            ended.set()

        job = loop.run_in_executor(None, work)
        await given_twice.wait()
        assert not ended.is_set(), "the loop goes on while the thread waits"
        slow.set()
        await job
        assert len(waits_s) == 4

    asyncio.run(run())
