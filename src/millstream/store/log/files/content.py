"""A stream's bytes: the older ones in its files, the newer ones in memory until the next checkpoint.

base        start               flushed                        end
 |-- gone ---|------ files --------|------ pieces in memory -----|

What was trimmed is removed by checkpoints, file by file (`layout`), once the log durably says so. Until
then nothing reads it, and a recovery after a crash finds it gone all the same. A file that is being read
stays open; the checkpoint that removed it closes it afterwards, which frees the room.

What forks share stays (`protocol.retention`). While there are forks, content after the shared range is
removed, but the index stays: it is searched from where the shared range begins.
"""

import contextlib
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from millstream.protocol.retention import Shared, needed
from millstream.protocol.streams import Stream
from millstream.store.base import FilePart
from millstream.store.log.disk import Disk, File
from millstream.store.log.files.failures import Failures
from millstream.store.log.files.layout import (
    ENTRY_BYTES,
    ONE_FILE,
    chunk_bytes,
    chunk_entries,
    content_name,
    cut,
    folder_of,
    index_name,
    spans,
)
from millstream.store.log.files.staged import write_pieces
from millstream.store.log.wal.segments import DamagedError
from millstream.store.pieces import Piece, Pieces

_MAX_OPEN = 256
_SYNC_EACH = 8
"""A checkpoint of up to so many streams syncs file by file; for more, one sync of everything is cheaper."""


class Unflushed(msgspec.Struct, frozen=True, gc=False):
    """What a checkpoint writes to a stream's files."""

    stream_id: int
    chunk_bytes: int
    data: list[Piece]
    ends: "array[int]"
    data_position: int
    appends: int

    def writes(self) -> Iterator[tuple[str, list[Piece], int]]:
        """Give what goes to which file, and at which position."""
        for chunk, inside, data in cut(self.data, self.data_position, self.chunk_bytes):
            yield content_name(self.stream_id, chunk), data, inside
        index_bytes = chunk_entries(self.chunk_bytes) * ENTRY_BYTES
        for chunk, inside, data in cut([_packed(self.ends)], self.appends * ENTRY_BYTES, index_bytes):
            yield index_name(self.stream_id, chunk), data, inside


