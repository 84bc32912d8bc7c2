"""Writing what streams have new to packs and files, and making it durable; called off the event loop.

Where it goes is decided here, for each stream by what it has in all:

        little                        a slot more at the end of the last pack
        little, in many slots         one slot instead of the last of them, those that are small
        more than `PACKED_BYTES`      files of its own, from its beginning; from then on their ends
        files that no longer suit it  files of the next edition, from where it begins now
        files of format 3             the same as a stream that is new, by what it has in all; content that
                                      is in a file stays there, and gets checksums and an index beside it

Nothing is overwritten that the catalog may know of. So until the catalog says where a stream's bytes are
now, they are where it said before, and a crash or an error in here changes nothing.
"""

import contextlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from millstream.store.log.disk import Disk, File
from millstream.store.log.failpoints import reach
from millstream.store.log.files import layout as layouts
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.failures import Failures
from millstream.store.log.files.former_files import FormerFiles
from millstream.store.log.files.index import PagePart, write_pages
from millstream.store.log.files.layout import Layout, cut, folder_of, spans
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.own_files import OwnFiles
from millstream.store.log.files.packs import (
    FOLDER,
    Appends,
    kept_slots,
    pack_name,
    read_slots,
    slot_bytes,
)
from millstream.store.log.files.places import Filed, Packed, Place, Released, Slot
from millstream.store.log.files.staged import joined, runs
from millstream.store.log.files.sums import SUM_BYTES, ContentSums, pack_sums
from millstream.store.log.pace import Rest, no_rest
from millstream.store.pieces import Piece, ends_of, unpacked

_SYNC_EACH = 24
"""Up to so many files are synced one by one; for more, one sync of everything is cheaper."""
_ENTRIES_STEP = 2**16
_CONTENT_STEP = 2**20
_PACKED_STEP = 2**22
"""How much of packs is in memory before it is written."""
NOTHING_TRIMMED: Final[frozenset[str]] = frozenset()
"""Shared: one for each stream would be 216 bytes."""


class Unflushed(msgspec.Struct, frozen=True, gc=False):
    """What a checkpoint writes of a stream, and what was written before."""

    stream_id: int
    base: int
    created_ms: int
    layout: Layout
    """That of its files; of a stream in packs, of those that it may get."""
    place: Place
    flushed: int
    appends: int
    end: int
    """Where what is new ends."""
    count: int
    """How many appends are new."""
    extent: Extent
    trimmed: frozenset[str]
    """Files that hold nothing any more, and are removed by the same checkpoint."""
    packed: bytes
    """What is new, if that is packed (`pieces`); otherwise the lists have it."""
    entries: bytes
    """The sizes and times of what is packed."""
    data: list[Piece]
    ends: "array[int]"
    times: "array[int]"
    next_layout: Layout | None
    """That of the files to which all of it is written once more, if that is worth it."""

    def unpacked(self) -> "Unflushed":
        """Give the same with lists; not before it is written, because of the room that it takes."""
        if not self.entries:
            return self
        sizes, times = unpacked(self.entries)
        ends = ends_of(sizes, self.flushed)
        return replace(self, packed=b"", entries=b"", data=[self.packed], ends=ends, times=array("Q", times))

    def new(self, disk: Disk) -> Appends:
        """Give what is new, which is small."""
        if not self.entries:
            return self._appends(self.ends, self.times, joined(disk, self.data))
        sizes, times = unpacked(self.entries)
        return self._appends(ends_of(sizes, self.flushed), times, self.packed)

    def _appends(self, ends: Sequence[int], times: Sequence[int], content: bytes) -> Appends:
        return Appends(self.stream_id, self.flushed, self.appends, ends, times, content)

    @property
    def position(self) -> int:
        """How many of its own bytes were written before."""
        return self.flushed - self.base

    @property
    def new_bytes(self) -> int:
        """How many bytes are new."""
        return self.end - self.flushed


class PackEnds(msgspec.Struct):
    """Where packs end: the last one, and those that were written to."""

    last: int
    end: int
    written: dict[int, int]
    added: int = 0
    """How many bytes in all."""

    @classmethod
    def at(cls, last: int, end: int) -> "PackEnds":
        """Begin at the end of a pack."""
        return cls(last, end, {})

    def add(self, size: int) -> Slot:
        """Give the place for more; a pack that is large enough is followed by the next one."""
        if self.last == 0 or (self.end and self.end + size > layouts.PACK_BYTES):
            self.last, self.end = self.last + 1, 0
        slot = Slot(self.last, self.end, size)
        self.end += size
        self.added += size
        self.written[self.last] = self.end
        return slot


