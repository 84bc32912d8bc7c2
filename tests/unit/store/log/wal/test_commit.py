"""The committer: who syncs, in which order outcomes are told, and how many in one turn of the loop."""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable

import pytest

from millstream.store.log.wal.commit import Committed, CommitThread, Failed, Full, Outcome
from millstream.store.log.wal.company import Company


class StubLog:
    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.next_lsn = 1
        self.has_begun = True
        self.seconds = 0.0
        self.writer: threading.Thread | None = None
        self.gate = threading.Event()
        self.batches: list[int] = []

    def write(self, records: list[bytes]) -> None:
        self.gate.wait(10)
        self.writer = threading.current_thread()
        time.sleep(self.seconds)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.next_lsn += len(records)
        self.batches.append(len(records))


class AtOnce:
    """A loop whose every turn ends at once, on whatever thread."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)
        if len(self.calls) == 1:
            while self.calls:
                self.calls[0]()
                del self.calls[0]

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        call()


NOBODY = Company(lambda: 0)


def _thread(log: StubLog, *, is_quick: bool = False) -> tuple[CommitThread, list[Outcome]]:
    outcomes: list[Outcome] = []
    log.has_begun = is_quick
    return CommitThread(log, outcomes.append, AtOnce(), NOBODY), outcomes  # type: ignore[arg-type]


def test_stopping_behind_a_batch_that_fails_does_not_hang() -> None:
    log = StubLog(OSError(28, "full"))
    thread, outcomes = _thread(log)
    thread.submit(b"a")
    stopper = threading.Thread(target=thread.stop)
    stopper.start()
    log.gate.set()
    stopper.join(5)
    assert not stopper.is_alive()
    assert outcomes == [Full()]


@pytest.mark.parametrize("is_quick", [False, True])
def test_what_was_queued_on_a_full_disk_is_dropped_until_it_is_resumed(is_quick: bool) -> None:
    log = StubLog(OSError(28, "full"))
    thread, outcomes = _thread(log, is_quick=is_quick)
    log.gate.set()
    thread.submit(b"a")
    while not outcomes:
        pass
    thread.submit(b"b")
    thread.resume()
    thread.submit(b"c")
    thread.stop()
    assert outcomes == [Full(), Committed(1)]


@pytest.mark.parametrize("is_quick", [False, True])
@pytest.mark.parametrize("error", [OSError(5, "broken"), MemoryError(), ValueError("odd")])
def test_whatever_goes_wrong_is_reported(error: Exception, is_quick: bool) -> None:
    log = StubLog(error)
    thread, outcomes = _thread(log, is_quick=is_quick)
    log.gate.set()
    thread.submit(b"a")
    thread.stop()
    assert [type(outcome) for outcome in outcomes] == [Failed]


@pytest.mark.parametrize(
    ("is_quick", "seconds", "place"),
    [
        (True, 0.0, "the loop"),
        (False, 0.0, "the thread"),  # a segment has to begin first
        (True, 0.3, "the thread"),  # the disk has just been slow
    ],
)
def test_a_lone_record_is_committed_on_the_loop_while_the_disk_is_quick(
    is_quick: bool, seconds: float, place: str
) -> None:
    log = StubLog()
    thread, outcomes = _thread(log, is_quick=is_quick)
    log.gate.set()
    log.seconds = seconds
    thread.submit(b"a")
    while not outcomes:
        pass
    thread.submit(b"b")
    thread.stop()
    assert outcomes == [Committed(1), Committed(2)]
    assert (log.writer is threading.current_thread()) is (place == "the loop")


def test_an_action_that_fails_is_reported() -> None:
    log = StubLog()
    thread, outcomes = _thread(log)
    log.gate.set()

    def act() -> None:
        raise OSError(5, "broken")

    thread.call(act)
    thread.stop()
    assert outcomes == [Failed("[Errno 5] broken")]


# -- Alone and in company --------------------------------------------------------------------------------


class Turns:
    """A loop whose turns a test ends."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self.call_soon = self.call_soon_threadsafe = self._calls.append

    def end(self) -> None:
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def wait(self) -> None:
        """Wait until another thread wants something."""
        give_up_s = time.monotonic() + 10
        while not self._calls:
            assert time.monotonic() < give_up_s
            time.sleep(0.001)


class Readers:
    """Somebody who reads all the time, while he is there."""

    def __init__(self, *, are_there: bool) -> None:
        self.are_there = are_there
        self._reads = 0

    def count(self) -> int:
        self._reads += self.are_there
        return self._reads


