"""The engine's surroundings, simulated: its catalog, its committer, and a store that tells what it does.

`Variant` names the parts; a deliberately broken engine is one with a part replaced.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from millstream.store.log.catalog import Catalog, Row
from millstream.store.log.engine import LogStore
from millstream.store.log.stream_cache import Residents
from millstream.store.log.wal.commit import Committed, Outcome, attempt, write_batch
from millstream.store.log.wal.format import Meta
from millstream.store.log.wal.segments import Log
from millstream.store.table import Kept

from .simulated_disk import SimulatedDisk

Change = tuple[int, int, Meta, bytes]
"""The number of a change, the stream, and what the log says of it."""


class Watcher(Protocol):
    """Who wants to know what an engine does."""

    changes: list[Change]

    def on_adopt(self) -> None: ...


class SimulatedCatalog(Catalog):
    """A catalog whose commit is atomic, with a crash possible right before and right after it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(":memory:")
        self._disk = disk

    def checkpoint(self, changed: list[Row], gone: list[int], facts: dict[str, int]) -> None:
        self._disk.step("before the catalog's commit")
        super().checkpoint(changed, gone, facts)
        self._disk.step("after the catalog's commit")

    def close(self) -> None:
        pass  # it is the disk's, and outlives the engine

    def really_close(self) -> None:
        super().close()


class SimulatedCommitter:
    """Commits when it is told to; what came of it is heard later."""

    def __init__(self, log: Log, report: Callable[[Outcome], None]) -> None:
        self.log = log
        self.report = report
        self.queue: deque[bytes | Callable[[], None]] = deque()
        self.reports: deque[Outcome] = deque()
        self.parked = False

    def submit(self, record: bytes) -> None:
        self._put(record)

    def call(self, action: Callable[[], None]) -> None:
        self._put(action)

    def resume(self) -> None:
        self.parked = False

    def stop(self) -> None:
        while self.queue:
            self.commit(len(self.queue))
        while self.reports:
            self.deliver()

    def commit(self, most: int) -> None:
        batch: list[bytes] = []
        while self.queue and isinstance(self.queue[0], bytes) and len(batch) < most:
            batch.append(self.queue.popleft())  # type: ignore[arg-type]
        if batch:
            self.conclude(self.write(batch))
        elif self.queue:
            self.conclude(attempt(self.queue.popleft()))  # type: ignore[arg-type]

    def write(self, batch: list[bytes]) -> Outcome:
        return write_batch(self.log, batch)

    def conclude(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.reports.append(outcome)
            if not isinstance(outcome, Committed):
                self.parked = True
                self.queue.clear()

    def deliver(self) -> None:
        self.report(self.reports.popleft())

    def _put(self, item: bytes | Callable[[], None]) -> None:
        if not self.parked:
            self.queue.append(item)


class WatchedStore(LogStore):
    """The engine, telling which changes it makes and when it goes back to what is durable."""

    watcher: Watcher

    def _submit(self, kept: Kept, meta: Meta, payload: bytes = b"") -> None:
        super()._submit(kept, meta, payload)
        self.watcher.changes.append((self._lsn, kept.stream.id, meta, payload))

    def _adopt(self, residents: Residents) -> None:
        super()._adopt(residents)
        self.watcher.on_adopt()


class Variant:
    """The parts that an engine is put together from; a broken one replaces some of them."""

    store: type[WatchedStore] = WatchedStore
    log: type[Log] = Log
    committer: type[SimulatedCommitter] = SimulatedCommitter
    disk: type[SimulatedDisk] = SimulatedDisk
    salted = True
