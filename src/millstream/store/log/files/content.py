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

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from millstream.protocol.retention import Retention
from millstream.protocol.streams import Stream
from millstream.store.base import FilePart
from millstream.store.log.files import layout
from millstream.store.log.files.extents import WHOLE, Extent
from millstream.store.log.files.former_files import FormerFiles
from millstream.store.log.files.index import END_BYTES
from millstream.store.log.files.layout import (
    MOST_REWRITTEN,
    ONE_FILE,
    Layout,
    first_layout,
    is_worth_rewriting,
    suited_bytes,
)
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.own_files import OwnFiles
from millstream.store.log.files.packs import PackedBytes, slot_bytes
from millstream.store.log.files.places import NOWHERE, Filed, Former, Packed, Place, Slot
from millstream.store.log.files.sums import ContentSums
from millstream.store.log.files.writing import NOTHING_TRIMMED, Unflushed
from millstream.store.pieces import Pieces


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


class StreamContent(Pieces, kw_only=True, eq=False, gc=False):
    """The bytes of one stream: those that are saved, and as pieces those that are not.

    There is one for each stream in memory, so the garbage collector skips it.
    """

    _saved: SavedBytes
    _place: Place
    _extent: Extent
    _files: StreamFiles
    _id: int
    _stream_base: int
    _layout: Layout
    _created_ms: int
    _saved_extent: Extent
    _next_layout: Layout | None = None
    """That of files which may exist: a checkpoint was to write it to them, and did not finish."""

    @classmethod
    def of(
        cls, files: StreamFiles, stream: Stream, flushed: int, appends: int, place: Place = NOWHERE
    ) -> "StreamContent":
        """Give the bytes of a stream, of which some are saved."""
        id, base, extent, created_ms = stream.id, stream.base, Extent.of(stream), stream.created_ms
        layout = first_layout(stream.retention) if isinstance(place, Packed) else place.layout
        saved = _open(files, id, base, created_ms, place, flushed, appends)
        # When a stream in packs gets files, that is from its beginning on.
        saved_extent = WHOLE if isinstance(place, Packed) else extent
        return cls(
            base=flushed,
            _saved=saved,
            _place=place,
            _extent=extent,
            _files=files,
            _id=id,
            _stream_base=base,
            _layout=layout,
            _created_ms=created_ms,
            _saved_extent=saved_extent,
        )

    @classmethod
    def beginning_at(cls, files: StreamFiles, stream: Stream, position: int, append: int) -> "StreamContent":
        """Give the place for a stream that has lost what was before a position: so many appends.

        Packs hold a stream from its base on, so it gets files of its own. Their index begins with a page,
        whose first entries stand for appends that are gone.
        """
        if position == stream.base:
            return cls.of(files, stream, position, 0)
        first = append // layout.PAGE_ENTRIES * layout.PAGE_ENTRIES
        begin = position - stream.base
        place = Filed(
            first_layout(stream.retention),
            ContentSums(stream.id, begin, None).partial,
            begins=(begin,),
            first_entry=first,
        )
        content = cls.of(files, stream, position, first, place)
        for _ in range(append - first):
            content.append(b"", stream.created_ms)
        return content

    def _reopen(self, place: Place, end: int, appends: int) -> SavedBytes:
        return _open(self._files, self._id, self._stream_base, self._created_ms, place, end, appends)

    @property
    def place(self) -> Place:
        """Where the saved bytes are."""
        return self._place

    @property
    def slots(self) -> int:
        """How many slots of packs have its saved bytes."""
        return len(self._place.slots) if isinstance(self._place, Packed) else 0

    @property
    def appends(self) -> int:
        """How many appends there are, trimmed ones included."""
        return self._saved.appends + len(self)

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        if position >= self._saved.end:
            return super().bounds(position)
        return self._saved.bounds(position, self._extent)

    def count(self, position: int) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        if position >= self._saved.end:
            return self._saved.appends + super().count(position)
        return self._saved.count(position, self._extent)

    def start_of(self, append: int) -> int:
        """Give where an append begins, by its number."""
        inside = append - self._saved.appends
        return super().start_of(inside) if inside >= 0 else self._saved.start_of(append, self._extent)

    def time_of(self, append: int) -> int:
        """Give when an append arrived."""
        inside = append - self._saved.appends
        return super().time_of(inside) if inside >= 0 else self._saved.time_of(append, self._extent)

    def arrived_before(self, time_ms: int) -> int:
        """Count the appends that arrived before a time, trimmed ones included."""
        found = super().arrived_before(time_ms)
        if found or not self._saved.appends:
            return self._saved.appends + found
        return self._saved.arrived_before(time_ms, self._extent)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        flushed = self._saved.end
        if start >= flushed:
            return super().fetch(start, end)
        if end <= flushed:
            return self._saved.fetch(start, end)
        return self._saved.fetch(start, flushed) + super().fetch(flushed, end)

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

    def plan_layout(self, extent: Extent, retention: Retention) -> Layout | None:
        """Choose the layout of files that a stream may get; gives that of the next edition, if one is due."""
        if isinstance(self._place, Packed):
            self._layout = first_layout(retention)
            return None
        return self.plan_rewriting(extent, retention)

    def plan_rewriting(self, extent: Extent, retention: Retention) -> Layout | None:
        """Give the layout that suits what the stream keeps, if its own no longer does."""
        place = self._place
        layout = self._better_layout(place, extent, retention) if isinstance(place, Filed) else None
        self._next_layout = layout or self._next_layout
        return layout

    def _better_layout(self, place: Filed, extent: Extent, retention: Retention) -> Layout | None:
        saved, base, current = self._saved, self._stream_base, place.layout
        start, first = max(extent.start, base) - base, extent.first_entry
        if extent.shared is not None or extent.start > saved.end:
            return None  # forks read what is before, or nothing of the files is needed
        entries = current.chunk_entries
        begin = max((begin for begin in place.begins if begin <= start), default=0)
        trimmed = start - max(begin, start // current.chunk_bytes * current.chunk_bytes)
        trimmed += END_BYTES * max(0, first - max(place.first_entry, first // entries * entries))
        copied = saved.end - base - start + END_BYTES * (saved.appends - first)
        kept, suited = copied + self.end - saved.end, suited_bytes(retention)
        if copied > MOST_REWRITTEN or not is_worth_rewriting(current.chunk_bytes, suited, kept, trimmed):
            return None
        return current.following(suited)

    def unflushed(
        self, extent: Extent, trimmed: Sequence[str], next_layout: Layout | None = None
    ) -> Unflushed | None:
        """Give what a checkpoint has to write, if anything."""
        saved, place, count = self._saved, self._place, len(self)
        is_same = isinstance(place, Packed)
        if isinstance(place, Filed):
            is_same = not trimmed and next_layout is None and place.released is None
            if place.released is not None:
                place = msgspec.structs.replace(place, released=None)  # this checkpoint has removed them
        if not count and is_same:
            return None
        self._is_shared = True
        return Unflushed(
            self._id,
            self._stream_base,
            self._created_ms,
            self._layout,
            place,
            saved.end,
            saved.appends,
            self.end,
            count,
            extent,
            frozenset(trimmed) if trimmed else NOTHING_TRIMMED,
            self._packed,
            self._entries,
            self._pieces,
            self._ends,
            self._times,
            next_layout,
        )

    def drop_flushed(self, until: int, appends: int, place: Place) -> list[str]:
        """Drop from memory what is saved now; gives the files that are no longer needed because of that."""
        self.drop(until)
        saved, former = self._saved, self._place
        if isinstance(saved, PackedBytes) and isinstance(place, Packed):
            saved.grow(place.slots, until, appends)
            self._place = place
            return []
        is_same = isinstance(former, Filed) and isinstance(place, Filed) and former.layout == place.layout
        if isinstance(saved, OwnFiles) and isinstance(place, Filed) and is_same:
            self._saved = saved.grown(place, until, appends)
        else:
            self._saved = self._reopen(place, until, appends)
        self._place, self._next_layout = place, None
        if isinstance(former, Former) and place is not former:
            return self._former_names(former.layout, place)
        if not isinstance(place, Packed):
            self._layout = place.layout
        return self.released_names()

    def released_names(self) -> list[str]:
        """Name the files of a former edition that the catalog needs no more, and may still be there."""
        place = self._place
        released = place.released if isinstance(place, Filed) else None
        return released.names(self._id) if released is not None else []

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

    def removable(self, extent: Extent, end: int) -> Sequence[str]:
        """Name the files that hold nothing of an extent and may not have been removed yet."""
        saved, size = self._saved_extent, self._layout.chunk_bytes
        if extent is WHOLE or extent == saved or size == ONE_FILE or end == self._stream_base:
            return ()
        lowest = saved.start if extent.shared == saved.shared else saved.lowest
        kept = extent.kept(end)
        names: list[str] = []
        for chunk in range(self._chunk_of(lowest), self._chunk_of(extent.start) + 1):
            if not self._is_needed(chunk, kept):
                names += self._layout.content_name(self._id, chunk), self._layout.sum_name(self._id, chunk)
        entries = self._layout.chunk_entries
        for chunk in range(saved.first_entry // entries, extent.first_entry // entries):
            names += self._index_names(self._layout, chunk)
        return names

    def note_removed(self, extent: Extent) -> None:
        """Note that files outside of an extent are gone for good."""
        if not isinstance(self._place, Packed):
            self._saved_extent = extent

    def names(self) -> list[str]:
        """Name all files that may exist."""
        if isinstance(self._place, Packed) and not self._may_outgrow():
            return []
        names = self._all_names(self._layout)
        if self._next_layout is not None:
            names += self._all_names(self._next_layout)
        return names + self.released_names()

    def _all_names(self, layout: Layout) -> list[str]:
        saved, size, entries = self._saved_extent, layout.chunk_bytes, layout.chunk_entries
        first, last = max(0, saved.lowest - self._stream_base) // size, (self.end - self._stream_base) // size
        names: list[str] = []
        for chunk in range(first, last + 1):
            names += layout.content_name(self._id, chunk), layout.sum_name(self._id, chunk)
        for chunk in range(saved.first_entry // entries, self.appends // entries + 1):
            names += self._index_names(layout, chunk)
        return names

    def _may_outgrow(self) -> bool:
        """Tell whether a checkpoint would give the stream files of its own, or is about to."""
        assert isinstance(self._place, Packed)
        size = sum(slot.size for slot in self._place.slots)
        return size + slot_bytes(self.end - self._saved.end, len(self)) > layout.PACKED_BYTES

    def _index_names(self, layout: Layout, chunk: int) -> list[str]:
        names = [layout.index_name(self._id, chunk), layout.times_name(self._id, chunk)]
        is_former = isinstance(self._place, Former)
        return [*names, layout.former_index_name(self._id, chunk)] if is_former else names

    def _former_names(self, layout: Layout, place: Place) -> list[str]:
        """Name the files of format 3 that are no longer needed."""
        saved, entries = self._saved_extent, layout.chunk_entries
        chunks = range(saved.first_entry // entries, self.appends // entries + 1)
        names = [layout.former_index_name(self._id, chunk) for chunk in chunks]
        return [*names, layout.content_name(self._id)] if isinstance(place, Packed) else names

    def _chunk_of(self, position: int) -> int:
        return max(0, position - self._stream_base) // self._layout.chunk_bytes

    def _is_needed(self, chunk: int, kept: list[tuple[int, int]]) -> bool:
        size = self._layout.chunk_bytes
        first = self._stream_base + chunk * size
        return any(first < end and start < first + size for start, end in kept)


def _open(
    files: StreamFiles, id: int, base: int, created_ms: int, place: Place, end: int, appends: int
) -> SavedBytes:
    if isinstance(place, Packed):
        return PackedBytes(files, id, base, created_ms, place.slots, end, appends)
    if isinstance(place, Former):
        return FormerFiles(files, id, base, place.layout, created_ms, end, appends)
    return OwnFiles(files, id, base, place, end, appends)