class Rig:
    """A commit thread between a quick disk, a loop in the test's hands and readers."""

    def __init__(self, *errors: Exception | None, reading: bool) -> None:
        self.log = StubLog(*errors)
        self.log.gate.set()
        self.turns = Turns()
        self.readers = Readers(are_there=reading)
        self.outcomes: list[Outcome] = []
        company = Company(self.readers.count)
        self.thread = CommitThread(self.log, self.outcomes.append, self.turns, company)  # type: ignore[arg-type]

    def submit(self, count: int) -> None:
        """Submit records in one turn, and end it."""
        for _ in range(count):
            self.thread.submit(b"a")
        self.turns.end()

    def told(self) -> list[Outcome]:
        """End a turn, and give what was told in it."""
        before = len(self.outcomes)
        self.turns.wait()
        self.turns.end()
        return self.outcomes[before:]


def test_while_nobody_reads_a_quick_disk_is_waited_for_on_the_loop() -> None:
    rig = Rig(reading=False)
    rig.submit(20)
    assert rig.outcomes == [Committed(20)]
    assert rig.log.writer is threading.current_thread()
    rig.thread.stop()


def test_in_company_the_thread_waits_for_the_disk_and_a_turn_has_a_few_answers() -> None:
    rig = Rig(reading=True)
    rig.submit(20)
    assert [rig.told(), rig.told(), rig.told()] == [[Committed(8)], [Committed(16)], [Committed(20)]]
    assert rig.log.writer is not threading.current_thread()
    rig.thread.stop()


def test_a_lone_record_is_committed_on_the_loop_in_company_too() -> None:
    rig = Rig(reading=True)
    rig.submit(1)
    assert rig.outcomes == [Committed(1)]
    assert rig.log.writer is threading.current_thread()
    rig.thread.stop()


@pytest.mark.parametrize(
    ("reading", "later_s", "place"),
    [
        (True, 0.15, "the thread"),
        (True, 0.25, "the loop"),
        (False, 0.015, "the thread"),
        (False, 0.025, "the loop"),
    ],
)
def test_after_a_stall_the_thread_has_everything_for_a_while_and_longer_in_company(
    monkeypatch: pytest.MonkeyPatch, reading: bool, later_s: float, place: str
) -> None:
    rig = Rig(reading=reading)
    turn_write_end = [100.0, 100.0, 100.02]
    afterwards = itertools.count(100.02 + later_s, 0.0001)
    clock = itertools.chain(turn_write_end, afterwards)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    rig.submit(1)  # which takes 20 ms
    rig.submit(1)
    rig.thread.stop()
    assert (rig.log.writer is threading.current_thread()) is (place == "the loop")


def test_what_comes_meanwhile_is_told_afterwards() -> None:
    rig = Rig(reading=True)
    rig.submit(20)
    assert rig.told() == [Committed(8)]
    rig.submit(1)  # which is not overtaking, although the disk is quick
    while rig.outcomes[-1] != Committed(21):
        rig.told()
    assert rig.outcomes == [Committed(8), Committed(16), Committed(20), Committed(21)]
    rig.thread.stop()


def test_when_the_company_leaves_the_rest_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(reading=True)
    rig.submit(20)
    assert rig.told() == [Committed(8)]
    rig.readers.are_there = False
    later_s = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later_s)
    assert rig.told() == [Committed(20)]
    rig.thread.stop()


def test_a_failure_is_told_after_what_was_durable_before_it() -> None:
    rig = Rig(None, OSError(28, "full"), reading=True)
    rig.submit(20)
    rig.turns.wait()
    rig.submit(20)
    while not rig.outcomes or rig.outcomes[-1] != Full():
        rig.told()
    assert rig.outcomes == [Committed(8), Committed(16), Committed(20), Full()]
    rig.thread.stop()


def test_who_stops_is_told_everything_at_once() -> None:
    rig = Rig(reading=True)
    rig.submit(20)
    rig.turns.wait()
    rig.turns.end()
    rig.thread.submit(b"a")
    rig.thread.stop()
    rig.turns.end()
    assert rig.outcomes[-1] == Committed(21)


def test_a_turn_that_was_handed_over_before_its_end_writes_nothing_more() -> None:
    rig = Rig(reading=False)
    done = threading.Event()
    rig.thread.submit(b"a")
    rig.thread.call(done.set)
    assert done.wait(10)
    rig.turns.end()
    rig.turns.end()
    rig.thread.stop()
    assert rig.log.batches == [1]


def test_an_error_while_one_outcome_is_told_does_not_keep_back_the_next() -> None:
    rig = Rig(reading=True)
    told = rig.outcomes.append

    def report(outcome: Outcome) -> None:
        if outcome == Committed(20):
            raise ValueError("whatever")
        told(outcome)

    rig.thread._report = report
    rig.submit(20)
    assert [rig.told(), rig.told()] == [[Committed(8)], [Committed(16)]]
    with pytest.raises(ValueError, match="whatever"):
        rig.told()
    rig.submit(1)
    assert rig.outcomes[-1] == Committed(21)
    rig.thread.stop()
