"""Parts on the disk: what was staged before the last checkpoint, in a file for each.

A part lives in the log first, and in memory, like an append. A checkpoint writes it to its file:

        parts/00000000000000a1-0000000000000003.part      stream 0xa1, its part number 3

        | content ...                     | crc32c 4 | crc32c 4 | ...        one for each 64 KiB of it

A checksum begins with the stream, the part and the number of the block. Files of format 3 end with the
content, and have none.

When it is committed its bytes become a piece of the stream's content that is read from that file,
and the next checkpoint copies them to the stream's own files; so a commit of any size costs no memory.
A part's file is removed after the catalog no longer lists the part: recovery needs the files of listed
parts, and finds all others in the log. A file that a crash left over is found when the folder is opened.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import cast

from millstream.protocol.streams import Stream
from millstream.store.log.crc import crc32c, extend
from millstream.store.log.disk import Disk
from millstream.store.log.files.examining import complaint_of
from millstream.store.log.files.failures import Failures
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.wal.segments import DamagedError
from millstream.store.pieces import Piece

FOLDER = "parts"
_SUFFIX = ".part"
_COPY_BYTES = 2**18
_BLOCK_BYTES = 64 * 2**10
_PLACE = struct.Struct("<QQQ")
_SUM = struct.Struct("<I")
_SYNC_EACH = 8
"""A checkpoint of up to so many parts syncs them one by one; for more, one sync of everything is cheaper."""

PartId = tuple[int, int]
"""A stream, and the number of its part."""


class StoredPart:
    """The bytes of a part that has a file, or a range of them; read on demand, and verified each time."""

    __slots__ = ("_end", "_files", "_part", "_start", "_whole")

    def __init__(self, files: StreamFiles, part: PartId, size: int) -> None:
        self._files = files
        self._part = part
        self._whole = size
        self._start, self._end = 0, size

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, span: slice, /) -> bytes:
        start, end, _ = span.indices(len(self))
        return self.read(self._files, start, end)

    def section(self, start: int, end: int) -> "StoredPart":
        """Give a range of the bytes, without reading it."""
        section = StoredPart(self._files, self._part, self._whole)
        section._start, section._end = self._start + start, self._start + end
        return section

    def read(self, files: StreamFiles, start: int, end: int) -> bytes:
        """Read some of the bytes, with whatever reads files."""
        if start == end:
            return b""
        first, last = self._start + start, self._start + end
        blocks = range(first // _BLOCK_BYTES, (last - 1) // _BLOCK_BYTES + 1)
        begin, name = blocks.start * _BLOCK_BYTES, part_name(self._part)
        data = files.read_file(name, min(blocks.stop * _BLOCK_BYTES, self._whole) - begin, begin)
        sums = files.read_some(name, _SUM.size * len(blocks), self._whole + _SUM.size * blocks.start)
        if sums or files.read_some(name, 1, self._whole):  # otherwise it is of format 3
            for index, block in enumerate(blocks):
                content = data[index * _BLOCK_BYTES : (index + 1) * _BLOCK_BYTES]
                if _sum_of(self._part, block, content) != sums[index * _SUM.size : (index + 1) * _SUM.size]:
                    raise DamagedError(f"{name}: the block at byte {block * _BLOCK_BYTES} is damaged.")
        return data[first - begin : last - begin]


def examine_parts(files: StreamFiles, stream: Stream) -> Iterator[str | None]:
    """Read the files of a stream's parts, a block in each step; gives what is wrong with it."""
    for part in stream.staged.parts.values() if stream.staged is not None else ():
        stored = StoredPart(files, (stream.id, part.number), part.size)
        for start in range(0, part.size, _BLOCK_BYTES):
            yield complaint_of(partial(stored.read, files, start, min(start + _BLOCK_BYTES, part.size)))


def part_name(part: PartId) -> str:
    """Name the file of a part."""
    return f"{FOLDER}/{part[0]:016x}-{part[1]:016x}{_SUFFIX}"


def find_parts(disk: Disk) -> Iterator[PartId]:
    """Give every part that has a file."""
    for name in disk.names(FOLDER):
        stream_id, _, number = name.removesuffix(_SUFFIX).partition("-")
        try:
            part = int(stream_id, 16), int(number, 16)
        except ValueError:
            continue  # not ours
        if part_name(part) == f"{FOLDER}/{name}":
            yield part


def encode_part(part: PartId, data: bytes) -> list[bytes]:
    """Give what the file of a part holds."""
    starts = range(0, len(data), _BLOCK_BYTES)
    return [
        data,
        *(_sum_of(part, start // _BLOCK_BYTES, data[start : start + _BLOCK_BYTES]) for start in starts),
    ]


def _sum_of(part: PartId, block: int, content: bytes) -> bytes:
    return _SUM.pack(extend(crc32c(_PLACE.pack(*part, block)), content))


def write_parts(disk: Disk, parts: Sequence[tuple[PartId, bytes]], failures: Failures) -> None:
    """Write parts to their files and make them durable; called off the event loop."""
    if not parts:
        return
    disk.make_folder(FOLDER)
    many = len(parts) > _SYNC_EACH
    written = []
    for part, data in parts:
        with failures.of(part[0]):
            _write(disk, part_name(part), encode_part(part, data), sync=not many)
            written.append(part)
    if many and disk.sync_all():
        return
    if many:
        for part in written:
            _write(disk, part_name(part), [], sync=True)
    disk.sync_folder(FOLDER)


def remove_parts(disk: Disk, parts: Iterable[PartId]) -> None:
    """Remove the files of parts; a crash may bring them back, and the next start finds them."""
    for part in parts:
        disk.remove(part_name(part))


def section_of(piece: Piece, start: int, end: int) -> Piece:
    """Give a range of a piece; one in a file is not read."""
    return piece.section(start, end) if isinstance(piece, StoredPart) else piece[start:end]


def runs(disk: Disk, pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Give the bytes of pieces in runs of bounded size; those in files are read block by block."""
    for kind, group in groupby(pieces, type):  # no step of Python for each: there are very many
        if kind is StoredPart:
            for part in cast(Iterable[StoredPart], group):
                yield from _read(disk, part)
        else:
            yield from _joined(cast(Iterable[bytes], group))


def joined(disk: Disk, pieces: Sequence[Piece]) -> bytes:
    """Give the bytes of pieces that are small together."""
    try:
        return b"".join(cast(Sequence[bytes], pieces))
    except TypeError:  # one of them is in a file
        return b"".join(runs(disk, pieces))


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= _COPY_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


def _read(disk: Disk, part: StoredPart) -> Iterator[bytes]:
    reading = StreamFiles(disk)  # those of the event loop are not ours to use
    try:
        for start in range(0, len(part), _COPY_BYTES):
            yield part.read(reading, start, min(start + _COPY_BYTES, len(part)))
    finally:
        reading.close()


def _write(disk: Disk, name: str, pieces: list[bytes], *, sync: bool) -> None:
    file = disk.open(name, create=True)
    try:
        file.write(pieces, 0)
        if sync:
            file.sync()
    finally:
        file.close()
