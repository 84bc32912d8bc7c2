"""Arguments of statements that take many rows at once.

        numbers   a column is the text of an array: {1,2,NULL}
        bytes     those of all rows are one value; each row has columns for where its own begin, and their
                  size

As lists, both would take longer than all else that is done for a row: asyncpg asks each element several times
what it is.
"""

from collections.abc import Iterable, Sequence

import msgspec

_encode = msgspec.json.Encoder().encode


def number_columns(rows: Sequence[tuple[int | None, ...]], count: int) -> list[str]:
    """Give the columns of rows of numbers."""
    return [number_array(column) for column in zip(*rows, strict=True)] if rows else ["{}"] * count


def number_array(numbers: Iterable[int | None]) -> str:
    """Give the text of an array; `null` may be written in any case."""
    return "{" + _encode(numbers)[1:-1].decode() + "}"


class JoinedBytes:
    """The bytes of many rows."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._next = 1  # SQL counts from one

    def add(self, piece: bytes) -> int:
        """Add some, and give where they begin."""
        begins = self._next
        self._pieces.append(piece)
        self._next += len(piece)
        return begins

    def join(self) -> bytes:
        """Give all of them."""
        return b"".join(self._pieces)
