"""A stream's bytes: the older ones in its file, the younger ones in memory until the next checkpoint.

base                         flushed                        end
 |------ <id>.bin, <id>.idx -----|------ pieces in memory -----|
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from millstream.store.log.disk import Disk, File
from millstream.store.log.segments import DamagedError
from millstream.store.log.staged import write_pieces
from millstream.store.pieces import Piece, Pieces

FOLDER = "streams"
ENTRY_BYTES = 8
_MAX_OPEN = 256
_SYNC_EACH = 8
"""Up to so many streams a checkpoint syncs file by file; one sync of everything is cheaper for more."""


class Unflushed(msgspec.Struct, frozen=True, gc=False):
    """What a checkpoint writes to a stream's files."""

    stream_id: int
    data: list[Piece]
    ends: "array[int]"
    data_position: int
    index_position: int


class StreamFiles:
    """The files of all streams, with a bound on how many are open."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._open: dict[str, File] = {}

    def read(self, stream_id: int, size: int, position: int) -> bytes:
        """Read a stream's content file."""
        return self.read_file(content_name(stream_id), size, position)

    def read_end(self, stream_id: int, index: int) -> int:
        """Read where a stream's append number `index` ends."""
        return int.from_bytes(
            self.read_file(index_name(stream_id), ENTRY_BYTES, index * ENTRY_BYTES), "little"
        )

    def let_go(self, stream_id: int) -> None:
        """Close a stream's files, if they are open."""
        self.let_go_file(content_name(stream_id))
        self.let_go_file(index_name(stream_id))

    def let_go_file(self, name: str) -> None:
        """Close a file, if it is open."""
        if name in self._open:
            self._open.pop(name).close()

    def close(self) -> None:
        """Let go of all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def read_file(self, name: str, size: int, position: int) -> bytes:
        """Read exactly so many bytes of a file."""
        data = self._file(name).read(size, position)
        if len(data) != size:
            raise DamagedError(f"{name}: ends at byte {position + len(data)}, before {position + size}.")
        return data

    def _file(self, name: str) -> File:
        file = self._open.pop(name, None)
        if file is None:
            file = self.disk.open(name)
            if len(self._open) >= _MAX_OPEN:
                self._open.pop(next(iter(self._open))).close()
        self._open[name] = file  # the last entry is the one used last
        return file


def write_unflushed(disk: Disk, unflushed: list[Unflushed]) -> None:
    """Write tails to stream files and make them durable; called off the event loop."""
    folders = sorted({_folder(part.stream_id) for part in unflushed})
    for folder in folders:
        disk.make_folder(folder)
    many = len(unflushed) > _SYNC_EACH
    for part in unflushed:
        _write(disk, content_name(part.stream_id), part.data, part.data_position, sync=not many)
        _write(disk, index_name(part.stream_id), [_packed(part.ends)], part.index_position, sync=not many)
    if many and disk.sync_all():
        return
    if many:
        for part in unflushed:
            _write(disk, content_name(part.stream_id), [], 0, sync=True)
            _write(disk, index_name(part.stream_id), [], 0, sync=True)
    for folder in folders:
        disk.sync_folder(folder)


def remove_files(disk: Disk, stream_ids: list[int]) -> None:
    """Remove the files of streams that are gone; called off the event loop."""
    for stream_id in stream_ids:
        disk.remove(content_name(stream_id))
        disk.remove(index_name(stream_id))


def _write(disk: Disk, name: str, pieces: Sequence[Piece], position: int, *, sync: bool) -> None:
    file = disk.open(name, create=True)
    try:
        write_pieces(disk, file, pieces, position)
        if sync:
            file.sync()
    finally:
        file.close()


class StreamContent:
    """The bytes of one stream."""

    __slots__ = ("_appends", "_base", "_files", "_flushed", "_id", "_pieces")

    def __init__(self, files: StreamFiles, stream_id: int, base: int, flushed: int, appends: int) -> None:
        self._files = files
        self._id = stream_id
        self._base = base
        self._flushed = flushed
        self._appends = appends
        self._pieces = Pieces(flushed)

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self._pieces.end

    @property
    def appends(self) -> int:
        """How many appends there are."""
        return self._appends + len(self._pieces)

    def append(self, piece: Piece) -> None:
        """Add the bytes of one append."""
        self._pieces.append(piece)

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the append that holds the byte at `position`, as its start and end."""
        if position >= self._flushed:
            return self._pieces.bounds(position)
        index = bisect_right(range(self._appends), position, key=self._end_of)
        return self._end_of(index - 1) if index else self._base, self._end_of(index)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        if start >= self._flushed:
            return self._pieces.fetch(start, end)
        older = self._files.read(self._id, min(end, self._flushed) - start, start - self._base)
        return older if end <= self._flushed else older + self._pieces.fetch(self._flushed, end)

    def unflushed(self) -> Unflushed | None:
        """Give what the files lack, if anything."""
        if self._pieces.end == self._flushed:
            return None
        data, ends = self._pieces.all()
        position, index_position = self._flushed - self._base, self._appends * ENTRY_BYTES
        return Unflushed(self._id, data, ends, position, index_position)

    def forget(self, until: int, appends: int) -> None:
        """Drop from memory what the files now hold."""
        self._pieces.drop(until)
        self._flushed = until
        self._appends = appends

    def _end_of(self, index: int) -> int:
        return self._files.read_end(self._id, index)


def _packed(ends: "array[int]") -> bytes:
    if sys.byteorder == "big":
        ends = ends[:]
        ends.byteswap()
    return ends.tobytes()


def _folder(stream_id: int) -> str:
    return f"{FOLDER}/{stream_id & 0xFF:02x}"


def content_name(stream_id: int) -> str:
    """Name the file of a stream's bytes."""
    return f"{_folder(stream_id)}/{stream_id:016x}.bin"


def index_name(stream_id: int) -> str:
    """Name the file that tells where a stream's appends end."""
    return f"{_folder(stream_id)}/{stream_id:016x}.idx"