class Writing:
    """One round of writing, and what it did."""

    def __init__(self, disk: Disk, packs: PackEnds) -> None:
        self._disk = disk
        self._began = packs.last, packs.end
        self.packs = packs
        self.places: dict[int, Place] = {}
        """Where the saved bytes of each stream are now."""
        self.freed: Counter[int] = Counter()
        """How many bytes of each pack nothing refers to any more."""
        # A full disk must be able to save deletions: then nothing is written anew that need not be.
        self._may_rewrite_bytes = disk.free_bytes() // 4
        self._slots: defaultdict[int, list[bytes]] = defaultdict(list)  # by pack, those to be written next
        self._written: dict[str, int] = {}  # the files that were written, each from which position on
        self._folders: set[str] = set()
        self._rest = no_rest

    def write(self, unflushed: Sequence[Unflushed], failures: Failures, rest: Rest = no_rest) -> None:
        """Write everything, and make it durable."""
        self._rest = rest
        reading = StreamFiles(self._disk)  # those of the event loop are not ours to use
        written = 0
        try:
            for one in unflushed:
                rest()
                try:
                    self._write_one(one, reading)
                except Exception as error:
                    failures.note(one.stream_id, error)
                if self.packs.added - written >= _PACKED_STEP:
                    self.write_slots()
                    written = self.packs.added
        finally:
            reading.close()
        reach("writing.filed")
        self.write_slots()
        self.sync()

    def take_back(self) -> None:
        """Free what was written, after there was no room for all of it."""
        last, end = self._began
        for number in self.packs.written:
            self._written[pack_name(number)] = end if number == last else 0
        for name, position in self._written.items():
            with contextlib.suppress(OSError):  # it is not there, or nothing could be written to it
                file = self._disk.open(name)
                try:
                    file.truncate(min(position, file.size()))
                finally:
                    file.close()

    def _write_one(self, one: Unflushed, reading: StreamFiles) -> None:
        place, id = one.place, one.stream_id
        if isinstance(place, Packed):
            self._write_packed(one, place.slots, reading)
            return
        one = one.unpacked()
        if isinstance(place, Filed):
            if one.next_layout is not None and self._may_rewrite(one.flushed - one.extent.start):
                place = self._copy(one, place, one.next_layout, reading)
                reach("writing.rewritten")
            self.places[id] = self._write_filed(one, place, one.data, one.ends, one.times)
        else:
            former = FormerFiles(
                reading, id, one.base, place.layout, one.created_ms, one.flushed, one.appends
            )
            before = _former_appends(one, former)
            if before is None:
                self.places[id] = self._convert(one, former, reading)
            else:
                self.places[id] = self._pack(one, before, ())
            reach("writing.converted")

    def _may_rewrite(self, size: int) -> bool:
        """Take room for something that is written anew and need not be; False when there is too little."""
        if size > self._may_rewrite_bytes:
            return False
        self._may_rewrite_bytes -= size
        return True

    # -- Packs -----------------------------------------------------------------------------------

    def _write_packed(self, one: Unflushed, known: tuple[Slot, ...], reading: StreamFiles) -> None:
        """Add a slot to those of a small stream, or join some to it, or give it files of its own."""
        sizes = [slot.size for slot in known]
        new_bytes = slot_bytes(one.new_bytes, one.count)
        has_outgrown = sum(sizes) + new_bytes > layouts.PACKED_BYTES
        count = 0 if has_outgrown else kept_slots(sizes, new_bytes)
        kept, joined = known[:count], known[count:]
        before = None
        if joined and self._may_rewrite(sum(sizes[count:])):
            found = read_slots(reading, one.stream_id, one.flushed, one.appends, one.created_ms, joined)
            before = Appends.joined(found)
        elif joined:
            kept, joined, has_outgrown = known, (), False
        if has_outgrown:
            self.places[one.stream_id] = self._outgrow(one, before)
        else:
            self.places[one.stream_id] = self._pack(one, before, kept)
        for slot in joined:
            self.freed[slot.pack] += slot.size

    def _pack(self, one: Unflushed, before: Appends | None, kept: tuple[Slot, ...]) -> Packed:
        new = one.new(self._disk)
        if before is not None:
            new = Appends.joined([before, new])
        if not new.ends:
            return Packed(kept)
        return Packed((*kept, self.add_slot(new.encode(one.created_ms))))

    def _outgrow(self, one: Unflushed, before: Appends | None) -> Filed:
        one = one.unpacked()
        data, ends, times = one.data, one.ends, one.times
        if before is not None:
            data = [before.content, *data]
            ends, times = array("Q", (*before.ends, *ends)), array("Q", (*before.times, *times))
        place = self._write_filed(one, Filed(one.layout), data, ends, times, is_new=True)
        reach("writing.outgrown")
        return place

    def add_slot(self, encoded: bytes) -> Slot:
        """Give a slot its place; many are written together (`write_slots`)."""
        slot = self.packs.add(len(encoded))
        self._slots[slot.pack].append(encoded)
        return slot

    def write_slots(self) -> None:
        """Write the slots that were added, which follow one another in the packs."""
        if not self._slots:
            return
        self._disk.make_folder(FOLDER)
        for number, slots in self._slots.items():
            position = self.packs.written[number] - sum(map(len, slots))
            file = self._open(pack_name(number), position)
            try:
                file.write(slots, position)
            finally:
                file.close()
        self._slots.clear()
        reach("writing.packed")

    # -- Files of their own ----------------------------------------------------------------------

    def _write_filed(
        self,
        one: Unflushed,
        place: Filed,
        data: list[Piece],
        ends: "array[int]",
        times: "array[int]",
        *,
        is_new: bool = False,
    ) -> Filed:
        """Write to the ends of a stream's own files, or begin them."""
        position, appends = (0, 0) if is_new else (one.position, one.appends)
        self._disk.make_folder(folder_of(one.stream_id))
        place = self._begun_anew(one, place, position)
        sums = ContentSums(one.stream_id, position, place.content_sum)
        if data:
            self._write_content(one.stream_id, place.layout, data, position, sums)
        place = self._write_index(one.stream_id, place, ends, times, appends)
        place = replace(place, content_sum=sums.partial)
        return self._begun_anew(one, place, position + sum(map(len, data)))

    def _begun_anew(self, one: Unflushed, place: Filed, position: int) -> Filed:
        """Begin the last block anew if the file that it is in has been removed, or will be.

        Also if nothing of that file is needed: then a checkpoint that did not finish may have removed it.
        """
        layout = place.layout
        chunk, inside = divmod(position, layout.chunk_bytes)
        is_trimmed = layout.content_name(one.stream_id, chunk) in one.trimmed
        if not is_trimmed and (not inside or _is_any_needed(one, position - inside, position)):
            return place
        sum = ContentSums(one.stream_id, position, None).partial
        return replace(place, content_sum=sum, begins=(*_needed(one, place.begins), position))

    def _write_content(
        self, stream_id: int, layout: Layout, data: list[Piece], position: int, sums: ContentSums
    ) -> None:
        for chunk, inside, pieces in cut(data, position, layout.chunk_bytes):
            name = layout.content_name(stream_id, chunk)
            full: list[int] = []
            file = self._open(name, inside)
            at = inside
            try:
                for run in runs(self._disk, pieces):
                    self._rest()
                    file.write([run], at)
                    at += len(run)
                    full += sums.add(run)
            finally:
                file.close()
            if full:
                place = inside // layouts.BLOCK_BYTES * SUM_BYTES
                self._write(layout.sum_name(stream_id, chunk), pack_sums(full), place)

    def _write_index(
        self, stream_id: int, place: Filed, ends: "array[int]", times: "array[int]", first: int
    ) -> Filed:
        """Write the entries of appends; gives what the catalog says of the last page."""
        layout = place.layout
        pages_per_file = layout.chunk_entries // layouts.PAGE_ENTRIES
        parts: list[PagePart] = []
        for part, after in write_pages(stream_id, first, pages_per_file, place, ends, times):
            self._rest()
            parts.append(part)
            place = after
        for chunk, group in groupby(parts, lambda part: part.chunk):
            found = list(group)
            entries = b"".join([part.ends for part in found])
            self._write(layout.index_name(stream_id, chunk), entries, found[0].position)
            encoded_times = b"".join([part.times for part in found])
            if encoded_times:
                self._write(layout.times_name(stream_id, chunk), encoded_times, found[0].times_position)
        return place

    def _copy(self, one: Unflushed, place: Filed, layout: Layout, reading: StreamFiles) -> Filed:
        """Write what is kept to files of the next edition; the catalog still refers to the former ones."""
        own = OwnFiles(reading, one.stream_id, one.base, place, one.flushed, one.appends)
        self._disk.make_folder(folder_of(one.stream_id))
        begin = max(one.extent.start, one.base)
        sums = ContentSums(one.stream_id, begin - one.base, None)
        for start in range(begin, one.flushed, _CONTENT_STEP):
            data = own.fetch(start, min(start + _CONTENT_STEP, one.flushed))
            self._write_content(one.stream_id, layout, [data], start - one.base, sums)
        first = one.extent.first_entry // layouts.PAGE_ENTRIES * layouts.PAGE_ENTRIES
        copy = Filed(layout, sums.partial, begins=(begin - one.base,), first_entry=first)
        for step in range(first, one.appends, _ENTRIES_STEP):
            ends, times = own.entries(step, min(step + _ENTRIES_STEP, one.appends))
            copy = self._write_index(one.stream_id, copy, ends, times, step)
        former = place.layout
        # Also those that a checkpoint which did not finish may have written for what is new.
        end, appends = one.position + one.new_bytes, one.appends + one.count
        chunks = (begin - one.base) // former.chunk_bytes, end // former.chunk_bytes + 1
        index_chunks = first // former.chunk_entries, appends // former.chunk_entries + 1
        return replace(copy, released=Released(former, chunks, index_chunks))

    # -- Files of format 3 -----------------------------------------------------------------------

    def _convert(self, one: Unflushed, former: FormerFiles, reading: StreamFiles) -> Filed:
        """Write checksums and an index for what is there, then what is new."""
        layout = former.layout
        place = self._sum_content(one, layout, reading)
        per_file = layout.chunk_entries
        first = one.extent.first_entry // per_file * per_file
        for step in range(first, one.appends, _ENTRIES_STEP):
            ends = former.ends(step, min(step + _ENTRIES_STEP, one.appends))
            place = self._write_index(one.stream_id, place, ends, former.times(len(ends)), step)
        return self._write_filed(one, place, one.data, one.ends, one.times)

    def _sum_content(self, one: Unflushed, layout: Layout, reading: StreamFiles) -> Filed:
        """Compute the checksums of all blocks of the files that are there."""
        size = layout.chunk_bytes
        chunks = sorted(
            {
                chunk
                for start, end in one.extent.kept(one.flushed)
                for chunk, _, _ in spans(max(start - one.base, 0), end - one.base, size)
            }
        )
        sums = ContentSums(one.stream_id, one.position, None)
        last_chunk = one.position // size
        for chunk in chunks:
            begin, end = chunk * size, min((chunk + 1) * size, one.position)
            sums = ContentSums(one.stream_id, begin, None)
            full: list[int] = []
            for at in range(begin, end, _CONTENT_STEP):
                count = min(_CONTENT_STEP, end - at)
                name = layout.content_name(one.stream_id, chunk)
                full += sums.add(reading.read_file(name, count, at - begin))
            if full:
                self._write(layout.sum_name(one.stream_id, chunk), pack_sums(full), 0)
        is_there = last_chunk in chunks or one.position % size == 0
        return Filed(layout, sums.partial, 0, () if is_there else (one.position,))

    # -- Files -----------------------------------------------------------------------------------

    def _open(self, name: str, position: int) -> File:
        file = self._disk.open(name, create=True)
        self._written[name] = min(position, self._written.get(name, position))
        self._folders.add(name.rpartition("/")[0])
        return file

    def _write(self, name: str, data: bytes, position: int) -> None:
        file = self._open(name, position)
        try:
            file.write([data], position)
        finally:
            file.close()

    def sync(self) -> None:
        """Make everything durable that was written, and the names of its files."""
        if len(self._written) > _SYNC_EACH and self._disk.sync_all():
            return
        for name in self._written:
            with _opened(self._disk, name) as file:
                file.sync()
        for folder in sorted(self._folders):
            self._disk.sync_folder(folder)


