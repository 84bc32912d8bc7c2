"""Checksums of what streams have in files of their own: CRC-32C of blocks, bound to stream and place.

Content is exactly the bytes that go to clients, so its checksums are in a file beside it:

        <id>.bin    | 16 KiB    | 16 KiB    | 16 KiB    | 3 KiB     |
        <id>.sum    | crc32c 4  | crc32c 4  | crc32c 4  |                 the last one is in the catalog

A block that is not full yet has its checksum in the catalog (`places.Filed`), and gets it in a file once it
is: so nothing in a file is ever overwritten, and what the catalog says fits the files at any
moment, also after a crash between the two. A checksum can be continued with more bytes, so growing costs
no reading.

It begins with the kind, the stream and the number of the block. A block that is whole but in the wrong
place has the wrong checksum there. The index has checksums of the same sort (`index`).
"""

import struct
from collections.abc import Iterable
from typing import Final

from millstream.store.log.crc import crc32c, extend
from millstream.store.log.files import layout

SUM_BYTES: Final = 4

PLACE = struct.Struct("<BQQ")
"""What every checksum begins with: a kind, the stream, and the number of the block or page."""
_CONTENT: Final = 1
_SUM = struct.Struct("<I")


def content_seed(stream_id: int, block: int) -> int:
    """Begin the checksum of a block of content."""
    return crc32c(PLACE.pack(_CONTENT, stream_id, block))


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


def is_block(stream_id: int, block: int, data: bytes, sum: int) -> bool:
    """Tell whether bytes are those of a block of content."""
    return extend(content_seed(stream_id, block), data) == sum
