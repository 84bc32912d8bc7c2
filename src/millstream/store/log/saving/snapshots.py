"""What a checkpoint writes: snapshots of the streams that have changed, in the order that `checkpoint` draws.

A stream that cannot be saved is held back (`held`), and all others are saved.
"""

import copy
from collections.abc import Iterable
from pathlib import PurePath

import msgspec

from millstream.protocol.streams import Stream
from millstream.store.entries import StreamEntry
from millstream.store.log.catalog import Catalog, ProducerRow, Row, encode_stream
from millstream.store.log.disk import Disk, is_full
from millstream.store.log.failpoints import reach
from millstream.store.log.files.content import Extent, StreamFiles, Unflushed, take_back, write_unflushed
from millstream.store.log.files.failures import Failures, is_of_one_stream
from millstream.store.log.files.staged import PartId, StoredPart, part_name, remove_parts, write_parts
from millstream.store.log.saving.held import find_records
from millstream.store.log.stream_cache import StreamCache, content_of

APPLIED_LSN = "applied_lsn"
LAST_ID = "next_id"  # its name on the disk


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A stream at one moment. Taking it holds up the event loop, so it only copies."""

    entry: StreamEntry
    stream: Stream
    end: int
    appends: int
    unflushed: Unflushed | None
    extent: Extent
    parts: list[tuple[PartId, bytes]]
    """Those that have no files yet."""
    producers: list[ProducerRow]
    """Those that have changed."""

    @classmethod
    def of(cls, entry: StreamEntry, changed_producers: Iterable[bytes]) -> "Snapshot":
        """Take a snapshot of a stream."""
        content = content_of(entry)
        stream = copy.copy(entry.stream)
        known, stream.producers = stream.producers or {}, None  # they have rows of their own
        producers = [ProducerRow(stream.id, id, known.get(id)) for id in changed_producers]
        parts: list[tuple[PartId, bytes]] = []
        if stream.staged is not None:
            stream.staged = stream.staged.copy()
            parts = [((stream.id, n), data) for n, data in entry.staged.items() if isinstance(data, bytes)]
        unflushed, extent = content.unflushed(), Extent.of(stream)
        return cls(entry, stream, content.end, content.appends, unflushed, extent, parts, producers)

    def row(self) -> Row:
        """Encode the stream as the catalog has it."""
        stream = self.stream
        return Row(stream.id, stream.name, stream.due_ms, self.end, self.appends, encode_stream(stream))

    def drop_saved(self, files: StreamFiles) -> None:
        """Drop from memory what the stream's files now hold."""
        content = content_of(self.entry)
        content.drop_flushed(self.end, self.appends)
        content.note_removed(self.extent)
        staged = self.entry.staged
        for part, data in self.parts:
            if part[1] in staged:
                staged[part[1]] = StoredPart(files, part_name(part), len(data))


class Written(msgspec.Struct, frozen=True):
    """What became of a checkpoint that was written."""

    unsaved: dict[int, Exception]
    """Streams that could not be saved, and why."""
    held_bytes: dict[int, int]
    """How much of the log the catalog has of each of them, in addition to what it had before."""
    not_removed: dict[int, Exception]
    """Streams that are gone and have files that could not be removed."""


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything that changed since the last one, at one moment."""

    lsn: int
    last_id: int
    snapshots: list[Snapshot]
    removed: dict[int, list[str]]
    """Streams that are gone, and their files."""
    trimmed: dict[int, list[str]]
    """Files of which nothing is left, of streams that still exist."""
    released_parts: list[PartId]
    changed_bytes: int
    """How much was logged since the last one."""

    @classmethod
    def take(cls, cache: StreamCache, lsn: int) -> "Checkpoint":
        """Take snapshots of all dirty streams, which are clean from then on."""
        dirty, changed_bytes = cache.dirty, cache.changed_bytes
        cache.dirty, cache.changed_bytes, cache.frees_room = {}, 0, False
        changed = cache.changed_producers
        snapshots = [Snapshot.of(entry, changed.pop(id, ())) for id, entry in dirty.items()]
        removable = {one.stream.id: content_of(one.entry).removable(one.extent, one.end) for one in snapshots}
        trimmed = {id: names for id, names in removable.items() if names}
        removed, released = cache.removed.copy(), list(cache.released_parts)
        return cls(lsn, cache.last_id, snapshots, removed, trimmed, released, changed_bytes)

    def write(self, disk: Disk, catalog: Catalog) -> Written:
        """Make it the state to recover from; the log must be durable up to its lsn."""
        failures, not_removed = Failures(), Failures()
        for id, names in self.removed.items():
            with not_removed.of(id):
                remove_files(disk, names)
        self._remove_trimmed(disk, failures)
        reach("checkpoint.removed")
        self._write_files(disk, failures)
        reach("checkpoint.written")
        folders = self._remove_trimmed(disk, failures)  # what arrived and was trimmed since was just written
        if folders:
            reach("checkpoint.trimmed")
            for folder in sorted(folders):
                disk.sync_folder(folder)
        held_bytes = self._write_catalog(disk, catalog, failures)
        reach("checkpoint.committed")
        return Written(failures.errors, held_bytes, not_removed.errors)

    def _remove_trimmed(self, disk: Disk, failures: Failures) -> set[str]:
        folders: set[str] = set()
        for id, names in self.trimmed.items():
            with failures.of(id):
                folders |= remove_files(disk, names)
        return folders

    def _write_files(self, disk: Disk, failures: Failures) -> None:
        unflushed = [one.unflushed for one in self.snapshots if one.unflushed is not None]
        parts = [part for one in self.snapshots for part in one.parts]
        try:
            write_unflushed(disk, unflushed, failures)
            write_parts(disk, parts, failures)
        except OSError as error:
            if is_full(error):  # what was written is not needed, and its room is
                take_back(disk, unflushed)
                remove_parts(disk, [part for part, _ in parts])
            raise

    def _write_catalog(self, disk: Disk, catalog: Catalog, failures: Failures) -> dict[int, int]:
        """Save all streams that can be saved, and hold the others back."""
        rows: dict[int, tuple[Row, list[ProducerRow]]] = {}
        for one in self.snapshots:
            with failures.of(one.stream.id):
                rows[one.stream.id] = one.row(), one.producers
        while True:
            saved = [pair for id, pair in rows.items() if id not in failures.errors]
            unsaved = set(failures.errors)
            held = find_records(disk, catalog.written_fact(APPLIED_LSN), self.lsn, unsaved) if unsaved else []
            producers = [producer for _, changed in saved for producer in changed]
            facts = {APPLIED_LSN: self.lsn, LAST_ID: self.last_id}
            try:
                catalog.checkpoint([row for row, _ in saved], producers, list(self.removed), facts, held)
            except Exception as error:
                if not is_of_one_stream(error):
                    raise
                found = catalog.find_unsavable(saved, is_of_one_stream)
                if not found:
                    raise
                failures.errors.update(found)
            else:
                return {id: sum(len(one.record) for one in held if one.stream_id == id) for id in unsaved}

    def clean(self, disk: Disk, parts: Iterable[PartId]) -> None:
        """Remove the files of former parts, now that this is the state to recover from."""
        remove_parts(disk, parts)
        reach("checkpoint.cleaned")


def remove_files(disk: Disk, names: Iterable[str]) -> set[str]:
    """Remove files, where they exist; give their folders."""
    folders = set()
    for name in names:
        disk.remove(name)
        folders.add(str(PurePath(name).parent))
    return folders
