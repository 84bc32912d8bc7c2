"""Files of format 3: content without checksums, and an index of the ends of appends alone.

        <id>.bin   the same as now
        <id>.idx   end 8 for each append

They are read as they are until a checkpoint writes the stream anew (`writing`). What was damaged before
that cannot be known, so it is not. When an append arrived was not written down: all of them count as arrived
when the stream was created, before and after they are written anew (rule X7).
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import msgspec

from millstream.store.base import FilePart
from millstream.store.log.files.examining import complaint_of
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.layout import Layout, spans
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.wal.segments import DamagedError

ENTRY_BYTES: Final = 8
_STEP = 2**17  # entries read at a time


class FormerFiles(msgspec.Struct, eq=False, gc=False):
    """What a stream's files of format 3 hold, from its base to `end`."""

    _files: StreamFiles
    _id: int
    _base: int
    layout: Layout
    _created_ms: int
    end: int
    appends: int

    def bounds(self, position: int, extent: Extent) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        index = self.count(position, extent)
        return self.start_of(index, extent), self._end_of(index)

    def start_of(self, append: int, extent: Extent) -> int:
        """Give where an append begins."""
        is_first = append <= extent.first_entry
        return max(self._base, extent.lowest) if is_first else self._end_of(append - 1)

    def time_of(self, _append: int, _: Extent) -> int:
        """Give when an append arrived, as far as that is known."""
        return self._created_ms

    def arrived_before(self, time_ms: int, extent: Extent) -> int:
        """Count the appends that arrived before a time, trimmed ones included."""
        return self.appends if self._created_ms < time_ms else extent.first_entry

    def times(self, count: int) -> "array[int]":
        """Give when so many appends arrived."""
        return array("Q", [self._created_ms]) * count

    def count(self, position: int, extent: Extent) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        return bisect_right(range(self.appends), position, lo=extent.first_entry, key=self._end_of)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        return b"".join(
            self._files.read_file(self.layout.content_name(self._id, chunk), inside_end - inside, inside)
            for chunk, inside, inside_end in spans(
                start - self._base, end - self._base, self.layout.chunk_bytes
            )
        )

    def locate(self, start: int, end: int) -> FilePart | None:
        """Give the file that has the bytes from start on, and how many of them."""
        chunk, inside, inside_end = next(spans(start - self._base, end - self._base, self.layout.chunk_bytes))
        return self._files.locate(self.layout.content_name(self._id, chunk), inside_end - inside, inside)

    def ends(self, first: int, last: int) -> "array[int]":
        """Give the ends of appends, from one to before another."""
        ends = array("Q")
        for chunk, inside, inside_end in spans(first, last, self.layout.chunk_entries):
            for step in range(inside, inside_end, _STEP):
                count = min(_STEP, inside_end - step)
                name = self.layout.former_index_name(self._id, chunk)
                ends.frombytes(self._files.read_file(name, count * ENTRY_BYTES, step * ENTRY_BYTES))
        if sys.byteorder == "big":
            ends.byteswap()
        return ends

    def examine(self, extent: Extent) -> Iterator[str | None]:
        """Look for what is missing, in one step; that bytes are right cannot be known."""
        yield complaint_of(lambda: self._examine(extent))

    def _examine(self, extent: Extent) -> None:
        for start, end in extent.kept(self.end):
            for chunk, _, inside_end in spans(
                max(start - self._base, 0), end - self._base, self.layout.chunk_bytes
            ):
                self._files.read_file(self.layout.content_name(self._id, chunk), 1, inside_end - 1)
        ends = self.ends(extent.first_entry, self.appends)
        begins = max(self._base, extent.lowest)
        is_in_order = all(end > start for start, end in pairwise([begins, *ends]))
        if ends and (ends[-1] != self.end or not is_in_order):
            raise DamagedError(f"{self.layout.former_index_name(self._id)}: is not the index of its stream.")

    def _end_of(self, append: int) -> int:
        chunk, inside = divmod(append, self.layout.chunk_entries)
        name = self.layout.former_index_name(self._id, chunk)
        return int.from_bytes(self._files.read_file(name, ENTRY_BYTES, inside * ENTRY_BYTES), "little")
