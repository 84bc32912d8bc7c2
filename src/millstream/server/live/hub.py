"""The hub: which readers wait for which stream, and how they are woken.

Readers are kept by stream, so that an append costs only what its own readers cost. All changes of one
turn of the event loop wake a reader once.
"""

import asyncio
from typing import Protocol


class Reader(Protocol):
    """A reader that waits for a stream to change."""

    def wake(self) -> None:
        """Read again: the stream has changed."""
        ...


class Hub:
    """Waiting readers by stream."""

    def __init__(self) -> None:
        self.readers: dict[str, set[Reader]] = {}
        self._changed: dict[str, None] = {}

    def watch(self, name: str, reader: Reader) -> None:
        """Wake a reader at every change of a stream, until it stops watching."""
        self.readers.setdefault(name, set()).add(reader)

    def unwatch(self, name: str, reader: Reader) -> None:
        """Stop waking a reader."""
        readers = self.readers.get(name)
        if readers is not None:
            readers.discard(reader)
            if not readers:
                del self.readers[name]

    def changed(self, name: str) -> None:
        """Wake the readers of a stream at the end of this turn: it has changed, and has readers."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._wake_all)
        self._changed[name] = None

    def _wake_all(self) -> None:
        changed, self._changed = self._changed, {}
        for name in changed:
            for reader in list(self.readers.get(name, ())):
                reader.wake()
