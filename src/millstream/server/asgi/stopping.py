"""Notice that the ASGI server around an application begins to stop.

ASGI has no message for that: `lifespan.shutdown` comes after the last response is complete, and uvicorn
waits for responses without a limit. A live read would hold it until its own end. So the handlers of SIGTERM
and SIGINT are chained: ours ends the live reads, then calls the one that the ASGI server has installed. That
works for uvicorn, Hypercorn and Granian, with asyncio and uvloop, which all install theirs before they start
an application. A uvicorn that its own program stops (`should_exit`) is found by its signal handler too.
Hypercorn's workers get no signal unless they are the process itself (`--workers 0`); they cut live reads
after 3 s.

On other threads than the main one no handler can be installed: there, the application calls
`MillstreamApp.begin_stop`.
"""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LOOK_S: Final = 0.2
"""Interval in which a uvicorn is asked whether it should exit."""


class StopWatch:
    """Calls back once, on the event loop, when the server begins to stop."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Chain the signal handlers. A signal without one ends the process anyway."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if callable(before):
                self._before[number] = before
                signal.signal(number, self._signalled)
        self._look()

    def stop(self) -> None:
        """Put the handlers back, unless somebody has chained another one since."""
        if self._timer is not None:
            self._timer.cancel()
        for number, before in self._before.items():
            if signal.getsignal(number) == self._signalled:
                signal.signal(number, before)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._begin)
        self._before[number](number, frame)

    def _look(self) -> None:
        owners = [getattr(handler, "__self__", None) for handler in self._before.values()]
        answers = [getattr(owner, "should_exit", None) for owner in owners]
        if True in answers:
            self._begin()
        elif False in answers:
            self._timer = self._loop.call_later(_LOOK_S, self._look)
