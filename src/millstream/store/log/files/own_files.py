"""The saved bytes of a stream with files of its own (`layout`), and how they are verified (`sums`, `index`).

A block is verified before any of its bytes are given out, and remembered as verified; after that its bytes
may also go from the file to a socket directly. Pages of the index are verified with every read.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import partial

import msgspec

from millstream.store.base import FilePart
from millstream.store.log.files import layout
from millstream.store.log.files.examining import complaint_of
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.index import (
    END_BYTES,
    Page,
    Times,
    page_bytes,
    read_full_page,
    read_partial_page,
    read_times,
)
from millstream.store.log.files.layout import spans
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.places import Filed
from millstream.store.log.files.sums import SUM_BYTES, is_block, unpack_sums
from millstream.store.log.wal.segments import DamagedError

_MAX_LOCATED = 2**20
"""How much is verified at most for one call of `locate`, which holds up the event loop."""


class OwnFiles(msgspec.Struct, eq=False, gc=False):
    """What a stream's own files hold, from its base to `end`."""

    _files: StreamFiles
    _id: int
    _base: int
    _place: Filed
    end: int
    appends: int
    _verified: bytearray = msgspec.field(default_factory=bytearray)
    """One for each block."""
    _page: tuple[int, Page] | None = None
    """The page of the index that was read last."""
    _page_times: "tuple[int, array[int]] | None" = None
    """The page whose times were decoded last."""

    @property
    def _layout(self) -> layout.Layout:
        return self._place.layout

    def bounds(self, position: int, extent: Extent) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        index = self.count(position, extent)
        return self.start_of(index, extent), self._end_of(index)

    def count(self, position: int, extent: Extent) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        first, last = extent.first_entry // layout.PAGE_ENTRIES, (self.appends - 1) // layout.PAGE_ENTRIES
        page = bisect_right(range(last), position, lo=first, key=lambda page: self._ends(page)[-1])
        return max(extent.first_entry, page * layout.PAGE_ENTRIES + bisect_right(self._ends(page), position))

    def start_of(self, append: int, extent: Extent) -> int:
        """Give where an append begins."""
        is_first = append <= extent.first_entry
        return max(self._base, extent.lowest) if is_first else self._end_of(append - 1)

    def time_of(self, append: int, extent: Extent) -> int:
        """Give when an append arrived."""
        page, inside = divmod(max(append, extent.first_entry), layout.PAGE_ENTRIES)
        return self._times(page)[inside]

    def arrived_before(self, time_ms: int, extent: Extent) -> int:
        """Count the appends that arrived before a time, trimmed ones included."""
        if self._place.last_ms < time_ms or extent.first_entry >= self.appends:
            return self.appends
        first, last = extent.first_entry // layout.PAGE_ENTRIES, (self.appends - 1) // layout.PAGE_ENTRIES
        # The last page that began before the time: what arrived at it is in there, or begins the next one.
        began = bisect_left(
            range(last + 1), time_ms, lo=first, key=lambda page: self._encoded_times(page).first_ms
        )
        page = max(first, began - 1)
        found = page * layout.PAGE_ENTRIES + bisect_left(self._times(page), time_ms)
        return max(extent.first_entry, found)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        spanned = spans(start - self._base, end - self._base, self._layout.chunk_bytes)
        parts = [self._read(chunk, inside, inside_end) for chunk, inside, inside_end in spanned]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def locate(self, start: int, end: int) -> FilePart | None:
        """Give the file that has the bytes from start on, and how many of them, all of which are verified."""
        end = min(end, start + _MAX_LOCATED)
        chunk, inside, inside_end = next(
            spans(start - self._base, end - self._base, self._layout.chunk_bytes)
        )
        if not self._is_verified(chunk, inside, inside_end):
            self._read(chunk, inside, inside_end)
        return self._files.locate(self._layout.content_name(self._id, chunk), inside_end - inside, inside)

    # -- Content ---------------------------------------------------------------------------------

    def _is_verified(self, chunk: int, inside: int, inside_end: int) -> bool:
        blocks = self._blocks(chunk, inside, inside_end)
        return self._verified[blocks.start : blocks.stop] == b"\1" * len(blocks)

    def _blocks(self, chunk: int, inside: int, inside_end: int) -> range:
        first = chunk * self._layout.chunk_bytes
        return range(
            (first + inside) // layout.BLOCK_BYTES, (first + inside_end - 1) // layout.BLOCK_BYTES + 1
        )

    def _read(self, chunk: int, inside: int, inside_end: int) -> bytes:
        """Read a range of a content file; if its blocks are not verified, all of them, to verify them."""
        name = self._layout.content_name(self._id, chunk)
        if inside == inside_end:
            return b""
        if self._is_verified(chunk, inside, inside_end):
            return self._files.read_file(name, inside_end - inside, inside)
        blocks = self._blocks(chunk, inside, inside_end)
        begin = blocks.start * layout.BLOCK_BYTES
        for inner in self._place.begins:
            if begin < inner < (blocks.start + 1) * layout.BLOCK_BYTES:
                begin = inner
                break
        limit = min(blocks.stop * layout.BLOCK_BYTES, self.end - self._base)
        data = self._files.read_file(name, limit - begin, begin - chunk * self._layout.chunk_bytes)
        self._verify(chunk, blocks, data, blocks.start * layout.BLOCK_BYTES - begin)
        skipped = chunk * self._layout.chunk_bytes + inside - begin
        return data[skipped : skipped + inside_end - inside]

    def _verify(self, chunk: int, blocks: range, data: bytes, first: int) -> None:
        """Verify blocks, the first of which begins at a place of the data, or before it."""
        sums = self._sums(chunk, blocks)
        for index, block in enumerate(blocks):
            start = first + index * layout.BLOCK_BYTES
            if not is_block(self._id, block, data[max(0, start) : start + layout.BLOCK_BYTES], sums[index]):
                inside = block * layout.BLOCK_BYTES - chunk * self._layout.chunk_bytes
                raise DamagedError(
                    f"{self._layout.content_name(self._id, chunk)}: the block at byte {inside} is damaged."
                )
        missing = blocks.stop - len(self._verified)
        if missing > 0:
            self._verified.extend(bytes(missing))
        self._verified[blocks.start : blocks.stop] = b"\1" * len(blocks)

    def _sums(self, chunk: int, blocks: range) -> list[int]:
        """Give the checksums of blocks; that of the last, partial one is in the catalog."""
        full_blocks = (self.end - self._base) // layout.BLOCK_BYTES
        full = range(blocks.start, min(blocks.stop, full_blocks))
        sums: list[int] = []
        if full:
            inside = full.start - chunk * self._layout.chunk_bytes // layout.BLOCK_BYTES
            name = self._layout.sum_name(self._id, chunk)
            sums = unpack_sums(self._files.read_file(name, len(full) * SUM_BYTES, inside * SUM_BYTES))
        return sums if len(full) == len(blocks) else [*sums, self._place.content_sum]

    # -- Index -----------------------------------------------------------------------------------

    def _end_of(self, append: int) -> int:
        page, inside = divmod(append, layout.PAGE_ENTRIES)
        return self._ends(page)[inside]

    def _ends(self, page: int) -> "array[int]":
        return self._read_page(page).ends

    def _read_page(self, page: int) -> Page:
        if self._page is None or self._page[0] != page:
            self._page = page, self._verified_page(page)
        return self._page[1]

    def _verified_page(self, page: int) -> Page:
        """Read a page of the index, and verify it."""
        chunk, inside = self._file_of(page)
        name = self._layout.index_name(self._id, chunk)
        position, count = inside * page_bytes(), self._count_of(page)
        if count == layout.PAGE_ENTRIES:
            found = read_full_page(self._id, page, self._files.read_file(name, page_bytes(), position))
        else:
            data = self._files.read_file(name, count * END_BYTES, position)
            found = read_partial_page(self._id, page, data, self._place)
        if found is None:
            raise DamagedError(f"{name}: the page at byte {position} is damaged.")
        return found

    def _times(self, page: int) -> "array[int]":
        if self._page_times is None or self._page_times[0] != page:
            self._page_times = page, self._encoded_times(page).decode(self._count_of(page))
        return self._page_times[1]

    def _encoded_times(self, page: int) -> Times:
        """Read the times of a page, and verify them."""
        chunk, inside = self._file_of(page)
        is_full = self._count_of(page) == layout.PAGE_ENTRIES
        if not is_full and self._place.recent is not None:
            return Times.of(self._place.recent)  # verified with the row
        if is_full:
            is_first = not inside or page * layout.PAGE_ENTRIES == self._place.first_entry
            begin, sum = 0 if is_first else self._read_page(page - 1).times_end, None
            end = self._read_page(page).times_end
        else:
            begin, end, sum = self._place.times_begin, self._place.times_end, self._place.times_sum
        name = self._layout.times_name(self._id, chunk)
        found = read_times(self._id, page, self._files.read_file(name, end - begin, begin), sum)
        if found is None:
            raise DamagedError(f"{name}: the page at byte {begin} is damaged.")
        return found

    def _file_of(self, page: int) -> tuple[int, int]:
        return divmod(page, self._layout.chunk_entries // layout.PAGE_ENTRIES)

    def _count_of(self, page: int) -> int:
        return min(layout.PAGE_ENTRIES, self.appends - page * layout.PAGE_ENTRIES)

    def entries(self, first: int, last: int) -> "tuple[array[int], array[int]]":
        """Give the ends and times of appends, from the first of a page to before another."""
        pages = range(first // layout.PAGE_ENTRIES, (last - 1) // layout.PAGE_ENTRIES + 1)
        ends, times = array("Q"), array("Q")
        for page in pages:
            ends += self._ends(page)
            times += self._times(page)
        return ends[: last - first], times[: last - first]

    # -- Growing and shrinking -------------------------------------------------------------------

    def grown(self, place: Filed, end: int, appends: int) -> "OwnFiles":
        """Give what the files hold after more was written to them; what was verified stays so."""
        grown = OwnFiles(self._files, self._id, self._base, place, end, appends)
        grown._verified = self._verified[: (self.end - self._base) // layout.BLOCK_BYTES]
        return grown

    def examine(self, extent: Extent) -> Iterator[str | None]:
        """Read everything that can be read, a block or page in each step; gives what is wrong with it."""
        for start, end in extent.kept(self.end):
            for chunk, inside, inside_end in spans(
                max(start - self._base, 0), end - self._base, self._layout.chunk_bytes
            ):
                first = inside // layout.BLOCK_BYTES * layout.BLOCK_BYTES
                for position in range(first, inside_end, layout.BLOCK_BYTES):
                    block_end = min(position + layout.BLOCK_BYTES, inside_end)
                    yield complaint_of(partial(self._read, chunk, position, block_end))
        last_page = -(-self.appends // layout.PAGE_ENTRIES)
        for page in range(extent.first_entry // layout.PAGE_ENTRIES, last_page):
            # A page is read for those beside it, too, so what is wrong with one may be said twice.
            yield complaint_of(partial(self._verified_page, page))
            yield complaint_of(partial(self._encoded_times, page))
