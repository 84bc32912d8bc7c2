"""What a checkpoint writes: snapshots of the streams that have changed, in the order that `checkpoint` draws.

A stream that cannot be saved is held back (`held`), and all others are saved.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import PurePath

import msgspec

from millstream.protocol.streams import Stream
from millstream.store.entries import StreamEntry
from millstream.store.log.cache.stream_cache import content_of
from millstream.store.log.catalog.database import APPLIED_LSN, LAST_ID, Catalog
from millstream.store.log.catalog.rows import Changes, ProducerRow, Row, packed_bytes
from millstream.store.log.disk import Disk, is_full
from millstream.store.log.failpoints import reach
from millstream.store.log.files.extents import WHOLE, Extent
from millstream.store.log.files.failures import Failures, is_of_one_stream
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.places import Filed, Former, Place
from millstream.store.log.files.staged import PartId, StoredPart, remove_parts, write_parts
from millstream.store.log.files.writing import PackEnds, Unflushed, Writing, sync_folders
from millstream.store.log.pace import Rest, no_rest
from millstream.store.log.saving.held import find_records
from millstream.store.log.saving.unfinished import remove_unfinished

_NO_PRODUCERS: list[ProducerRow] = []  # shared: most streams have none, and a snapshot is taken of very many
_NO_PARTS: list[tuple[PartId, bytes]] = []
_ROWS_BETWEEN_RESTS = 8  # one takes a few microseconds, so the clock is not looked at for each


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A stream at one moment. Taking it holds up the event loop, so it only copies."""

    entry: StreamEntry
    stream: Stream
    end: int
    appends: int
    place: Place
    """Where its saved bytes were before."""
    unflushed: Unflushed | None
    extent: Extent
    trimmed: Sequence[str]
    """Files of which nothing is left."""
    parts: list[tuple[PartId, bytes]]
    """Those that have no files yet."""
    producers: list[ProducerRow]
    """Those that have changed."""

    @classmethod
    def of(cls, entry: StreamEntry, changed_producers: Collection[bytes]) -> "Snapshot":
        """Take a snapshot of a stream."""
        content = content_of(entry)
        stream = entry.stream.copied()
        producers = _NO_PRODUCERS
        if changed_producers:
            known = stream.producers or {}
            producers = [ProducerRow(stream.id, id, known.get(id)) for id in changed_producers]
        stream.producers = None  # they have rows of their own
        parts = _NO_PARTS
        if stream.staged is not None:
            stream.staged = stream.staged.copy()
            parts = [((stream.id, n), data) for n, data in entry.staged.items() if isinstance(data, bytes)]
        end, extent = content.end, Extent.of(stream)
        next_layout = content.plan_layout(extent, stream.retention)
        trimmed = content.removable(extent, end)
        unflushed = content.unflushed(extent, trimmed, next_layout)
        appends = unflushed.appends + unflushed.count if unflushed is not None else content.appends
        return cls(entry, stream, end, appends, content.place, unflushed, extent, trimmed, parts, producers)

    def names(self, places: Iterable[Place]) -> set[str]:
        """Name the files that the stream may need when its bytes are in some places."""
        id, base, extent = self.stream.id, self.stream.base, self.extent
        first, last = max(0, extent.lowest - base), self.end - base
        names: set[str] = set()
        for place in places:
            if isinstance(place, Filed):
                size, entries = place.layout.chunk_bytes, place.layout.chunk_entries
                chunks = range(first // size, last // size + 1)
                index_chunks = range(extent.first_entry // entries, self.appends // entries + 1)
                names.update(place.layout.names(id, chunks, index_chunks))
                if place.released is not None:
                    names.update(place.released.names(id))
        return names

    def drop_saved(self, files: StreamFiles, place: Place) -> list[str]:
        """Drop from memory what is saved now; gives the files that are no longer needed because of that."""
        content, staged = content_of(self.entry), self.entry.staged
        released = content.drop_flushed(self.end, self.appends, place)
        if self.extent is not WHOLE:
            content.note_removed(self.extent)
        for part, data in self.parts:
            if part[1] in staged:
                staged[part[1]] = StoredPart(files, part, len(data))
        return released


class Written(msgspec.Struct, frozen=True):
    """What became of a checkpoint that was written."""

    places: dict[int, Place]
    """Where the saved bytes of streams are now, of those that had any to write."""
    unsaved: dict[int, Exception]
    """Streams that could not be saved, and why."""
    held_bytes: dict[int, int]
    """How much of the log the catalog has of each of them, in addition to what it had before."""
    not_removed: dict[int, Exception]
    """Streams that are gone and have files that could not be removed."""

    def released_names(self) -> list[str]:
        """Name the files of former editions that the catalog needs no more."""
        return [
            name
            for id, place in self.places.items()
            if isinstance(place, Filed) and place.released is not None and id not in self.unsaved
            for name in place.released.names(id)
        ]


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything that changed since the last one, at one moment."""

    lsn: int
    last_id: int
    snapshots: list[Snapshot]
    """By id, as the catalog has its rows."""
    removed: dict[int, list[str]]
    """Streams that are gone, and their files."""
    released_files: list[str]
    """Files that the catalog needs no more."""
    released_parts: list[PartId]
    changed_bytes: int
    """How much was logged since the last one."""
    rows: dict[str, bytes | None]
    """Rows of the table that have changed."""
    unfinished: Set[int] = frozenset()
    """Streams that may have files which another checkpoint has written and nothing refers to."""

    def write(self, disk: Disk, catalog: Catalog, rest: Rest = no_rest) -> Written:
        """Make it the state to recover from; the log must be durable up to its lsn."""
        failures, not_removed = Failures(), Failures()
        folders = remove_files(disk, self.released_files)
        for id, names in self.removed.items():
            with not_removed.of(id):
                folders |= remove_files(disk, names)
        folders |= self._remove_trimmed(disk, failures)
        reach("checkpoint.removed")
        writing = self._write_files(disk, catalog, failures, rest)
        reach("checkpoint.written")
        folders |= remove_unfinished(disk, self._needed_files(writing, failures))
        self._remove_trimmed(disk, failures)  # what arrived and was trimmed since was just written
        if folders:
            reach("checkpoint.trimmed")
            # What a power cut brings back the catalog would not know any more, and it would stay for ever.
            sync_folders(disk, folders)
        held_bytes = self._write_catalog(disk, catalog, writing, failures, rest)
        reach("checkpoint.committed")
        return Written(writing.places, failures.errors, held_bytes, not_removed.errors)

    def _needed_files(self, writing: Writing, failures: Failures) -> dict[int, set[str]]:
        """Name what must stay of streams that may have other files, by the catalog before and after."""
        needed: dict[int, set[str]] = {}
        unfinished = self.unfinished
        for one in self.snapshots if unfinished else ():
            id = one.stream.id
            place = writing.places.get(id, one.place)
            is_saved = id in unfinished and id not in failures.errors
            if is_saved and isinstance(place, Filed) and not isinstance(one.place, Former):
                needed[id] = one.names((one.place, place))
        needed.update((id, set()) for id, names in self.removed.items() if names and id in unfinished)
        return needed

    def _remove_trimmed(self, disk: Disk, failures: Failures) -> set[str]:
        folders: set[str] = set()
        for one in self.snapshots:
            if one.trimmed:
                with failures.of(one.stream.id):
                    folders |= remove_files(disk, one.trimmed)
        return folders

    def _write_files(self, disk: Disk, catalog: Catalog, failures: Failures, rest: Rest) -> Writing:
        unflushed = [one.unflushed for one in self.snapshots if one.unflushed is not None]
        parts = [part for one in self.snapshots for part in one.parts]
        writing = Writing(disk, pack_ends(catalog))
        try:
            writing.write(unflushed, failures, rest)
            write_parts(disk, parts, failures)
        except OSError as error:
            if is_full(error):  # what was written is not needed, and its room is
                writing.take_back()
                remove_parts(disk, [part for part, _ in parts])
            raise
        return writing

    def _write_catalog(
        self, disk: Disk, catalog: Catalog, writing: Writing, failures: Failures, rest: Rest
    ) -> dict[int, int]:
        """Save all streams that can be saved, and hold the others back."""
        while True:
            unsaved = set(failures.errors)
            saved = self.snapshots
            if unsaved:
                saved = [one for one in saved if one.stream.id not in unsaved]
            held = find_records(disk, catalog.written_fact(APPLIED_LSN), self.lsn, unsaved) if unsaved else []
            producers = [producer for one in saved for producer in one.producers]
            facts = {APPLIED_LSN: self.lsn, LAST_ID: self.last_id}
            freed = writing.freed + packed_bytes(
                [writing.places[id] for id in unsaved if id in writing.places]
            )
            try:
                catalog.checkpoint(
                    Changes(
                        _rows(saved, writing.places, rest),
                        producers,
                        list(self.removed),
                        facts,
                        held,
                        writing.packs.written,
                        freed,
                        self.rows,
                    )
                )
            except _UnencodableError as error:
                failures.errors[error.stream_id] = error.reason
            except Exception as error:
                if not is_of_one_stream(error):
                    raise
                pairs = zip(_rows(saved, writing.places), [one.producers for one in saved], strict=True)
                found = catalog.find_unsavable(pairs, is_of_one_stream)
                if not found:
                    raise
                failures.errors.update(found)
            else:
                return {id: sum(len(one.record) for one in held if one.stream_id == id) for id in unsaved}

    def clean(self, disk: Disk, parts: Iterable[PartId], names: Iterable[str] = ()) -> None:
        """Remove the files of former parts and others, now that this is the state to recover from."""
        remove_parts(disk, parts)
        remove_files(disk, names)
        reach("checkpoint.cleaned")


class _UnencodableError(Exception):
    """A stream cannot be encoded as a row."""

    def __init__(self, stream_id: int, reason: Exception) -> None:
        super().__init__(stream_id)
        self.stream_id = stream_id
        self.reason = reason


def _rows(snapshots: Sequence[Snapshot], places: Mapping[int, Place], rest: Rest = no_rest) -> Iterator[Row]:
    """Encode streams one after the other: all at once would take more memory than they do."""
    for count, one in enumerate(snapshots):
        if not count % _ROWS_BETWEEN_RESTS:
            rest()
        stream = one.stream
        try:
            row = Row.of(stream, one.end, one.appends, places.get(stream.id, one.place))
        except Exception as error:
            if not is_of_one_stream(error):
                raise
            raise _UnencodableError(stream.id, error) from error
        yield row


def pack_ends(catalog: Catalog) -> PackEnds:
    """Give where the last pack ends."""
    packs = catalog.packs()
    return PackEnds.at(packs[-1].number, packs[-1].end) if packs else PackEnds.at(0, 0)


def remove_files(disk: Disk, names: Iterable[str]) -> set[str]:
    """Remove files, where they exist; give their folders."""
    folders = set()
    for name in names:
        disk.remove(name)
        folders.add(str(PurePath(name).parent))
    return folders
