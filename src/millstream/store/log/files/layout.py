"""Where the bytes of a stream with files of its own lie: in one file, or in many small ones.

A stream that keeps everything has one file of content, one of its checksums, and an index of two files. A
stream with limits must free room, so its content and its index are cut at fixed positions, and files that can
no longer be read are removed:

        content    | <id>.bin | <id>.1.bin | <id>.2.bin | <id>.3.bin ...      `chunk_bytes` each
        checksums  | <id>.sum | <id>.1.sum | <id>.2.sum | <id>.3.sum ...      (`sums`)
                     removed    removed       |                ^ grows at its end
                                            start

        index      | <id>.index | <id>.1.index | ...                          `chunk_bytes / 64` appends
        times      | <id>.times | <id>.1.times | ...                          of the same (`index`)

Removing files is the one way to free the beginning of something that works on every file system, and it
is atomic. A position determines its file, so nothing is recorded about the files themselves. Their length
follows from the limits, which never change after a stream is created.
"""

from collections.abc import Iterator
from typing import Final

from millstream.protocol.retention import Retention
from millstream.store.log.files.staged import section_of
from millstream.store.pieces import Piece

FOLDER: Final = "streams"

# These numbers are part of the format: with others, the files of a stream are not found.
ONE_FILE: Final = 2**62
LEAST_BYTES = 64 * 2**10
MOST_BYTES = 64 * 2**20
TIMED_BYTES = 4 * 2**20
BLOCK_BYTES = 16 * 2**10
"""How much content has one checksum; the length of every content file is a multiple of it."""
PAGE_ENTRIES = 256
"""How many entries of an index have one checksum; so is the number of entries in a file."""
_SHARE = 8
_BYTES_AN_ENTRY = 64

PACK_BYTES = 32 * 2**20
"""A pack that is so long is followed by the next one."""
PACKED_BYTES = 16 * 2**10
"""A stream that takes more in packs gets files of its own."""
MAX_SLOTS = 8
"""A stream that has so many slots in packs is written to a single one."""


def chunk_bytes(retention: Retention) -> int:
    """Choose how long a stream's content files are: an eighth to a quarter of what it keeps, in bounds."""
    if retention.bytes is None:
        return TIMED_BYTES if retention else ONE_FILE
    return min(MOST_BYTES, max(LEAST_BYTES, 1 << (retention.bytes // _SHARE).bit_length()))


def chunk_entries(chunk_bytes: int) -> int:
    """Give how many appends an index file holds."""
    return chunk_bytes // _BYTES_AN_ENTRY


def content_name(stream_id: int, chunk: int = 0) -> str:
    """Name a file of a stream's bytes."""
    return f"{folder_of(stream_id)}/{stream_id:016x}{_number(chunk)}.bin"


def sum_name(stream_id: int, chunk: int = 0) -> str:
    """Name a file of the checksums of a stream's bytes."""
    return f"{folder_of(stream_id)}/{stream_id:016x}{_number(chunk)}.sum"


def index_name(stream_id: int, chunk: int = 0) -> str:
    """Name a file of the ends of a stream's appends."""
    return f"{folder_of(stream_id)}/{stream_id:016x}{_number(chunk)}.index"


def times_name(stream_id: int, chunk: int = 0) -> str:
    """Name a file of the times of a stream's appends."""
    return f"{folder_of(stream_id)}/{stream_id:016x}{_number(chunk)}.times"


def former_index_name(stream_id: int, chunk: int = 0) -> str:
    """Name a file of the ends of a stream's appends, as format 3 had it."""
    return f"{folder_of(stream_id)}/{stream_id:016x}{_number(chunk)}.idx"


def folder_of(stream_id: int) -> str:
    """Name the folder of a stream's files."""
    return f"{FOLDER}/{stream_id & 0xFF:02x}"


def _number(chunk: int) -> str:
    return f".{chunk}" if chunk else ""


def spans(start: int, end: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Cut a range at the multiples of a size; gives the chunk, and the start and end inside of it."""
    while start < end:
        chunk, inside = divmod(start, size)
        length = min(end - start, size - inside)
        yield chunk, inside, inside + length
        start += length


def cut(pieces: list[Piece], start: int, size: int) -> Iterator[tuple[int, int, list[Piece]]]:
    """Cut pieces that begin at a position at the multiples of a size; gives where each part goes."""
    end = start + sum(map(len, pieces))
    if start // size == (end - 1) // size:
        yield start // size, start % size, pieces
        return
    chunk, inside, gathered = start // size, start % size, list[Piece]()
    for piece in pieces:
        for part, first, last in spans(start, start + len(piece), size):
            if part != chunk:
                yield chunk, inside, gathered
                chunk, inside, gathered = part, first, []
            skipped = part * size + first - start
            gathered.append(section_of(piece, skipped, skipped + last - first))
        start += len(piece)
    yield chunk, inside, gathered
