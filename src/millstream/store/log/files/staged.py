"""Parts on the disk: what was staged before the last checkpoint, in a file for each.

A part lives in the log first, and in memory, like an append. A checkpoint writes it to its file:

        parts/00000000000000a1-0000000000000003.part      stream 0xa1, its part number 3

When it is committed its bytes become a piece of the stream's content that is read from that file,
and the next checkpoint copies them to the stream's own files; so a commit of any size costs no memory.
A part's file is removed after the catalog no longer lists the part: recovery needs the files of listed
parts, and finds all others in the log. A file that a crash left over is found when the folder is opened.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Protocol, cast

from millstream.store.log.disk import Disk, File
from millstream.store.log.files.failures import Failures
from millstream.store.log.wal.segments import DamagedError
from millstream.store.pieces import Piece

FOLDER = "parts"
_SUFFIX = ".part"
_COPY_BYTES = 2**20
_SYNC_EACH = 8
"""A checkpoint of up to so many parts syncs them one by one; for more, one sync of everything is cheaper."""

PartId = tuple[int, int]
"""A stream, and the number of its part."""


class PartReader(Protocol):
    """Reads files, and keeps some of them open."""

    def read_file(self, name: str, size: int, position: int) -> bytes:
        """Read exactly so many bytes."""
        ...


class StoredPart:
    """The bytes of a part that has a file, or a range of them; read on demand."""

    __slots__ = ("_files", "_size", "name", "start")

    def __init__(self, files: PartReader, name: str, size: int, start: int = 0) -> None:
        self._files = files
        self._size = size
        self.name = name
        self.start = start

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, span: slice, /) -> bytes:
        start, end, _ = span.indices(self._size)
        return self._files.read_file(self.name, end - start, self.start + start)

    def section(self, start: int, end: int) -> "StoredPart":
        """Give a range of the bytes, without reading it."""
        return StoredPart(self._files, self.name, end - start, self.start + start)


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


def write_parts(disk: Disk, parts: Sequence[tuple[PartId, bytes]], failures: Failures) -> None:
    """Write parts to their files and make them durable; called off the event loop."""
    if not parts:
        return
    disk.make_folder(FOLDER)
    many = len(parts) > _SYNC_EACH
    written = []
    for part, data in parts:
        with failures.of(part[0]):
            _write(disk, part_name(part), [data], sync=not many)
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


def write_pieces(disk: Disk, file: File, pieces: Iterable[Piece], position: int) -> None:
    """Write pieces one after the other; those in files are copied block by block."""
    for kind, group in groupby(pieces, type):  # no step of Python for each: there are very many
        if kind is StoredPart:
            for part in cast(Iterable[StoredPart], group):
                position += _copy(disk, part, file, position)
        else:
            run = list(cast(Iterable[bytes], group))
            file.write(run, position)
            position += sum(map(len, run))


def _copy(disk: Disk, part: StoredPart, to: File, position: int) -> int:
    source = disk.open(part.name)
    try:
        for start in range(0, len(part), _COPY_BYTES):
            size = min(_COPY_BYTES, len(part) - start)
            data = source.read(size, part.start + start)
            if len(data) != size:
                ends, wanted = part.start + start + len(data), part.start + len(part)
                raise DamagedError(f"{part.name}: ends at byte {ends}, before {wanted}.")
            to.write([data], position + start)
    finally:
        source.close()
    return len(part)


def _write(disk: Disk, name: str, pieces: list[bytes], *, sync: bool) -> None:
    file = disk.open(name, create=True)
    try:
        file.write(pieces, 0)
        if sync:
            file.sync()
    finally:
        file.close()
