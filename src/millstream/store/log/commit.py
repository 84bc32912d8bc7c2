"""Group commit: one write and one sync for everything that waits.

No timer: a lone writer waits for nobody. Batches form by themselves, of what one turn of the event loop
brings and of what is queued while the previous sync runs.
"""

import queue
import threading
from collections.abc import Callable
from enum import Enum
from typing import Protocol

import msgspec

from millstream.store.log.disk import is_full
from millstream.store.log.segments import Log

_MAX_BATCH_BYTES = 8 * 2**20


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
    RESUME = "resume"
    STOP = "stop"


_Records = list[bytes]
_Item = _Records | Callable[[], None] | _Signal


class CommitThread:
    """A committer with a thread of its own; outcomes are reported from that thread.

    `soon` calls back at the end of the caller's turn, which is when its records are handed over: all of
    them at once, because waking the thread for the first would make it sync that one alone.
    """

    def __init__(
        self, log: Log, report: Callable[[Outcome], None], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self._log = log
        self._report = report
        self._soon = soon
        self._turn: _Records = []
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="millstream-commit", daemon=True)
        self._thread.start()

    def submit(self, record: bytes) -> None:
        """Queue a record."""
        self._turn.append(record)
        if len(self._turn) == 1:
            self._soon(self._hand_over)

    def call(self, action: Callable[[], None]) -> None:
        """Do something to the log between two batches, in its turn."""
        self._hand_over()
        self._queue.put(action)

    def resume(self) -> None:
        """Go on after a full disk."""
        self._hand_over()
        self._queue.put(_Signal.RESUME)

    def stop(self) -> None:
        """Commit what is queued, then stop."""
        self._hand_over()
        self._queue.put(_Signal.STOP)
        self._thread.join()

    def _hand_over(self) -> None:
        if self._turn:
            records, self._turn = self._turn, []
            self._queue.put(records)

    def _run(self) -> None:
        following: _Item | None = None
        while True:
            item = following if following is not None else self._queue.get()
            following = None
            outcome: Outcome | None
            if isinstance(item, list):
                following = self._fill_up(item)
                outcome = write_batch(self._log, item)
            elif isinstance(item, _Signal):
                if item is _Signal.STOP:
                    return
                continue
            else:
                outcome = attempt(item)
            if outcome is None:
                continue
            self._report(outcome)
            if not isinstance(outcome, Committed):
                # What was queued since builds on what is lost; drop it until that is taken back.
                while not isinstance(following, _Signal):
                    following = self._queue.get()

    def _fill_up(self, batch: _Records) -> _Item | None:
        """Add what else is queued, up to a size; give the first item that is not of records."""
        size = sum(map(len, batch))
        while size < _MAX_BATCH_BYTES:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if not isinstance(item, list):
                return item
            batch += item
            size += sum(map(len, item))
        return None


def attempt(action: Callable[[], None]) -> Failed | None:
    """Do something to the log, and say if that went wrong: nobody has thought of how to go on then."""
    try:
        action()
    except Exception as error:  # whatever it is
        return Failed(str(error) or type(error).__name__)
    return None
