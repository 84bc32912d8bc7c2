"""Group commit: one write and one sync for everything that waits.

No timer: a lone writer waits for nobody. Batches form by themselves, of what one turn of the event loop
brings and of what is queued while the previous sync runs.

        records of one turn --+-- the thread is at work, or the disk is slow --> the thread, then the loop
                              |
                              +-- one, or several and nobody reads --> committed where they were submitted

A thread costs two wake-ups, which a lone writer on a quick disk notices (one append after the other:
222 us without the thread, 250 us with it). Many writers do, too: a thread of Python gets its turn when the
loop's ends, so what it does beside the loop is little (64 connections: 6 to 10 % more appends without it,
and as much with a disk half as quick). The price is that the loop waits for the disk. So it does only where
a sync usually takes no longer than a few wake-ups, and after one that took much longer the thread has
everything for ten times as long: the loop spends a tenth of its time in those at most. Where nobody has
read for ten seconds, everybody waits for the disk anyway; there it is once as long, and half of its time.
(Ten times would be too careful there: on a disk that hesitates for 5 to 200 ms about once a second, one
connection appended 24 % less, in 30 interleaved rounds, 2026-11-16.)

In company (`company`) it is the other way round: the thread syncs, and the answers to a batch go out a few in
each turn, so that a reader's turn comes soon. Beside 64 connections that append, half of all small reads
took 290 us without that and 245 with it, one of a hundred 1,440 and 950; appends became 8 % fewer. All
figures: 2 cores of an AMD EPYC, 2026-11-15.

What is on the disk at each step of a commit is drawn in `segments`.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Protocol

import msgspec

from millstream.store.log.disk import is_full
from millstream.store.log.wal.awake import Awake
from millstream.store.log.wal.company import Company
from millstream.store.log.wal.segments import Log

_MAX_BATCH_BYTES = 8 * 2**20
_QUICK_S = 0.0005
_STALLED_S = 0.005
_QUICK_BYTES = 64 * 2**10
_PROBATION = 10  # times as long as the stall
_PROBATION_ALONE = 1
_TOLD_AT_ONCE = 8


class Committed(msgspec.Struct, frozen=True):
    """Everything up to a record is durable."""

    lsn: int


class Full(msgspec.Struct, frozen=True):
    """The disk has no room: nothing of what waits was kept."""


class Failed(msgspec.Struct, frozen=True):
    """The disk failed: what waits may or may not be kept, and nothing more may be promised."""

    reason: str


Outcome = Committed | Full | Failed


class Committer(Protocol):
    """Makes records durable, in the order in which they come."""

    def submit(self, record: bytes) -> None:
        """Queue a record."""
        ...

    def call(self, action: Callable[[], None]) -> None:
        """Do something to the log between two batches, in its turn."""
        ...

    def resume(self) -> None:
        """Go on after a full disk; what was queued until now is dropped: it has been taken back."""
        ...

    def stop(self) -> None:
        """Commit what is queued, then stop."""
        ...


def outcome_of(error: BaseException) -> Full | Failed:
    """Say what a failed write means for those who wait."""
    if is_full(error):
        return Full()
    return Failed(str(error) or type(error).__name__)


def write_batch(log: Log, records: list[bytes]) -> Outcome:
    """Make records durable, and say what came of it."""
    try:
        log.write(records)
    except Exception as error:  # whatever it is, who waits must hear of it
        return outcome_of(error)
    return Committed(log.next_lsn - 1)


class _Signal(Enum):
    PARK = "park"
    RESUME = "resume"
    STOP = "stop"


_Records = list[bytes]
_Item = _Records | Callable[[], None] | _Signal


class Turns(Protocol):
    """The turns of an event loop."""

    def call_soon(self, call: Callable[[], None], /) -> object:
        """Call back at the end of this turn."""
        ...

    def call_soon_threadsafe(self, call: Callable[[], None], /) -> object:
        """Call back on the loop, from whatever thread; not if the loop is closed."""
        ...


class CommitThread:
    """A committer with a thread of its own; outcomes are reported on the loop.

    Records are handed over at the end of the turn that submits them: all of them at once, because waking
    the thread for the first would make it sync that one alone.
    """

    def __init__(self, log: Log, report: Callable[[Outcome], None], turns: Turns, company: Company) -> None:
        self._log = log
        self._report = report
        self._turns = turns
        self._company = company
        self._untold: deque[Outcome] = deque()
        self._told_lsn = log.next_lsn - 1
        self._goes_on = False  # telling them, in the next turn
        self._is_stopping = False
        self._turn: _Records = []
        self._handed = 0  # items that the thread has, and those whose outcome is on its way
        self._usual_s = 0.0  # what a write and its sync take
        self._stalled_s = self._stall_ended_s = 0.0
        self._awake = Awake(turns.call_soon)
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="millstream-commit", daemon=True)
        self._thread.start()

    def submit(self, record: bytes) -> None:
        """Queue a record."""
        self._turn.append(record)
        if len(self._turn) == 1:
            self._turns.call_soon(self._end_turn)

    def call(self, action: Callable[[], None]) -> None:
        """Do something to the log between two batches, in its turn."""
        self._hand_over()
        self._put(action)

    def resume(self) -> None:
        """Go on after a full disk."""
        self._hand_over()
        self._put(_Signal.RESUME)

    def stop(self) -> None:
        """Commit what is queued, then stop."""
        self._is_stopping = True
        self._hand_over()
        self._queue.put(_Signal.STOP)
        self._thread.join()

    # -- On the loop -----------------------------------------------------------------------------

    def _end_turn(self) -> None:
        began_s = time.monotonic()
        if self._may_wait(began_s):
            records, self._turn = self._turn, []
            outcome = self._write(records)
            if not isinstance(outcome, Committed):
                self._put(_Signal.PARK)
            self._tell(outcome)
            if len(records) == 1:
                self._awake.answered(began_s, time.monotonic())
        else:
            self._hand_over()

    def _may_wait(self, now_s: float) -> bool:
        """Tell whether the loop may wait for the disk itself."""
        is_free = not self._handed and not self._untold and self._log.has_begun
        is_quick = self._usual_s < _QUICK_S and not self._is_on_probation(now_s)
        is_small = sum(map(len, self._turn)) <= _QUICK_BYTES
        is_alone = len(self._turn) == 1 or not self._company.is_there(now_s)
        return is_free and is_quick and is_small and is_alone

    def _is_on_probation(self, now_s: float) -> bool:
        times = _PROBATION if self._company.may_return(now_s) else _PROBATION_ALONE
        return now_s < self._stall_ended_s + times * self._stalled_s

    def _hand_over(self) -> None:
        if self._turn:
            records, self._turn = self._turn, []
            self._put(records)

    def _put(self, item: _Item) -> None:
        self._handed += 1
        self._queue.put(item)

    def _hear(self, count: int, outcome: Outcome | None) -> None:
        self._handed -= count
        if outcome is not None:
            self._tell(outcome)

    def _tell(self, outcome: Outcome) -> None:
        self._untold.append(outcome)
        if not self._goes_on:
            self._tell_some()

    def _tell_some(self) -> None:
        """Report outcomes in their order; in company, of a few records in each turn."""
        self._goes_on = False
        while self._untold:
            outcome = self._untold[0]
            if isinstance(outcome, Committed):
                self._told_lsn = self._next_told(outcome.lsn)
                if self._told_lsn < outcome.lsn:
                    self._goes_on = True
                    self._turns.call_soon(self._tell_some)
                    self._report(Committed(self._told_lsn))
                    return
            self._untold.popleft()
            self._report(outcome)

    def _next_told(self, lsn: int) -> int:
        few = self._told_lsn + _TOLD_AT_ONCE
        is_considerate = few < lsn and not self._is_stopping and self._company.is_there(time.monotonic())
        return few if is_considerate else lsn

    # -- On either side, one at a time -----------------------------------------------------------

    def _write(self, records: _Records) -> Outcome:
        began_s = time.monotonic()
        outcome = write_batch(self._log, records)
        ended_s = time.monotonic()
        took_s = ended_s - began_s
        self._usual_s += (min(took_s, _STALLED_S) - self._usual_s) / 16
        if took_s > _STALLED_S:
            self._stalled_s, self._stall_ended_s = took_s, ended_s
        return outcome

    # -- On the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        following: _Item | None = None
        while True:
            item = following if following is not None else self._queue.get()
            following = None
            count = 1
            outcome: Outcome | None = None
            if isinstance(item, list):
                count, following = self._fill_up(item)
                outcome = self._write(item)
            elif item is _Signal.STOP:
                return
            elif not isinstance(item, _Signal):
                outcome = attempt(item)
            self._send(count, outcome)
            if item is _Signal.PARK or isinstance(outcome, Full | Failed):
                following = self._drop_queued(following)

    def _drop_queued(self, following: _Item | None) -> _Signal:
        """Drop what was queued since a failure: it builds on what is lost. Give the signal to go on."""
        while not isinstance(following, _Signal):
            if following is not None:
                self._send(1, None)
            following = self._queue.get()
        return following

    def _send(self, count: int, outcome: Outcome | None) -> None:
        self._turns.call_soon_threadsafe(partial(self._hear, count, outcome))

    def _fill_up(self, batch: _Records) -> tuple[int, _Item | None]:
        """Add what else is queued, up to a size; count, and give the first item that is not of records."""
        size = sum(map(len, batch))
        count = 1
        while size < _MAX_BATCH_BYTES:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if not isinstance(item, list):
                return count, item
            batch += item
            count += 1
            size += sum(map(len, item))
        return count, None


def attempt(action: Callable[[], None]) -> Failed | None:
    """Do something to the log, and say if that went wrong: nobody has thought of how to go on then."""
    try:
        action()
    except Exception as error:  # whatever it is
        return Failed(str(error) or type(error).__name__)
    return None
