"""Work that may take long, done in slices: some milliseconds of it in each turn of the event loop.

What waits is kept in one queue, so the time that other requests lose in a turn does not depend on how many
wait. Each step is short; whoever has more to do than one step queues the next one behind the others.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from millstream.protocol.boundaries import ScanUnfinishedError
from millstream.protocol.errors import MalformedError
from millstream.protocol.reads import ReadFailed
from millstream.store.pending import Eventually, Pending

_TURN_S: Final = 0.002

_log = logging.getLogger("millstream")


class UnfinishedError(Exception):
    """A decision has used its time in this turn, and goes on in another one."""


class Slices:
    """Steps that wait for their turn."""

    def __init__(self) -> None:
        self._steps: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def add(self, step: Callable[[], None]) -> None:
        """Run a step in one of the next turns, after those that were added before it."""
        self._steps.append(step)
        self._schedule()

    def _schedule(self) -> None:
        if self._steps and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        ends_s = time.monotonic() + _TURN_S
        try:
            while self._steps and time.monotonic() < ends_s:
                self._steps.popleft()()
        finally:  # an error in one step does not stop the others
            self._is_scheduled = False
            self._schedule()

    def decide(self, attempt: Callable[[], Eventually[Any]]) -> Pending[Any]:
        """Make a decision that takes several turns: try again, a step further each time, until it is made."""
        pending: Pending[Any] = Pending(lambda: waiting.clear())
        waiting = [pending]  # empty when nobody waits any more

        def step() -> None:
            if not waiting:
                return
            try:
                decision = attempt()
            except (ScanUnfinishedError, UnfinishedError):
                self.add(step)
                return
            except MalformedError as error:  # there is no caller any more to raise it to
                decision = error
            except Exception as error:
                _log.error("a request could not be decided", exc_info=error)
                decision = ReadFailed()
            if isinstance(decision, Pending):
                decision.then(pending.settle)
            else:
                pending.settle(decision)

        self.add(step)
        return pending
