"""A data folder as one end of a migration.

The folder is opened as a server opens it, and locked: one that a server uses is refused. Streams are not
written by requests but as a checkpoint finds them, with the state that they are to have:

        create, add, finish   in memory, like streams that have changed since the last checkpoint
        flush                 a checkpoint: files and catalog, in one transaction; the log has nothing of it

So a kill leaves the last checkpoint, and the memory that is needed is what one checkpoint writes. To read a
folder changes it no more than the start and stop of a server do.
"""

import asyncio
import json
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from millstream.migration import records
from millstream.migration.records import Batch
from millstream.protocol.streams import Stream
from millstream.store.base import StoreError
from millstream.store.entries import StreamEntry
from millstream.store.log.cache.stream_cache import StreamCache, content_of
from millstream.store.log.disk import FILE_MODE, sync_path
from millstream.store.log.engine import LogEngine
from millstream.store.log.files.content import StreamContent
from millstream.store.log.opening import LOCK, MIGRATION, CannotOpenError, folder_store
from millstream.store.table import Table

BATCH_BYTES: Final = 2**20
_BATCH_APPENDS: Final = 4096
FLUSH_BYTES: Final = 32 * 2**20
FLUSH_STREAMS: Final = 2000
_ENTRY_COST: Final = 64  # of an append in memory, beside its bytes
_PAGE: Final = 500


