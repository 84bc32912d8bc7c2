"""The hub: who waits for which stream, and how they are woken.

Readers are kept per stream, so that an append costs what its own readers cost. Changes of one turn
of the event loop are told once: a burst of appends wakes each reader once.
"""

import asyncio
from typing import Protocol


class Reader(Protocol):
    """Somebody who waits for a stream to change."""

    def wake(self) -> None:
        """Look again: the stream has changed."""
        ...


class Hub:
    """Waiting readers by stream."""

    def __init__(self) -> None:
        self._readers: dict[str, set[Reader]] = {}
        self._changed: dict[str, None] = {}

    def watch(self, name: str, reader: Reader) -> None:
        """Wake a reader at every change of a stream, until it stops watching."""
        self._readers.setdefault(name, set()).add(reader)

    def unwatch(self, name: str, reader: Reader) -> None:
        """Stop waking a reader."""
        readers = self._readers.get(name)
        if readers is not None:
            readers.discard(reader)
            if not readers:
                del self._readers[name]

    def is_watched(self, name: str) -> bool:
        """Tell whether anybody waits for a stream."""
        return name in self._readers

    def changed(self, name: str) -> None:
        """Take note that a stream has changed; its readers are woken at the end of this turn."""
        if name in self._readers:
            if not self._changed:
                asyncio.get_running_loop().call_soon(self._wake_all)
            self._changed[name] = None

    def _wake_all(self) -> None:
        changed, self._changed = self._changed, {}
        for name in changed:
            for reader in list(self._readers.get(name, ())):
                reader.wake()
