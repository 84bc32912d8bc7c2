"""Appends what a generator yields, in order, without holding it up for each disk write.

One append is under way at a time. What is yielded meanwhile goes into the next one.
"""

import asyncio
from typing import Any, Final

from millstream.client.aio.streams import DurableStream

MAX_WAITING: Final = 1000
"""Messages that may wait for the disk before the generator has to."""


class RunWriter:
    """Writes the messages of one run."""

    def __init__(self, stream: DurableStream) -> None:
        self._stream = stream
        self._waiting: list[Any] = []
        self._sending: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    async def add(self, message: Any) -> None:
        """Take a message; waits only if too many wait for the disk."""
        self._waiting.append(message)
        self._send_next()
        while len(self._waiting) >= MAX_WAITING and self._error is None:
            await self._sent()
        if self._error is not None:
            raise self._error

    async def settle(self) -> None:
        """Wait until everything is stored."""
        while self._sending is not None:
            await self._sent()
        if self._error is not None:
            raise self._error

    async def _sent(self) -> None:
        if self._sending is not None:
            await asyncio.wait([self._sending])

    def _send_next(self) -> None:
        if self._sending is None and self._waiting and self._error is None:
            batch, self._waiting = self._waiting, []
            self._sending = asyncio.create_task(self._send(batch))

    async def _send(self, batch: list[Any]) -> None:
        try:
            await self._stream.append_all(batch)
        except Exception as error:
            self._error = error
        self._sending = None
        self._send_next()
