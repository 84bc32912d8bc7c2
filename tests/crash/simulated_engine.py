"""The engine's surroundings, simulated: its catalog and its committer; and an engine that can be watched.

`Variant` names the parts; a deliberately broken engine is one with a part replaced.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from millstream.store.entries import StreamEntry
from millstream.store.log.cache.stream_cache import StreamCache
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.rows import Changes, Row
from millstream.store.log.engine import LogEngine
from millstream.store.log.journal import LogJournal
from millstream.store.log.wal.commit import Durable, Outcome, attempt, write_batch
from millstream.store.log.wal.format import Meta
from millstream.store.log.wal.segments import Log

from .simulated_disk import SimulatedDisk

Change = tuple[int, int, Meta, bytes]
"""The number of a change, the stream, and what the log says of it."""


class Watcher(Protocol):
    """Is shown what an engine does."""

    changes: list[Change]

    def on_rows(self, lsn: int, rows: dict[str, bytes | None]) -> None: ...

    def on_adopt(self) -> None: ...


class SimulatedCatalog(Catalog):
    """A catalog whose commit is atomic, with a crash possible right before and right after it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(":memory:")
        self._disk = disk
        self.unwritable: set[int] = set()
        """Streams whose rows cannot be written."""

    def _write(self, changed: Iterable[Row]) -> list[int]:
        ids = super()._write(changed)
        if self.unwritable.intersection(ids):
            raise OverflowError("a row is too big")
        return ids

    def checkpoint(self, changes: Changes) -> None:
        self._disk.step("before the catalog's commit")
        super().checkpoint(changes)
        self._disk.step("after the catalog's commit")

    def close(self) -> None:
        pass  # it is the disk's, and outlives the engine

    def really_close(self) -> None:
        super().close()


class SimulatedCommitter:
    """Commits when the test says so; the outcome is delivered later."""

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

    @property
    def is_running(self) -> bool:
        return bool(self.queue)

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
            if not isinstance(outcome, Durable):
                self.parked = True
                self.queue.clear()

    def deliver(self) -> None:
        self.report(self.reports.popleft())

    def _put(self, item: bytes | Callable[[], None]) -> None:
        if not self.parked:
            self.queue.append(item)


class WatchedJournal(LogJournal):
    """The journal, which shows the watcher every record."""

    watcher: Watcher

    def _queue(self, entry: StreamEntry, meta: Meta, payload: bytes = b"") -> None:
        super()._queue(entry, meta, payload)
        self.watcher.changes.append((self.lsn, entry.stream.id, meta, payload))

    def keep(self, rows: Mapping[str, bytes | None]) -> None:
        super().keep(rows)
        self.watcher.on_rows(self.lsn, dict(rows))


class WatchedEngine(LogEngine):
    """The engine, which shows the watcher its changes and when it returns to what is durable."""

    journal: WatchedJournal

    def watch(self, watcher: Watcher, journal: type[WatchedJournal]) -> None:
        self.journal = journal(self.streams)
        self.journal.watcher = watcher

    def _adopt(self, recovered: StreamCache) -> None:
        super()._adopt(recovered)
        self.journal.watcher.on_adopt()


class Variant:
    """The parts that an engine is put together from; a broken one replaces some of them."""

    engine: type[WatchedEngine] = WatchedEngine
    journal: type[WatchedJournal] = WatchedJournal
    log: type[Log] = Log
    committer: type[SimulatedCommitter] = SimulatedCommitter
    disk: type[SimulatedDisk] = SimulatedDisk
    catalog: type[SimulatedCatalog] = SimulatedCatalog
    salted = True
    subscriptions = False  # whether there are clients of them
