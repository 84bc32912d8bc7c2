"""Where the bytes of a stream with files of its own lie: in files that are cut at fixed positions.

        content    | <id>.bin | <id>.1.bin | <id>.2.bin | <id>.3.bin ...      `chunk_bytes` each
        checksums  | <id>.sum | <id>.1.sum | <id>.2.sum | <id>.3.sum ...      (`sums`)
                     removed    removed       |                ^ grows at its end
                                            start

        index      | <id>.index | <id>.1.index | ...                          `chunk_bytes / 64` appends
        times      | <id>.times | <id>.1.times | ...                          of the same (`index`)

Removing files is the one way to free the beginning of something that works on every file system, and it
is atomic. A position determines its file, so nothing is recorded about the files themselves.

How long they are is chosen when a stream gets files: shorter for a stream that keeps little, so that its
room is freed in small steps. The catalog keeps it with the place of the stream (`places.Filed`), because what
a stream keeps can be changed later, and clients can trim. When the files no longer suit it, what is kept is
written once more, to files of the next edition (`<id>-1.bin`, ...), and the former ones are removed:

        much of the first file is trimmed     more than what is kept, so the copy costs less than it frees
        the files are too short by now        a stream that keeps more than before would have very many

What is copied at once has a bound, so a checkpoint is not held up. Files of format 3 have no end in streams
that keep everything (`ONE_FILE`). They stay so until they are written once more; if they are too large for
that, their room is freed when all of it is trimmed.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from millstream.protocol.retention import Retention
from millstream.store.log.files.staged import section_of
from millstream.store.pieces import Piece

FOLDER: Final = "streams"

ONE_FILE: Final = 2**62
LEAST_BYTES = 64 * 2**10
MOST_BYTES = 64 * 2**20
TIMED_BYTES = 4 * 2**20
BLOCK_BYTES = 16 * 2**10
"""How much content has one checksum; the length of every content file is a multiple of it."""
PAGE_ENTRIES = 256
"""How many entries of an index have one checksum; so is the number of entries in a file."""
_SHARE = 8
_BYTES_AN_ENTRY = 64  # part of the format, as are the lengths of blocks and pages
_FEW_FILES = 4
MOST_REWRITTEN = 256 * 2**20
"""How much is copied at most when a stream is written to files of the next edition."""

PACK_BYTES = 32 * 2**20
"""A pack that is so long is followed by the next one."""
PACKED_BYTES = 16 * 2**10
"""A stream that takes more in packs gets files of its own."""
MAX_SLOTS = 8
"""A stream has at most so many slots in packs."""


class Layout(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How long the files of a stream are, and which of its editions they are."""

    chunk_bytes: int
    edition: int = 0

    @property
    def chunk_entries(self) -> int:
        """How many appends an index file holds."""
        return self.chunk_bytes // _BYTES_AN_ENTRY

    def content_name(self, stream_id: int, chunk: int = 0) -> str:
        """Name a file of a stream's bytes."""
        return f"{self._name(stream_id, chunk)}.bin"

    def sum_name(self, stream_id: int, chunk: int = 0) -> str:
        """Name a file of the checksums of a stream's bytes."""
        return f"{self._name(stream_id, chunk)}.sum"

    def index_name(self, stream_id: int, chunk: int = 0) -> str:
        """Name a file of the ends of a stream's appends."""
        return f"{self._name(stream_id, chunk)}.index"

    def times_name(self, stream_id: int, chunk: int = 0) -> str:
        """Name a file of the times of a stream's appends."""
        return f"{self._name(stream_id, chunk)}.times"

    def former_index_name(self, stream_id: int, chunk: int = 0) -> str:
        """Name a file of the ends of a stream's appends, as format 3 had it."""
        return f"{self._name(stream_id, chunk)}.idx"

    def names(self, stream_id: int, chunks: range, index_chunks: range) -> list[str]:
        """Name files of a stream's bytes and of their index, with their checksums and times."""
        names: list[str] = []
        for chunk in chunks:
            names += self.content_name(stream_id, chunk), self.sum_name(stream_id, chunk)
        for chunk in index_chunks:
            names += self.index_name(stream_id, chunk), self.times_name(stream_id, chunk)
        return names

    def _name(self, stream_id: int, chunk: int) -> str:
        edition = f"-{self.edition}" if self.edition else ""
        number = f".{chunk}" if chunk else ""
        return f"{folder_of(stream_id)}/{stream_id:016x}{edition}{number}"

    def following(self, chunk_bytes: int) -> "Layout":
        """Give the layout of the next edition."""
        return Layout(chunk_bytes, self.edition + 1)


def suited_bytes(retention: Retention) -> int:
    """Choose how long a stream's content files are: an eighth to a quarter of what it keeps, in bounds."""
    if retention.bytes is None:
        return MOST_BYTES if retention.seconds is None else TIMED_BYTES
    return min(MOST_BYTES, max(LEAST_BYTES, 1 << (retention.bytes // _SHARE).bit_length()))


def first_layout(retention: Retention) -> Layout:
    """Choose the layout of a stream that gets files."""
    return _first_edition(suited_bytes(retention))


def former_layout(retention: Retention) -> Layout:
    """Give the layout that format 3 had: it followed from limits that never changed."""
    return _first_edition(suited_bytes(retention) if retention else ONE_FILE)


@lru_cache
def _first_edition(chunk_bytes: int) -> Layout:
    return Layout(chunk_bytes)  # one for all streams: there is a reference to it in each


def is_worth_rewriting(current_bytes: int, suited_bytes: int, kept_bytes: int, trimmed_bytes: int) -> bool:
    """Tell whether what is kept should be written to files of another length, or to shorter ones again."""
    spare_bytes = LEAST_BYTES if suited_bytes < current_bytes else TIMED_BYTES
    if trimmed_bytes >= max(kept_bytes, spare_bytes):
        return True
    return current_bytes < suited_bytes and kept_bytes >= _FEW_FILES * current_bytes


def folder_of(stream_id: int) -> str:
    """Name the folder of a stream's files."""
    return f"{FOLDER}/{stream_id & 0xFF:02x}"


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
