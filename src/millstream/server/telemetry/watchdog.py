"""The watchdog of the event loop: how late the loop is, and what it is doing when it is blocked.

One call that takes long delays every client. The loop runs a short call at a fixed interval and measures how
late it is: `millstream_loop_lag_seconds`. A thread looks at that, too. While the call is overdue, the thread
logs where the loop is, once for each time that it is blocked. The thread runs only while the loop's thread
gives up the interpreter's lock; a single call of a C function that holds it is logged when it returns.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from prometheus_client.core import Metric

from millstream.server.telemetry import logs
from millstream.server.telemetry.engine_metrics import histogram_family
from millstream.store.measures import Histogram

_INTERVAL_S: Final = 0.1
_LAGS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MAX_FRAMES: Final = 16

_log = logging.getLogger("millstream")


class Watchdog:
    """Measures one event loop; start it on that loop."""

    def __init__(self, max_lag_s: float) -> None:
        self._max_lag_s = max_lag_s
        self._lag_s = Histogram(_LAGS_S)
        self._due_s = 0.0
        self._stopped = threading.Event()
        self._next: asyncio.TimerHandle | None = None
        self._thread_id = 0

    def start(self) -> None:
        """Begin to measure, and to log if there is a limit."""
        self._thread_id = threading.get_ident()
        self._schedule(asyncio.get_running_loop())
        if self._max_lag_s:
            threading.Thread(target=self._watch, name="millstream-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Measure no more."""
        self._stopped.set()
        if self._next is not None:
            self._next.cancel()

    def collect(self) -> Iterator[Metric]:
        """Yield the metric; called by the registry."""
        help = "How late the event loop runs a call, measured ten times a second."
        yield histogram_family("millstream_loop_lag_seconds", help, self._lag_s)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_s = time.monotonic() + _INTERVAL_S
        self._next = loop.call_later(_INTERVAL_S, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._lag_s.observe(max(0.0, time.monotonic() - self._due_s))
        self._schedule(loop)

    def _watch(self) -> None:
        logged_s = 0.0
        while not self._stopped.wait(_INTERVAL_S):
            due_s = self._due_s
            late_s = time.monotonic() - due_s
            if late_s > self._max_lag_s and due_s != logged_s:
                logged_s = due_s
                frame = sys._current_frames().get(self._thread_id)
                logs.event(
                    _log, logging.WARNING, "event loop blocked", ms=round(late_s * 1000), stack=_stack(frame)
                )


def _stack(frame: FrameType | None) -> str:
    """Write a stack in one line, the innermost call first."""
    calls: list[str] = []
    while frame is not None and len(calls) < _MAX_FRAMES:
        calls.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(calls)
