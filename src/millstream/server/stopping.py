"""Stop on a signal: the first one drains, a second one ends the process at once.

Ending at once is safe, because everything acknowledged is durable. The exit code is then 128 plus the
signal's number (143 for SIGTERM, 130 for SIGINT), which sets it apart from a clean shutdown.
"""

import asyncio
import logging
import os
import signal

from millstream.server.telemetry import logs

_log = logging.getLogger("millstream")


class Stopping:
    """A request to stop, by a signal or by the server itself."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()

    def listen(self) -> None:
        """Install the signal handlers."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)

    def begin(self) -> None:
        """Request a stop without a signal, for example after a disk failure."""
        self._requested.set()

    def is_requested(self) -> bool:
        """Whether the server should stop."""
        return self._requested.is_set()

    async def wait(self) -> None:
        """Wait until the server should stop."""
        await self._requested.wait()

    def _signalled(self, number: signal.Signals) -> None:
        if not self._requested.is_set():
            logs.event(_log, logging.INFO, "stopping", signal=number.name)
            self._requested.set()
            return
        code = 128 + number
        logs.event(_log, logging.WARNING, "second signal: ending at once", signal=number.name, code=code)
        logging.shutdown()
        os._exit(code)
