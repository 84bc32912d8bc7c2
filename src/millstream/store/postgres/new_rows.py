"""New rows: what a round has appended to a stream, as rows of content."""

from collections.abc import Sequence
from typing import Final

import msgspec

from millstream.store.pieces import Piece
from millstream.store.postgres.encoding import Row, encode_index
from millstream.store.postgres.loaded.content import StoredPart, WorkContent

MAX_ROW_BYTES: Final = 2**20
"""A row that would be larger is begun anew; one append is never cut."""


class NewRow(msgspec.Struct, frozen=True, gc=False):
    """A row of content that a round adds."""

    row: Row
    last_ms: int
    data: bytes | StoredPart


def new_rows(content: WorkContent) -> list[NewRow]:
    """Give the rows of what a round has appended to a stream."""
    new = content.new
    if (packed := new.packed()) is not None:
        data, sizes, times = packed
        first = content.appends - len(sizes)
        return [NewRow(Row(new.base, new.end, first, encode_index(sizes, times)), times[-1], data)]
    return _cut(content)


def _cut(content: WorkContent) -> list[NewRow]:
    """Cut what a round has appended into rows: parts have rows of their own, and others are not too large."""
    pieces, ends, times = content.new.all()
    rows: list[NewRow] = []
    begun, first = 0, content.appends - len(pieces)
    size = 0
    for number, piece in enumerate(pieces):
        is_part = isinstance(piece, StoredPart)
        is_after_part = number > begun and isinstance(pieces[number - 1], StoredPart)
        if number > begun and (is_part or is_after_part or size + len(piece) > MAX_ROW_BYTES):
            rows.append(_row(pieces[begun:number], ends[begun:number], times[begun:number], first + begun))
            begun, size = number, 0
        size += len(piece)
    if begun < len(pieces):
        rows.append(_row(pieces[begun:], ends[begun:], times[begun:], first + begun))
    return rows


def _row(pieces: Sequence[Piece], ends: Sequence[int], times: Sequence[int], first: int) -> NewRow:
    sizes = [len(piece) for piece in pieces]
    row = Row(ends[0] - sizes[0], ends[-1], first, encode_index(sizes, times))
    part = pieces[0]
    data = part if isinstance(part, StoredPart) else b"".join([piece[:] for piece in pieces])
    return NewRow(row, times[-1], data)
