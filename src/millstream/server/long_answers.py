"""Long answers: a catch-up that is sent piece by piece while it is read.

A reader that catches up asks again for every answer, and while it asks nobody sends. So an answer may
be long; but it is fetched from the store only as fast as the reader takes it, and a reader that stands
still costs one piece of memory.

Measured on 100 MB from files, 12 interleaved rounds on 2 cores of an AMD EPYC, 2026-11-15: 1.8 GB/s in
answers of 1 MiB, 2.5 of 4 MiB, 2.5 of 16 MiB; nginx with `sendfile` 2.8.

Live reads and answers that are compressed are one piece.
"""

from collections.abc import Iterator
from typing import Final

from millstream.protocol.content import Kind
from millstream.protocol.reads import Chunk
from millstream.store.base import Store

PIECE_BYTES: Final = 2**20


class StreamLostError(Exception):
    """The stream was deleted, or let go of what was to be sent, while it was being sent."""


class LongBody:
    """The bytes of a chunk, most of them still in the store."""

    __slots__ = ("_chunk", "_first", "_name", "_store")

    def __init__(self, store: Store, name: str, first: Chunk, whole: Chunk) -> None:
        self._store = store
        self._name = name
        self._first = first
        self._chunk = whole

    def __len__(self) -> int:
        size = self._chunk.end - self._chunk.start
        return size + 1 if self._chunk.kind is Kind.JSON else size  # the last comma becomes a bracket

    def pieces(self) -> Iterator[bytes]:
        """Give the body; a `StreamLostError` when the rest of it is not there any more."""
        if self._chunk.kind is not Kind.JSON:
            yield from self._stored()
            return
        yield b"["
        stored = self._stored()
        piece = next(stored)
        for following in stored:
            yield piece
            piece = following
        yield piece[:-1] + b"]"

    def _stored(self) -> Iterator[bytes]:
        yield self._first.data
        chunk = self._chunk
        for start in range(self._first.end, chunk.end, PIECE_BYTES):
            end = min(start + PIECE_BYTES, chunk.end)
            piece = self._store.fetch(self._name, chunk.stream_id, start, end)
            if piece is None:
                raise StreamLostError(self._name)
            yield piece
