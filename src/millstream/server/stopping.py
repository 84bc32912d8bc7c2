"""Being told to stop: the first signal drains, a second one ends the process at once.

Ending at once is safe: what was acknowledged is durable, and the rest never happened. It leaves with
128 and the signal's number (143 for SIGTERM, 130 for SIGINT), so that nobody takes it for a clean end.
"""

import asyncio
import logging
import os
import signal

from millstream.server.telemetry import logs

_log = logging.getLogger("millstream")


class Stopping:
    """Whether the server was told to stop."""

    def __init__(self) -> None:
        self._told = asyncio.Event()

    def listen(self) -> None:
        """Take signals, from now on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)

    def begin(self) -> None:
        """Stop, for a reason of our own."""
        self._told.set()

    def is_told(self) -> bool:
        """Whether it is time to stop."""
        return self._told.is_set()

    async def wait(self) -> None:
        """Wait until it is time to stop."""
        await self._told.wait()

    def _signalled(self, number: signal.Signals) -> None:
        if not self._told.is_set():
            logs.event(_log, logging.INFO, "stopping", signal=number.name)
            self._told.set()
            return
        code = 128 + number
        logs.event(_log, logging.WARNING, "told to stop again: ending at once", signal=number.name, code=code)
        logging.shutdown()
        os._exit(code)