class Folder:
    """A data folder."""

    is_exact = True

    def __init__(self, folder: Path, *, is_source: bool) -> None:
        self.name = str(folder.resolve())
        self.not_kept: Counter[str] = Counter()
        self._folder = folder
        self._is_source = is_source
        self._table: Table | None = None
        self._entry: StreamEntry | None = None
        self._unsaved_bytes = 0
        self._unsaved: set[int] = set()

    # -- Opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Lock the folder, and recover what is in it."""
        if self._is_source and not (self._folder / LOCK).exists():
            raise CannotOpenError(f"{self._folder} is not a data folder.")
        table = folder_store(self._folder, may_be_unfinished=not self._is_source)
        await table.open()
        self._table = table
        if self._streams.has_changed:
            await self._save()  # then the catalog has all of it

    async def close(self) -> None:
        """Unlock the folder."""
        if self._table is not None:
            await self._table.close()

    @property
    def _engine(self) -> LogEngine:
        assert self._table is not None  # it is open
        assert isinstance(self._table.engine, LogEngine)  # a folder has no other
        return self._table.engine

    @property
    def _streams(self) -> StreamCache:
        return self._engine.streams

    # -- Reading ---------------------------------------------------------------------------------

    async def count(self) -> int:
        """Count the streams."""
        return self._engine.catalog.count()

    async def streams(self) -> AsyncIterator[Stream]:
        """Give all streams in the order of their ids, which is that of their creation."""
        after = -1
        while ids := self._engine.catalog.ids(after, _PAGE):
            for after in ids:
                entry = self._streams.get(after)
                if entry is not None:
                    yield self._described(entry)
            await self._rest()

    def _described(self, entry: StreamEntry) -> Stream:
        if entry.stream.producers is None:
            self._streams.load_producers(entry)
        return entry.stream

    async def batches(self, stream: Stream, position: int) -> AsyncIterator[Batch]:
        """Give the content that is kept."""
        entry = self._streams.get(stream.id)
        if entry is None:
            return
        for start, end in records.kept(stream):
            at = max(start, position)
            while at < end:
                batch = _batch(content_of(entry), at, end)
                yield batch
                at = batch.end
                await asyncio.sleep(0)

    async def completed(self, stream: Stream) -> Stream:
        """Give the stream: its state was known before it was read."""
        return stream

    async def rows(self) -> Mapping[str, bytes]:
        """Give the rows of subscriptions."""
        return dict(self._engine.catalog.kept())

    # -- Writing ---------------------------------------------------------------------------------

    @property
    def is_saved(self) -> bool:
        """Whether all that was written is in a checkpoint."""
        return not self._unsaved and not self._unsaved_bytes

    async def is_begun(self, source: str) -> bool:
        """Look for the file that says so."""
        note = self._folder / MIGRATION
        if not note.exists():
            return False
        other = json.loads(note.read_text())["from"]
        if other != source:
            raise StoreError(
                f"{self._folder}: a migration from {other} is not finished. Run that one again, or begin "
                "with a new folder."
            )
        return True

    async def begin(self, source: str) -> None:
        """Write that file; it is there whole, or not at all."""
        draft = self._folder / f"{MIGRATION}.new"
        draft.touch(FILE_MODE)
        draft.write_text(json.dumps({"from": source}))
        sync_path(draft)
        draft.rename(self._folder / MIGRATION)
        sync_path(self._folder)

    async def end(self) -> None:
        """Remove that file."""
        (self._folder / MIGRATION).unlink()
        sync_path(self._folder)

    async def find(self, name: str) -> Stream | None:
        """Find a stream of a name."""
        self._entry = self._streams.find(name)
        return self._described(self._entry) if self._entry is not None else None

    async def free_id(self, wanted: int) -> int:
        """Give an id that no stream has."""
        streams = self._streams
        if wanted and streams.get(wanted) is None and wanted not in streams.removed:
            streams.last_id = max(streams.last_id, wanted)
            return wanted
        return streams.next_id()

    async def create(self, stream: Stream) -> None:
        """Add a stream without content."""
        fork = stream.fork
        source = self._streams.get(fork.source_id) if fork is not None else None
        position, append = records.beginning(stream)
        content = StreamContent.beginning_at(self._engine.files, stream, position, append)
        self._entry = StreamEntry(stream, source, content)
        self._entry.publish()
        self._streams.add(self._entry)
        self._unsaved.add(stream.id)

    async def add(self, stream: Stream, batch: Batch) -> None:
        """Add to the content; what is trimmed between two ranges that are kept is filled with zeros."""
        entry = self._entry
        assert entry is not None  # it was created, or found
        content = content_of(entry)
        await self._fill(entry, stream, batch.start, batch.first, batch.times[0])
        at = batch.start
        for end, time_ms in zip(batch.ends, batch.times, strict=True):
            content.append(batch.data[at - batch.start : end - batch.start], time_ms)
            at = end
        await self._grown(entry, stream, len(batch.data) + _ENTRY_COST * len(batch.ends))

    async def _fill(
        self, entry: StreamEntry, stream: Stream, position: int, append: int, time_ms: int
    ) -> None:
        content = content_of(entry)
        missing, count = position - content.end, append - content.appends
        for left in range(count, 0, -1):
            size = missing // left
            content.append(bytes(size), time_ms)
            missing -= size
            await self._grown(entry, stream, size + _ENTRY_COST)

    async def _grown(self, entry: StreamEntry, stream: Stream, size: int) -> None:
        self._unsaved_bytes += size
        self._set(entry, records.unfinished(stream, content_of(entry).end))
        if self._unsaved_bytes > FLUSH_BYTES:
            await self.flush()

    async def finish(self, stream: Stream) -> None:
        """Give the stream its state."""
        entry = self._entry
        assert entry is not None  # it was created, or found
        if content_of(entry).end < stream.tail:  # all that came after what forks share is trimmed
            await self._fill(entry, stream, stream.tail, stream.first_append, _last_ms(stream))
        self._set(entry, stream)
        for producer in stream.producers or {}:
            self._streams.note_producers(stream.id, producer)
        if self._unsaved_bytes > FLUSH_BYTES or len(self._unsaved) >= FLUSH_STREAMS:
            await self.flush()

    def _set(self, entry: StreamEntry, stream: Stream) -> None:
        entry.stream = stream
        entry.logged_deadline_ms = stream.deadline_ms or 0
        entry.publish()
        self._streams.note_changed(entry)
        self._unsaved.add(stream.id)

    async def flush(self) -> None:
        """Take a checkpoint."""
        if not self.is_saved:
            await self._save()
            self._unsaved.clear()
            self._unsaved_bytes = 0
            await self._rest()

    async def keep(self, rows: Mapping[str, bytes]) -> None:
        """Keep the rows of subscriptions."""
        self._streams.changed_rows.update(rows)
        await self._save()

    async def _save(self) -> None:
        engine = self._engine
        failures = engine.measures.checkpoint_failures
        while not engine.checkpoints.take_guard():  # noqa: ASYNC110  a backup ends some time
            await asyncio.sleep(0.1)
        engine.checkpoint()
        await engine.runtime.jobs_done()
        is_whole = engine.measures.checkpoint_failures == failures and not engine.streams.held_back
        if engine.failure is not None or not is_whole:
            raise StoreError(f"{self._folder} cannot be written: {engine.failure or 'the log says why'}.")

    async def _rest(self) -> None:
        """Let streams leave memory that are not needed any more."""
        if self.is_saved:
            self._engine.maintain(time.time_ns() // 1_000_000)
            await self._engine.runtime.jobs_done()


def _batch(content: StreamContent, at: int, end: int) -> Batch:
    """Give some whole appends from a position on; what is beyond the end of a range is filled with zeros."""
    append = first = content.count(at)
    ends, times = array("Q"), array("Q")
    reached = at
    while reached < min(end, at + BATCH_BYTES) and len(ends) < _BATCH_APPENDS:
        reached = content.start_of(append + 1)
        if ends and reached - at > BATCH_BYTES:
            reached = ends[-1]
            break
        ends.append(reached)
        times.append(content.time_of(append))
        append += 1
    data = content.fetch(at, min(reached, end))
    return Batch(first, at, ends, times, data + bytes(reached - at - len(data)))


def _last_ms(stream: Stream) -> int:
    return max(stream.written_ms, stream.created_ms)
