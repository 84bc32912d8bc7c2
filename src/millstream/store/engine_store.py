"""A store that has an engine: all that it passes on to the engine, and decides nothing about."""

from collections.abc import Callable

from millstream.store.base import Listener, Store
from millstream.store.engine import Engine
from millstream.store.measures import Measures, Sizes


class EngineStore(Store):
    """What is the engine's alone: its life, its failures and its measurements."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._journal = engine.journal

    @property
    def listener(self) -> Listener:
        """Called with the name of a stream after every change that a waiting reader must see."""
        return self._journal.listener

    @listener.setter
    def listener(self, listener: Listener) -> None:
        self._journal.listener = listener

    @property
    def on_failure(self) -> Callable[[str], None]:
        """Called when the engine can promise nothing any more; its server should stop."""
        return self.engine.on_failure

    @on_failure.setter
    def on_failure(self, call: Callable[[str], None]) -> None:
        self.engine.on_failure = call

    @property
    def unsynced_changes(self) -> int:
        """How many changes are accepted and not yet durable."""
        return self._journal.unsynced_changes

    @property
    def unsynced_bytes(self) -> int:
        """How many bytes they have."""
        return self._journal.unsynced_bytes

    @property
    def unsaved_bytes(self) -> int:
        """How many bytes wait in memory for a checkpoint."""
        return self.engine.unsaved_bytes

    @property
    def synced_bytes(self) -> int:
        """How many bytes have become durable since the start."""
        return self._journal.synced_bytes

    @property
    def failure(self) -> str | None:
        """Why the engine accepts no changes, if it does not."""
        return self.engine.failure

    @property
    def measures(self) -> Measures | None:
        """Measurements of the disk; None where there is none."""
        return self.engine.measures

    async def open(self) -> None:
        """Open the engine."""
        await self.engine.open()

    async def close(self) -> None:
        """Close the engine."""
        await self.engine.close()

    def log_bytes(self) -> int:
        """Give the size of the log that a start would read."""
        return self.engine.log_bytes()

    def measure_sizes(self) -> Sizes | None:
        """Measure how much room the data takes."""
        return self.engine.measure_sizes()
