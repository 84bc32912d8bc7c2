"""Residents: the streams that are in memory, and how the others are brought in from the catalog.

A stream is in one of these states, and moves between them only by what is written beside the arrows:

              create                      checkpoint
        ----------------->  dirty  <------------------->  clean
                              ^         any change          |  ^
                              | end                   evict |  | load
                              v                             v  |
                            lost  ------------------>  in the catalog only
                                      checkpoint            (or nowhere, when it was lost)
"""

from itertools import groupby

from millstream.store.log.catalog import Catalog, Row
from millstream.store.log.files.content import StreamContent, StreamFiles
from millstream.store.log.files.staged import PartId, StoredPart, find_parts, part_name
from millstream.store.log.wal.segments import DamagedError
from millstream.store.table import Kept


class Residents:
    """The streams in memory."""

    def __init__(self, catalog: Catalog, files: StreamFiles, next_id: int) -> None:
        self._catalog = catalog
        self._files = files
        self.next_id = next_id
        self.by_name: dict[str, Kept] = {}
        self.by_id: dict[int, Kept] = {}
        self.dirty: dict[int, Kept] = {}
        self.changed_bytes = 0
        """How much was logged since the last checkpoint."""
        self.lost: dict[int, list[str]] = {}
        """Streams that are gone, though the catalog may still have them, and their files."""
        self.unsaved_names: set[str] = set()
        self.released: set[PartId] = set()
        """Parts that are none any more, though the catalog may still list them: they may have files."""

    @property
    def has_changed(self) -> bool:
        """Whether a checkpoint would have anything to write."""
        return bool(self.dirty or self.lost or self.released)

    def find(self, name: str) -> Kept | None:
        """Find a stream by its name, in memory or in the catalog."""
        kept = self.by_name.get(name)
        if kept is None and (row := self._catalog.by_name(name)) is not None:
            kept = self._load(row)
        return kept

    def get(self, stream_id: int) -> Kept | None:
        """Find a stream by its id, in memory or in the catalog."""
        kept = self.by_id.get(stream_id)
        if kept is None and (row := self._catalog.by_id(stream_id)) is not None:
            kept = self._load(row)
        return kept

    def add(self, kept: Kept) -> None:
        """Take in a new stream."""
        stream = kept.stream
        self.by_id[stream.id] = self.by_name[stream.name] = self.dirty[stream.id] = kept
        self.unsaved_names.add(stream.name)

    def lose(self, kept: Kept) -> None:
        """Let go of a stream that is no more."""
        stream = kept.stream
        self.by_id.pop(stream.id, None)
        self.dirty.pop(stream.id, None)
        if self.by_name.get(stream.name) is kept:
            del self.by_name[stream.name]
        if stream.name not in self.by_name:
            self.unsaved_names.discard(stream.name)
        self.lost[stream.id] = content_of(kept).names()
        self.release(stream.id, kept.drop_staged())

    def release(self, stream_id: int, numbers: list[int]) -> None:
        """Take note that the files of parts can go once the catalog lists them no more."""
        self.released.update((stream_id, number) for number in numbers)

    def load_staged(self) -> None:
        """Bring in the streams whose parts have files, and find the files that nobody needs."""
        for stream_id, found in groupby(find_parts(self._files.disk), lambda part: part[0]):
            kept = self.get(stream_id)
            needed = self._listed(stream_id).union(kept.staged) if kept is not None else set()
            self.released.update(part for part in found if part[1] not in needed)

    def evict(self, kept: Kept) -> None:
        """Let go of a stream that the catalog has as it is."""
        del self.by_id[kept.stream.id]
        del self.by_name[kept.stream.name]

    def _listed(self, stream_id: int) -> set[int]:
        row = self._catalog.by_id(stream_id)
        staged = row.stream().staged if row is not None else None
        return {part.number for part in staged.parts.values()} if staged is not None else set()

    def _load(self, row: Row) -> Kept | None:
        if row.stream_id in self.lost:
            return None
        rows = [(row, row.stream())]
        kept: Kept | None = None
        while (fork := rows[-1][1].fork) is not None and (kept := self.by_id.get(fork.source_id)) is None:
            above = self._catalog.by_id(fork.source_id)
            if above is None:
                raise DamagedError(f"catalog.db: {fork.source_name}, the source of {row.name}, is missing.")
            rows.append((above, above.stream()))
        for row, stream in reversed(rows):
            kept = Kept(stream, kept, StreamContent(self._files, stream, row.flushed, row.appends))
            kept.tail, kept.closed = stream.tail, stream.closed
            if stream.staged is not None:
                for part in stream.staged.parts.values():
                    name = part_name((stream.id, part.number))
                    kept.staged[part.number] = StoredPart(self._files, name, part.size)
            self.by_id[stream.id] = self.by_name[stream.name] = kept
        return kept


def content_of(kept: Kept) -> StreamContent:
    """Give a stream's content as what it is here."""
    assert isinstance(kept.content, StreamContent)  # this engine makes no other
    return kept.content
