"""Where the saved bytes of a stream lie; the catalog keeps it with the stream, and so it changes with it.

Packed   in slots of pack files, which it shares with other small streams   (`packs`)
Filed    in files of its own, with checksums beside them                    (`own_files`)
Former   in files of its own as format 3 wrote them, without checksums      (`former_files`)
"""

from typing import TypeAlias

import msgspec

from millstream.store.log.files.layout import Layout


class Slot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A range of a pack file."""

    pack: int
    position: int
    size: int


class Released(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Files that are not needed any more: which chunks of content, and which of the index."""

    layout: Layout
    chunks: tuple[int, int]
    index_chunks: tuple[int, int]

    def names(self, stream_id: int) -> list[str]:
        """Name the files."""
        return self.layout.names(stream_id, range(*self.chunks), range(*self.index_chunks))


class Packed(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """In shared files; the slots in the order of the stream."""

    slots: tuple[Slot, ...] = ()


class Filed(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """In files of its own. Full blocks have their checksums in files; these are the last, partial ones."""

    layout: Layout
    content_sum: int = 0
    index_sum: int = 0
    begins: tuple[int, ...] = ()
    """Where files begin inside a block, of which they have no bytes before that; counted from the base.

    A file that was begun after all of the one before was trimmed, or by another edition, does. Forks may
    still read an older one.
    """
    times_sum: int = 0
    times_begin: int = 0
    """Where in their file the times of the last, partial page begin, if it is of format 4."""
    times_end: int = 0
    """Where the times that are in files end."""
    last_ms: int = 0
    """When the last append arrived."""
    first_entry: int = 0
    """The first append that the index has, since the stream was last written to files of another edition."""
    released: Released | None = None
    """Files of the former edition, which may still be there."""
    recent: bytes | None = None
    """The times of the last, partial page (`index`); None if it is of format 4, which had them in a file."""


class Former(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """In files of its own, of format 3."""

    layout: Layout


Place: TypeAlias = Packed | Filed | Former

NOWHERE = Packed()
"""Where a stream without saved bytes has them."""

encode_place = msgspec.msgpack.Encoder().encode
decode_place = msgspec.msgpack.Decoder(Place).decode