class StreamFiles:
    """The files of all streams, with a bound on how many are open."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._open: dict[str, File] = {}

    def read_file(self, name: str, size: int, position: int) -> bytes:
        """Read a range of a file, which must be there."""
        data = self._file(name).read(size, position)
        if len(data) != size:
            raise DamagedError(f"{name}: ends at byte {position + len(data)}, before {position + size}.")
        return data

    def locate(self, name: str, size: int, position: int) -> FilePart | None:
        """Give the place of a range of a file, if the file has a descriptor."""
        descriptor = self._file(name).descriptor()
        return FilePart(descriptor, position, size) if descriptor is not None else None

    def close_some(self, names: Iterable[str]) -> None:
        """Close files, if they are open."""
        for name in names:
            if name in self._open:
                self._open.pop(name).close()

    def close(self) -> None:
        """Close all files."""
        self.close_some(list(self._open))

    def _file(self, name: str) -> File:
        file = self._open.pop(name, None)
        if file is None:
            file = self.disk.open(name)
            if len(self._open) >= _MAX_OPEN:
                self._open.pop(next(iter(self._open))).close()
        self._open[name] = file  # the last one is the most recently used
        return file


def write_unflushed(disk: Disk, unflushed: list[Unflushed], failures: Failures) -> None:
    """Write tails to stream files and make them durable; called off the event loop."""
    many = len(unflushed) > _SYNC_EACH
    written = []
    for part in unflushed:
        with failures.of(part.stream_id):
            disk.make_folder(folder_of(part.stream_id))
            for name, data, position in part.writes():
                _write(disk, name, data, position, sync=not many)
            written.append(part)
    if many and disk.sync_all():
        return
    if many:
        for part in written:
            for name, _, _ in part.writes():
                _write(disk, name, [], 0, sync=True)
    for folder in sorted({folder_of(part.stream_id) for part in written}):
        disk.sync_folder(folder)


def take_back(disk: Disk, unflushed: list[Unflushed]) -> None:
    """Free what an attempt to write tails has taken, after it found no room for all of them."""
    for part in unflushed:
        for name, _, position in part.writes():
            with contextlib.suppress(OSError):  # it is not there, or nothing could be written to it
                file = disk.open(name)
                try:
                    file.truncate(min(position, file.size()))
                finally:
                    file.close()


def _write(disk: Disk, name: str, pieces: Sequence[Piece], position: int, *, sync: bool) -> None:
    file = disk.open(name, create=True)
    try:
        write_pieces(disk, file, pieces, position)
        if sync:
            file.sync()
    finally:
        file.close()


class Extent(msgspec.Struct, frozen=True, gc=False):
    """What of a stream can still be read."""

    start: int
    first_append: int
    shared: Shared | None

    @classmethod
    def of(cls, stream: Stream) -> "Extent":
        """Give the extent of a stream as it is now."""
        return cls(stream.start, stream.first_append, stream.shared) if stream.start else _WHOLE

    @property
    def lowest(self) -> int:
        """The first byte that can be read."""
        return self.start if self.shared is None else self.shared.start

    @property
    def first_entry(self) -> int:
        """The first append that the index must have; it begins at the lowest byte."""
        return self.first_append if self.shared is None else self.shared.first_append


_WHOLE = Extent(0, 0, None)


class StreamContent:
    """The bytes of one stream."""

    __slots__ = (
        "_appends",
        "_base",
        "_chunk_bytes",
        "_extent",
        "_files",
        "_flushed",
        "_id",
        "_pieces",
        "_saved_extent",
    )

    def __init__(self, files: StreamFiles, stream: Stream, flushed: int, appends: int) -> None:
        self._files = files
        self._id = stream.id
        self._base = stream.base
        self._chunk_bytes = chunk_bytes(stream.retention)
        self._flushed = flushed
        self._appends = appends
        self._pieces = Pieces(flushed)
        self._extent = self._saved_extent = Extent.of(stream)

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self._pieces.end

    @property
    def appends(self) -> int:
        """How many appends there are, trimmed ones included."""
        return self._appends + len(self._pieces)

    def append(self, piece: Piece) -> None:
        """Add the bytes of one append."""
        self._pieces.append(piece)

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        if position >= self._flushed:
            return self._pieces.bounds(position)
        index = self._entries_until(position)
        is_first = index == self._extent.first_entry
        start = max(self._base, self._extent.lowest) if is_first else self._end_of(index - 1)
        return start, self._end_of(index)

    def count(self, position: int) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        if position >= self._flushed:
            return self._appends + self._pieces.count(position)
        return self._entries_until(position)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        if start >= self._flushed:
            return self._pieces.fetch(start, end)
        parts = [
            self._files.read_file(content_name(self._id, chunk), inside_end - inside, inside)
            for chunk, inside, inside_end in spans(
                start - self._base, min(end, self._flushed) - self._base, self._chunk_bytes
            )
        ]
        if end > self._flushed:
            parts.append(self._pieces.fetch(self._flushed, end))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def locate(self, start: int, end: int) -> FilePart | None:
        """Give the file that has the bytes from start on, and how many of them; None when memory has them."""
        if start >= self._flushed:
            return None
        base = self._base
        ranges = spans(start - base, min(end, self._flushed) - base, self._chunk_bytes)
        chunk, inside, inside_end = next(ranges)
        return self._files.locate(content_name(self._id, chunk), inside_end - inside, inside)

    def unflushed(self) -> Unflushed | None:
        """Give what the files lack, if anything."""
        if self._pieces.end == self._flushed:
            return None
        data, ends = self._pieces.all()
        position = self._flushed - self._base
        return Unflushed(self._id, self._chunk_bytes, data, ends, position, self._appends)

    def drop_flushed(self, until: int, appends: int) -> None:
        """Drop from memory what the files now hold."""
        self._pieces.drop(until)
        self._flushed = until
        self._appends = appends

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
        kept = list(needed(extent.start, end, extent.shared))
        names = [
            content_name(self._id, chunk)
            for chunk in range(self._chunk_of(lowest), self._chunk_of(extent.start) + 1)
            if not self._is_needed(chunk, kept)
        ]
        entries = chunk_entries(size)
        gone = range(saved.first_entry // entries, extent.first_entry // entries)
        return names + [index_name(self._id, chunk) for chunk in gone]

    def note_removed(self, extent: Extent) -> None:
        """Note that files outside of an extent are gone for good."""
        self._saved_extent = extent

    def names(self) -> list[str]:
        """Name all files that may exist."""
        saved, entries = self._saved_extent, chunk_entries(self._chunk_bytes)
        chunks = range(self._chunk_of(saved.lowest), self._chunk_of(self.end) + 1)
        indexes = range(saved.first_entry // entries, self.appends // entries + 1)
        return [content_name(self._id, chunk) for chunk in chunks] + [
            index_name(self._id, chunk) for chunk in indexes
        ]

    def _chunk_of(self, position: int) -> int:
        return max(0, position - self._base) // self._chunk_bytes

    def _is_needed(self, chunk: int, kept: list[tuple[int, int]]) -> bool:
        first = self._base + chunk * self._chunk_bytes
        return any(first < end and start < first + self._chunk_bytes for start, end in kept)

    def _entries_until(self, position: int) -> int:
        lowest = self._extent.first_entry
        return bisect_right(range(self._appends), position, lo=lowest, key=self._end_of)

    def _end_of(self, append: int) -> int:
        chunk, inside = divmod(append, chunk_entries(self._chunk_bytes))
        name = index_name(self._id, chunk)
        return int.from_bytes(self._files.read_file(name, ENTRY_BYTES, inside * ENTRY_BYTES), "little")


def _packed(ends: "array[int]") -> bytes:
    if sys.byteorder == "big":
        ends = ends[:]
        ends.byteswap()
    return ends.tobytes()
