"""The committer: the thread syncs, a turn is one batch, and outcomes are reported in order."""

import threading
import time
from collections import deque
from collections.abc import Callable

import pytest

from millstream.store.log.wal.commit import CommitThread, Durable, Failed, Full, Outcome

PATIENCE_S = 60


class StubLog:
    """A log that counts batches; the gate is a disk that hangs until it is opened."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.next_lsn = 1
        self.writer: threading.Thread | None = None
        self.is_writing = threading.Event()
        self.gate = threading.Event()
        self.batches: list[int] = []

    def write(self, records: list[bytes]) -> None:
        self.is_writing.set()
        assert self.gate.wait(PATIENCE_S)
        self.writer = threading.current_thread()
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.next_lsn += len(records)
        self.batches.append(len(records))


class Loop:
    """An event loop whose turns a test ends."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self.call_soon = self.call_soon_threadsafe = self._calls.append

    def end_turn(self) -> None:
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def wait(self) -> None:
        """Wait until the thread has something to report, and let the loop hear of it."""
        give_up_s = time.monotonic() + PATIENCE_S
        while not self._calls:
            assert time.monotonic() < give_up_s
            time.sleep(0.001)
        self.end_turn()


class Rig:
    """A commit thread between a stub log and a loop in the test's hands."""

    def __init__(self, *errors: Exception | None, is_open: bool = True) -> None:
        self.log = StubLog(*errors)
        if is_open:
            self.log.gate.set()
        self.loop = Loop()
        self.outcomes: list[Outcome] = []
        self.thread = CommitThread(self.log, self.outcomes.append, self.loop)  # type: ignore[arg-type]

    def submit(self, count: int = 1) -> None:
        """Submit records in one turn, and end it."""
        for _ in range(count):
            self.thread.submit(b"a")
        self.loop.end_turn()

    def stop(self) -> list[Outcome]:
        """Stop the thread, and give everything that was reported."""
        self.log.gate.set()
        self.thread.stop()
        give_up_s = time.monotonic() + PATIENCE_S
        while self.thread.is_running:
            assert time.monotonic() < give_up_s
            time.sleep(0.001)
        self.loop.end_turn()
        return self.outcomes


def test_the_records_of_a_turn_are_one_batch() -> None:
    rig = Rig()
    rig.submit(20)
    assert rig.stop() == [Durable(20)]
    assert rig.log.batches == [20]


def test_the_event_loop_never_waits_for_the_disk() -> None:
    rig = Rig(is_open=False)
    rig.submit()
    assert rig.log.is_writing.wait(PATIENCE_S)
    rig.submit(5)  # which returns, although the disk hangs
    assert rig.outcomes == []
    assert rig.stop() == [Durable(1), Durable(6)]
    assert rig.log.writer is not threading.current_thread()


def test_what_is_queued_while_the_disk_is_busy_is_the_next_batch() -> None:
    rig = Rig(is_open=False)
    rig.submit()
    assert rig.log.is_writing.wait(PATIENCE_S)
    for _ in range(5):
        rig.submit(2)
    rig.stop()
    assert rig.log.batches == [1, 10]


def test_a_batch_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.store.log.wal.commit._MAX_BATCH_BYTES", 4)
    rig = Rig(is_open=False)
    rig.submit()
    assert rig.log.is_writing.wait(PATIENCE_S)
    for _ in range(5):
        rig.submit(2)
    rig.stop()
    assert rig.log.batches == [1, 4, 4, 2]


def test_an_action_runs_between_the_records_before_and_after_it() -> None:
    rig = Rig()
    found: list[int] = []
    rig.thread.submit(b"a")
    rig.thread.call(lambda: found.append(rig.log.next_lsn))
    rig.thread.submit(b"b")
    rig.loop.end_turn()
    assert rig.stop() == [Durable(1), Durable(2)]
    assert found == [2]


def test_a_turn_that_was_handed_over_before_its_end_writes_nothing_more() -> None:
    rig = Rig()
    done = threading.Event()
    rig.thread.submit(b"a")
    rig.thread.call(done.set)
    assert done.wait(PATIENCE_S)
    rig.loop.end_turn()
    rig.stop()
    assert rig.log.batches == [1]


# -- When something goes wrong ---------------------------------------------------------------------------


def test_stopping_after_a_batch_that_fails_does_not_hang() -> None:
    rig = Rig(OSError(28, "full"), is_open=False)
    rig.submit()
    rig.thread.stop()  # queued while the batch is being written
    assert rig.thread.is_running
    assert rig.stop() == [Full()]


def test_what_was_queued_on_a_full_disk_is_dropped_until_it_is_resumed() -> None:
    rig = Rig(OSError(28, "full"))
    rig.submit()
    rig.loop.wait()
    assert rig.outcomes == [Full()]
    rig.submit()
    rig.thread.resume()
    rig.submit()
    assert rig.stop() == [Full(), Durable(1)]


def test_an_action_that_was_queued_behind_a_failure_is_dropped() -> None:
    rig = Rig(OSError(28, "full"), is_open=False)
    called: list[None] = []
    rig.submit()
    rig.thread.call(lambda: called.append(None))
    assert rig.stop() == [Full()]
    assert not called


@pytest.mark.parametrize("error", [OSError(5, "broken"), MemoryError(), ValueError("odd")])
def test_whatever_goes_wrong_is_reported(error: Exception) -> None:
    rig = Rig(error)
    rig.submit()
    assert [type(outcome) for outcome in rig.stop()] == [Failed]


def test_a_failure_is_reported_after_what_was_durable_before_it() -> None:
    rig = Rig(None, OSError(28, "full"))
    rig.submit(20)
    rig.loop.wait()
    rig.submit(20)
    assert rig.stop() == [Durable(20), Full()]


def test_an_action_that_fails_is_reported() -> None:
    rig = Rig()

    def act() -> None:
        raise OSError(5, "broken")

    rig.thread.call(act)
    assert rig.stop() == [Failed("[Errno 5] broken")]


def test_an_error_while_one_outcome_is_reported_does_not_keep_back_the_next() -> None:
    rig = Rig()
    report = rig.outcomes.append

    def fail_once(outcome: Outcome) -> None:
        if outcome == Durable(1):
            raise ValueError("whatever")
        report(outcome)

    rig.thread._report = fail_once
    rig.submit()
    with pytest.raises(ValueError, match="whatever"):
        rig.loop.wait()
    rig.submit()
    assert rig.stop() == [Durable(2)]
