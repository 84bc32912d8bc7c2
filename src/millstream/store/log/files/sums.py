"""Checksums of what streams have in files of their own: CRC-32C of blocks, bound to stream and place.

Content is exactly the bytes that go to clients, so its checksums are in a file beside it:

        <id>.bin    | 16 KiB    | 16 KiB    | 16 KiB    | 3 KiB     |
        <id>.sum    | crc32c 4  | crc32c 4  | crc32c 4  |                 the last one is in the catalog

The index has an entry for each append, and the checksum of a page after its entries:

        <id>.index  | end 8, time 8 | ... 256 entries | crc32c 4, zeros 12 | end 8, time 8 | ...

A block or page that is not full yet has its checksum in the catalog (`places.Filed`), and gets it in a file
once it is: so nothing in a file is ever overwritten, and what the catalog says fits the files at any
moment, also after a crash between the two. A checksum can be continued with more bytes, so growing costs
no reading.

It begins with the kind, the stream and the number of the block. A block that is whole but in the wrong
place has the wrong checksum there.
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from millstream.store.log.crc import crc32c, extend
from millstream.store.log.files import layout

ENTRY_BYTES: Final = 16
SUM_BYTES: Final = 4

_PLACE = struct.Struct("<BQQ")
_CONTENT, _INDEX = 1, 2
_PAGE_END = struct.Struct("<I12x")
_SUM = struct.Struct("<I")


def page_bytes() -> int:
    """Give the length of a full page of an index."""
    return layout.PAGE_ENTRIES * ENTRY_BYTES + _PAGE_END.size


def content_seed(stream_id: int, block: int) -> int:
    """Begin the checksum of a block of content."""
    return crc32c(_PLACE.pack(_CONTENT, stream_id, block))


def index_seed(stream_id: int, page: int) -> int:
    """Begin the checksum of a page of the index."""
    return crc32c(_PLACE.pack(_INDEX, stream_id, page))


class ContentSums:
    """The checksums of content that is being written, from a position of the stream's own bytes on."""

    def __init__(self, stream_id: int, position: int, sum: int | None) -> None:
        self._stream_id = stream_id
        self._position = position
        if sum is None or position % layout.BLOCK_BYTES == 0:
            sum = content_seed(stream_id, position // layout.BLOCK_BYTES)
        self.partial = sum
        """The checksum of the block that is not full, so far."""

    def add(self, data: bytes) -> list[int]:
        """Continue with more bytes; gives the checksums of the blocks that are full by them."""
        full: list[int] = []
        taken = 0
        while taken < len(data):
            piece = data[taken : taken + layout.BLOCK_BYTES - self._position % layout.BLOCK_BYTES]
            self.partial = extend(self.partial, piece)
            taken += len(piece)
            self._position += len(piece)
            if self._position % layout.BLOCK_BYTES == 0:
                full.append(self.partial)
                self.partial = content_seed(self._stream_id, self._position // layout.BLOCK_BYTES)
        return full


def pack_sums(sums: Iterable[int]) -> bytes:
    """Encode checksums."""
    return b"".join(map(_SUM.pack, sums))


def unpack_sums(data: bytes) -> list[int]:
    """Decode checksums."""
    return [sum for (sum,) in _SUM.iter_unpack(data)]


def index_entries(ends: "array[int]", times: "array[int]") -> bytes:
    """Encode the entries of appends."""
    both = array("Q", bytes(2 * 8 * len(ends)))
    both[0::2], both[1::2] = ends, times
    return little_endian(both).tobytes()


def split_entries(data: bytes) -> "tuple[array[int], array[int]]":
    """Decode the ends and the times of appends."""
    both = array("Q")
    both.frombytes(data)
    both = little_endian(both)
    return both[0::2], both[1::2]


def little_endian(numbers: "array[int]") -> "array[int]":
    """Give numbers in the order of bytes that files have, or the other way round."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def index_pages(stream_id: int, first: int, sum: int, entries: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Cut entries from the append `first` on into pages.

    Gives where each goes in an index without gaps, its bytes (with the checksum, if they fill it), and the
    checksum of the page that is not full after it.
    """
    number, done = first, 0
    partial = sum if first % layout.PAGE_ENTRIES else index_seed(stream_id, first // layout.PAGE_ENTRIES)
    while done < len(entries):
        page, inside = divmod(number, layout.PAGE_ENTRIES)
        part = entries[done : done + (layout.PAGE_ENTRIES - inside) * ENTRY_BYTES]
        partial = extend(partial, part)
        done += len(part)
        number += len(part) // ENTRY_BYTES
        position = page * page_bytes() + inside * ENTRY_BYTES
        if number % layout.PAGE_ENTRIES == 0:
            end = _PAGE_END.pack(partial)
            partial = index_seed(stream_id, number // layout.PAGE_ENTRIES)
            yield position, part + end, partial
        else:
            yield position, part, partial


def is_page(stream_id: int, page: int, entries: bytes, sum: int) -> bool:
    """Tell whether entries are those of a page."""
    return extend(index_seed(stream_id, page), entries) == sum


def page_sum(end: bytes) -> int:
    """Read the checksum at the end of a full page."""
    sum: int = _PAGE_END.unpack(end)[0]
    return sum


def is_block(stream_id: int, block: int, data: bytes, sum: int) -> bool:
    """Tell whether bytes are those of a block of content."""
    return extend(content_seed(stream_id, block), data) == sum
