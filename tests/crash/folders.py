"""The durable engine on a real folder, from plain test code."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.producers import Stamp
from millstream.protocol.requests import AppendRequest, CreateRequest
from millstream.protocol.streams import Stream
from millstream.store.entries import StreamEntry
from millstream.store.log.engine import LogEngine
from millstream.store.log.opening import folder_store
from millstream.store.pending import settled
from millstream.store.table import Table

OCTETS = b"application/octet-stream"
NOW_MS = 1_700_000_000_000


def facts_of(entry: StreamEntry) -> tuple[object, ...]:
    """What must survive of a stream."""
    stream = entry.stream
    producers = dict(stream.producers or {})
    content = entry.fetch(stream.start, entry.tail)
    listed = stream.staged.parts if stream.staged is not None else {}
    parts = {id: entry.staged[part.number][:] for id, part in listed.items()}
    extent = stream.start, stream.tail
    return content, extent, stream.closed, stream.closed_by, producers, stream.fork_count, parts


class Opened:
    """A folder that is open, on an event loop of its own."""

    def __init__(self, runner: asyncio.Runner, store: Table) -> None:
        self.runner = runner
        self.store = store
        assert isinstance(store.engine, LogEngine)
        self.engine = store.engine

    def wait(self, decision: Any) -> Any:
        return self.runner.run(settled(decision))

    def create(self, name: str, lifetime: Lifetime = FOREVER, **wishes: Any) -> Any:
        request = CreateRequest(content_type=OCTETS, lifetime=lifetime, **wishes)
        return self.wait(self.store.create(name, request, NOW_MS))

    def append(self, name: str, data: bytes, stamp: Stamp | None = None, *, closes: bool = False) -> Any:
        return self.wait(self.store.append(name, AppendRequest(data, OCTETS, closes, stamp, None), NOW_MS))

    def stage(self, name: str, id: str, data: bytes) -> Any:
        return self.wait(self.store.stage(name, StageRequest(id, data, OCTETS), 2**30, NOW_MS))

    def commit(self, name: str, *ids: str, stamp: Stamp | None = None) -> Any:
        return self.wait(self.store.commit(name, CommitRequest(list(ids), stamp=stamp), NOW_MS))

    def drop_part(self, name: str, id: str) -> Any:
        return self.wait(self.store.drop_part(name, id, NOW_MS))

    def delete(self, name: str) -> Any:
        return self.wait(self.store.delete(name, NOW_MS))

    def state(self) -> dict[str, object]:
        """Everything that is known of every stream."""
        found: dict[str, object] = {}
        for stream in self._streams():
            entry = self.engine.streams.find(stream.name)
            assert entry is not None
            if entry.stream.producers is None:
                self.engine.streams.load_producers(entry)
            found[stream.name] = facts_of(entry)
        return found

    def _streams(self) -> Iterator[Stream]:
        after: str | None = ""
        while after is not None:  # a page has its time, and a busy machine needs more of them
            page = self.store.listing("", None, after, 1000, 0)
            yield from page.streams
            after = page.next_after

    def until(self, condition: Callable[[], bool]) -> None:
        async def poll() -> None:
            while not condition():  # noqa: ASYNC110  what is waited for knows no events
                await asyncio.sleep(0.001)

        self.runner.run(asyncio.wait_for(poll(), 60))

    def checkpoint(self) -> None:
        async def begin() -> None:
            self.engine.checkpoint()

        self.until(lambda: not self.engine.checkpoints.under_way)  # one at a time
        self.runner.run(begin())
        self.until(lambda: not self.engine.checkpoints.under_way)
        self.runner.run(asyncio.sleep(0.01))

    def abandon(self) -> None:
        """Leave the folder as a killed process does."""
        abandon(self.engine)


def abandon(engine: LogEngine) -> None:
    """Make sure that closing an engine takes no last checkpoint: a killed process takes none."""
    engine.streams.dirty.clear()
    engine.streams.removed.clear()
    engine.streams.released_parts.clear()
    engine.streams.changed_rows.clear()


@contextmanager
def opened(folder: Path, **options: Any) -> Iterator[Opened]:
    """Open a folder; it is closed at the end as a server would."""
    with asyncio.Runner() as runner:
        store = runner.run(_open(folder, options))
        try:
            yield Opened(runner, store)
        finally:
            runner.run(store.close())


async def _open(folder: Path, options: dict[str, Any]) -> Table:
    store = folder_store(folder, **{"durable": False, **options})
    await store.open()
    return store


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, but for those that SQLite makes to look at its own."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }
