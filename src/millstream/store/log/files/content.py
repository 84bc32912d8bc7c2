"""A stream's bytes: the older ones saved in packs or files, the newer ones in memory until a checkpoint.

base        start               flushed                        end
 |-- gone ---|------ saved --------|------ pieces in memory -----|

Where the saved ones are, the catalog says (`places`). What was trimmed is removed by checkpoints, file by
file (`layout`), once the log durably says so. Until then nothing reads it, and a recovery after a crash finds
it gone all the same. A file that is being read stays open; the checkpoint that removed it closes it
afterwards, which frees the room.

What forks share stays (`protocol.retention`). While there are forks, content after the shared range is
removed, but the index stays: it is searched from where the shared range begins.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from millstream.protocol.streams import Stream
from millstream.store.base import FilePart
from millstream.store.log.files import layout
from millstream.store.log.files.extents import WHOLE, Extent
from millstream.store.log.files.former_files import FormerFiles
from millstream.store.log.files.layout import (
    ONE_FILE,
    chunk_bytes,
    chunk_entries,
    content_name,
    former_index_name,
    index_name,
    sum_name,
    times_name,
)
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.own_files import OwnFiles
from millstream.store.log.files.packs import PackedBytes, slot_bytes
from millstream.store.log.files.places import NOWHERE, Filed, Former, Packed, Place, Slot
from millstream.store.log.files.writing import Unflushed
from millstream.store.pieces import Piece, Pieces


class SavedBytes(Protocol):
    """What is saved of a stream, from its base on."""

    end: int
    appends: int

    def bounds(self, position: int, extent: Extent, /) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        ...

    def count(self, position: int, extent: Extent, /) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        ...

    def start_of(self, append: int, extent: Extent, /) -> int:
        """Give where an append begins, by its number."""
        ...

    def time_of(self, append: int, extent: Extent, /) -> int:
        """Give when an append arrived."""
        ...

    def arrived_before(self, time_ms: int, extent: Extent, /) -> int:
        """Count the appends that arrived before a time, trimmed ones included."""
        ...

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        ...

    def locate(self, start: int, end: int) -> FilePart | None:
        """Give the file that has the bytes from start on, and how many of them, if one can be sent."""
        ...

    def examine(self, extent: Extent, /) -> Iterator[str | None]:
        """Read everything that can be read, a little in each step; gives what is wrong with it, or None."""
        ...


class StreamContent(msgspec.Struct, eq=False, gc=False):
    """The bytes of one stream. There is one for each stream in memory, so the garbage collector skips it."""

    _files: StreamFiles
    _id: int
    _base: int
    _chunk_bytes: int
    _created_ms: int
    _pieces: Pieces
    _extent: Extent
    _saved_extent: Extent
    _place: Place
    _saved: SavedBytes

    @classmethod
    def of(
        cls, files: StreamFiles, stream: Stream, flushed: int, appends: int, place: Place = NOWHERE
    ) -> "StreamContent":
        """Give the bytes of a stream, of which some are saved."""
        id, base, size, extent = stream.id, stream.base, chunk_bytes(stream.retention), Extent.of(stream)
        saved = _open(files, id, base, size, stream.created_ms, place, flushed, appends)
        # When a stream in packs gets files, that is from its beginning on.
        saved_extent = WHOLE if isinstance(place, Packed) else extent
        pieces, created_ms = Pieces(flushed), stream.created_ms
        return cls(files, id, base, size, created_ms, pieces, extent, saved_extent, place, saved)

    def _reopen(self, place: Place, end: int, appends: int) -> SavedBytes:
        return _open(
            self._files, self._id, self._base, self._chunk_bytes, self._created_ms, place, end, appends
        )

    @property
    def place(self) -> Place:
        """Where the saved bytes are."""
        return self._place

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self._pieces.end

    @property
    def appends(self) -> int:
        """How many appends there are, trimmed ones included."""
        return self._saved.appends + len(self._pieces)

    def append(self, piece: Piece, time_ms: int) -> None:
        """Add the bytes of one append, and when it arrived."""
        self._pieces.append(piece, time_ms)

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        if position >= self._saved.end:
            return self._pieces.bounds(position)
        return self._saved.bounds(position, self._extent)

    def count(self, position: int) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        if position >= self._saved.end:
            return self._saved.appends + self._pieces.count(position)
        return self._saved.count(position, self._extent)

    def start_of(self, append: int) -> int:
        """Give where an append begins, by its number."""
        inside = append - self._saved.appends
        return self._pieces.start_of(inside) if inside >= 0 else self._saved.start_of(append, self._extent)

    def time_of(self, append: int) -> int:
        """Give when an append arrived."""
        inside = append - self._saved.appends
        return self._pieces.time_of(inside) if inside >= 0 else self._saved.time_of(append, self._extent)

    def arrived_before(self, time_ms: int) -> int:
        """Count the appends that arrived before a time, trimmed ones included."""
        found = self._pieces.arrived_before(time_ms)
        if found or not self._saved.appends:
            return self._saved.appends + found
        return self._saved.arrived_before(time_ms, self._extent)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        flushed = self._saved.end
        if start >= flushed:
            return self._pieces.fetch(start, end)
        if end <= flushed:
            return self._saved.fetch(start, end)
        return self._saved.fetch(start, flushed) + self._pieces.fetch(flushed, end)

    def locate(self, start: int, end: int) -> FilePart | None:
        """Give the file that has the bytes from start on, and how many of them; None when memory has them."""
        flushed = self._saved.end
        return self._saved.locate(start, min(end, flushed)) if start < flushed else None

    def examine(self) -> Iterator[str | None]:
        """Read everything that is saved and can be read, a little in each step; gives what is wrong with it.

        A step reads no more than a block of content, a page of the index, or a small stream.
        """
        return self._saved.examine(self._extent)

    def distrust(self) -> None:
        """Verify again what was verified: something of it is damaged since."""
        if isinstance(self._saved, OwnFiles):
            self._saved = self._reopen(self._place, self._saved.end, self._saved.appends)

    # -- Saving ----------------------------------------------------------------------------------

    def unflushed(self, extent: Extent, trimmed: list[str]) -> Unflushed | None:
        """Give what a checkpoint has to write, if anything."""
        saved, place = self._saved, self._place
        is_same = not isinstance(place, Former) and (not trimmed or isinstance(place, Packed))
        if self._pieces.end == saved.end and is_same:
            return None
        data, ends, times = self._pieces.all()
        return Unflushed(
            self._id,
            self._base,
            self._chunk_bytes,
            self._created_ms,
            place,
            saved.end,
            saved.appends,
            extent,
            frozenset(trimmed),
            data,
            ends,
            times,
        )

    def drop_flushed(self, until: int, appends: int, place: Place) -> list[str]:
        """Drop from memory what is saved now; gives the files that are no longer needed because of that."""
        self._pieces.drop(until)
        saved, former = self._saved, self._place
        if isinstance(saved, OwnFiles) and isinstance(place, Filed):
            self._saved = saved.grown(place, until, appends)
        else:
            self._saved = self._reopen(place, until, appends)
        self._place = place
        return self._former_names(place) if isinstance(former, Former) and place is not former else []

    def move(self, moved: dict[Slot, Slot]) -> None:
        """Note that slots were copied to other packs."""
        if isinstance(self._place, Packed):
            place = Packed(tuple(moved.get(slot, slot) for slot in self._place.slots))
            self._saved = self._reopen(place, self._saved.end, self._saved.appends)
            self._place = place

    # -- Trimming --------------------------------------------------------------------------------

    def narrow(self, extent: Extent) -> None:
        """Read nothing outside of an extent any more: it is durable, and files may be removed."""
        self._extent = extent

    def removable(self, extent: Extent, end: int) -> list[str]:
        """Name the files that hold nothing of an extent and may not have been removed yet."""
        saved, size = self._saved_extent, self._chunk_bytes
        if extent == saved or size == ONE_FILE or end == self._base:
            return []
        lowest = saved.start if extent.shared == saved.shared else saved.lowest
        kept = extent.kept(end)
        names: list[str] = []
        for chunk in range(self._chunk_of(lowest), self._chunk_of(extent.start) + 1):
            if not self._is_needed(chunk, kept):
                names += content_name(self._id, chunk), sum_name(self._id, chunk)
        entries = chunk_entries(size)
        for chunk in range(saved.first_entry // entries, extent.first_entry // entries):
            names += self._index_names(chunk)
        return names

    def note_removed(self, extent: Extent) -> None:
        """Note that files outside of an extent are gone for good."""
        if not isinstance(self._place, Packed):
            self._saved_extent = extent

    def names(self) -> list[str]:
        """Name all files that may exist."""
        if isinstance(self._place, Packed) and not self._may_outgrow():
            return []
        saved, entries = self._saved_extent, chunk_entries(self._chunk_bytes)
        names: list[str] = []
        for chunk in range(self._chunk_of(saved.lowest), self._chunk_of(self.end) + 1):
            names += content_name(self._id, chunk), sum_name(self._id, chunk)
        for chunk in range(saved.first_entry // entries, self.appends // entries + 1):
            names += self._index_names(chunk)
        return names

    def _may_outgrow(self) -> bool:
        """Tell whether a checkpoint would give the stream files of its own, or is about to."""
        assert isinstance(self._place, Packed)
        size = sum(slot.size for slot in self._place.slots)
        return size + slot_bytes(self.end - self._saved.end, len(self._pieces)) > layout.PACKED_BYTES

    def _index_names(self, chunk: int) -> list[str]:
        names = [index_name(self._id, chunk), times_name(self._id, chunk)]
        is_former = isinstance(self._place, Former)
        return [*names, former_index_name(self._id, chunk)] if is_former else names

    def _former_names(self, place: Place) -> list[str]:
        """Name the files of format 3 that are no longer needed."""
        saved, entries = self._saved_extent, chunk_entries(self._chunk_bytes)
        chunks = range(saved.first_entry // entries, self.appends // entries + 1)
        names = [former_index_name(self._id, chunk) for chunk in chunks]
        return [*names, content_name(self._id)] if isinstance(place, Packed) else names

    def _chunk_of(self, position: int) -> int:
        return max(0, position - self._base) // self._chunk_bytes

    def _is_needed(self, chunk: int, kept: list[tuple[int, int]]) -> bool:
        first = self._base + chunk * self._chunk_bytes
        return any(first < end and start < first + self._chunk_bytes for start, end in kept)


def _open(
    files: StreamFiles,
    id: int,
    base: int,
    chunk_bytes: int,
    created_ms: int,
    place: Place,
    end: int,
    appends: int,
) -> SavedBytes:
    if isinstance(place, Packed):
        return PackedBytes(files, id, base, created_ms, place.slots, end, appends)
    if isinstance(place, Former):
        return FormerFiles(files, id, base, chunk_bytes, created_ms, end, appends)
    return OwnFiles(files, id, base, chunk_bytes, place, end, appends)