def sync_folders(disk: Disk, folders: set[str]) -> None:
    """Make the names in folders durable, where they exist."""
    if len(folders) > _SYNC_EACH and disk.sync_all():
        return
    for folder in sorted(folders):
        with contextlib.suppress(FileNotFoundError):  # nothing was ever written there
            disk.sync_folder(folder)


@contextlib.contextmanager
def _opened(disk: Disk, name: str) -> Iterator[File]:
    file = disk.open(name)
    try:
        yield file
    finally:
        file.close()


def _needed(one: Unflushed, begins: tuple[int, ...]) -> tuple[int, ...]:
    """Give those of the places where files begin from which something may still be read."""
    kept = [(start - one.base, end - one.base) for start, end in one.extent.kept(one.flushed)]
    return tuple(
        begin
        for begin in begins
        if any(start < begin + layouts.BLOCK_BYTES and begin < end for start, end in kept)
    )


def _is_any_needed(one: Unflushed, start: int, end: int) -> bool:
    """Tell whether any byte of a range may still be read; positions are those of the stream's own bytes."""
    start, end = one.base + start, one.base + end
    return any(first < end and start < last for first, last in one.extent.kept(end))


def _former_appends(one: Unflushed, former: FormerFiles) -> Appends | None:
    """Give all that a small stream has in files of format 3; None when it is not small, or was trimmed."""
    is_whole = one.extent.lowest <= one.base and one.extent.first_entry == 0
    size = slot_bytes(one.position + one.new_bytes, one.appends + one.count)
    if not is_whole or size > layouts.PACKED_BYTES:
        return None
    ends = former.ends(0, one.appends)
    content = former.fetch(one.base, one.flushed)
    return Appends(one.stream_id, one.base, 0, ends, former.times(len(ends)), content)
