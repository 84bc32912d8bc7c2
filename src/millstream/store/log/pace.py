"""How work in a background thread shares the interpreter with the event loop: they take turns.

        event loop   | requests ...... | waits      | requests ...... | waits      |
        thread       | waits           | works      | waits           | works      |

Only one thread runs Python at a time, and the event loop needs the interpreter's lock anew for every
connection that it reads from. A thread that goes through a hundred thousand streams beside it makes both of
them wait for the lock, again and again: then an append took four times as long, and the thread three times
the processor time. So the thread asks for a turn. The event loop gives it one after the requests that have
arrived, and waits until it is over. It waits for no longer than a moment, since the thread may wait for a
disk. Only processor time counts as work: a thread that mostly waits for a disk needs few turns.

When something matters more, because writers or a shutdown wait for the work, it goes on without turns.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

Rest = Callable[[], None]
"""Called between two items of long work; it may wait."""

CallOnLoop = Callable[[Callable[[], None]], None]
"""Has something called by the event loop; from any thread."""

_WORK_S: Final = 0.0005
_MOST_S: Final = 0.002
_PATIENCE_S: Final = 1.0


def no_rest() -> None:
    """Go on at once."""


class Turns:
    """The turns of one job."""

    def __init__(
        self,
        call_on_loop: CallOnLoop,
        is_urgent: Callable[[], bool],
        clock_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._call_on_loop = call_on_loop
        self._is_urgent = is_urgent
        self._clock_s = clock_s
        self._begun_s: float | None = None  # another thread may have made this: its clock is not ours
        self._given = _Token()
        self._used = _Token()
        self._is_waiting = False
        self._is_alone = False  # the event loop has ended, or stands still

    def rest(self) -> None:
        """Wait for the next turn, if this one has lasted long enough."""
        if self._begun_s is None:
            self._begun_s = self._clock_s()
        if self._clock_s() - self._begun_s < _WORK_S:
            return
        if not self._is_alone and not self._is_urgent():
            self._wait()
        self._begun_s = self._clock_s()

    def _wait(self) -> None:
        self._used.put()
        self._given.take(0)  # one that came too late
        self._is_waiting = True
        self._call_on_loop(self._give)
        self._is_alone = not self._given.take(_PATIENCE_S)
        self._is_waiting = False

    def _give(self) -> None:
        """Give the thread a turn; the event loop calls this."""
        if self._is_waiting:
            self._used.take(0)  # of a turn that was not waited for
            self._given.put()
            self._used.take(_MOST_S)


class _Token:
    """Something that one thread puts down and another one takes; a second one is not kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def put(self) -> None:
        if self._lock.locked():
            self._lock.release()

    def take(self, timeout_s: float) -> bool:
        return self._lock.acquire(timeout=timeout_s)
