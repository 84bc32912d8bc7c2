"""Files of format 3: content without checksums, and an index of the ends of appends alone.

        <id>.bin   the same as now
        <id>.idx   end 8 for each append

They are read as they are until a checkpoint writes the stream anew (`writing`). What was damaged before
that cannot be known, so it is not.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import msgspec

from millstream.store.base import FilePart
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
    end: int
    appends: int

    def bounds(self, position: int, extent: Extent) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        index = self.count(position, extent)
        is_first = index == extent.first_entry
        start = max(self._base, extent.lowest) if is_first else self._end_of(index - 1)
        return start, self._end_of(index)

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

    def complaints(self, extent: Extent) -> Iterator[str]:
        """Name what is missing; that bytes are right cannot be known."""
        try:
            for start, end in extent.kept(self.end):
                for chunk, _, inside_end in spans(
                    max(start - self._base, 0), end - self._base, self.layout.chunk_bytes
                ):
                    self._files.read_file(self.layout.content_name(self._id, chunk), 1, inside_end - 1)
            ends = self.ends(extent.first_entry, self.appends)
            begins = max(self._base, extent.lowest)
            is_in_order = all(end > start for start, end in pairwise([begins, *ends]))
            if ends and (ends[-1] != self.end or not is_in_order):
                yield f"{self.layout.former_index_name(self._id)}: is not the index of its stream."
        except DamagedError as error:
            yield str(error)

    def _end_of(self, append: int) -> int:
        chunk, inside = divmod(append, self.layout.chunk_entries)
        name = self.layout.former_index_name(self._id, chunk)
        return int.from_bytes(self._files.read_file(name, ENTRY_BYTES, inside * ENTRY_BYTES), "little")
