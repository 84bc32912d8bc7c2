"""Offsets of a query: how far each stream has been read, as Spark keeps it in a checkpoint.

        {"chat/1": {"offset": "0000000000000000_0000000000000042", "incarnation": "5d1b7c4e9a0f2386"},
         "chat/2": {"offset": "0000000000000000_0000000000000017", "closed": true, ...},
         "other":  {"offset": "1f_3", "skip": 2, "total": 40}}

On a server that can read up to a given offset (`until`) the offset is enough. On others a range is exact
by counting: `skip` units were read after `offset`, `total` since the query began. Units are JSON messages,
or bytes of other content. Two totals tell how much lies between two positions, however the stream has
grown since.

The offsets of very many streams are packed, since a checkpoint writes all of them for every batch:
`{"packed": "eJy..."}`, the same JSON compressed, in Base64.

The incarnation tells a stream from another one of the same name, made after the first was deleted: its
offsets mean something else.

Offsets are opaque, but millstream's count bytes: if both ends of a range have that form, its size and the
offset of every row are known without a request.
"""

import base64
import re
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

_BYTES_OFFSET = re.compile(r"(\d{16})_(\d{16})")
_PACKED, _PACKED_FROM = "packed", 200
_AFTER = re.compile(r"(.+)\+(\d{1,16})")


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a stream has been read. `total` is None if offsets alone are exact."""

    offset: str
    skip: int = 0
    total: int | None = None
    closed: bool = False
    incarnation: str | None = None

    def same_place(self, other: "Position") -> bool:
        """Return whether two positions are the same place."""
        return (self.offset, self.skip) == (other.offset, other.skip)

    def is_of_another(self, incarnation: str | None) -> bool:
        """Return whether this was a position in another stream of the same name."""
        return None not in (self.incarnation, incarnation) and self.incarnation != incarnation


Positions = Mapping[str, Position]


class CheckpointError(ValueError):
    """The checkpoint holds offsets of another source."""


def encode(positions: Positions) -> dict[str, Any]:
    """Encode positions for Spark, which compares them as text."""
    written = {name: msgspec.to_builtins(positions[name]) for name in sorted(positions)}
    if len(written) < _PACKED_FROM:
        return written
    return {_PACKED: base64.b64encode(zlib.compress(msgspec.json.encode(written), 6)).decode()}


def decode(written: Mapping[str, Any]) -> dict[str, Position]:
    """Decode the result of `encode`."""
    try:
        return msgspec.convert(unpacked(written), dict[str, Position])
    except (msgspec.ValidationError, ValueError, zlib.error) as error:
        raise CheckpointError(
            f"the checkpoint was not written by this source ({error}); start the query with another one"
        ) from None


def unpacked(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the offset of each stream as it was before it was packed."""
    packed = written.get(_PACKED)
    if not isinstance(packed, str):
        return dict(written)
    found: dict[str, Any] = msgspec.json.decode(zlib.decompress(base64.b64decode(packed)))
    return found


def parse(text: str, *, counted: bool) -> Position:
    """Parse a user's offset: a server's, or one from the column `offset` (`...+2`)."""
    match = _AFTER.fullmatch(text)
    offset, skip = (match[1], int(match[2])) if match else (text, 0)
    return Position(offset, skip, 0 if counted else None)


def byte_count(offset: str) -> tuple[str, int] | None:
    """Parse an offset that counts bytes into its generation and that count."""
    match = _BYTES_OFFSET.fullmatch(offset)
    return (match[1], int(match[2])) if match else None


def bytes_between(start: str, end: str) -> int | None:
    """Return how many bytes two offsets are apart; None if they do not count bytes."""
    first, last = byte_count(start), byte_count(end)
    if first is None or last is None or first[0] != last[0]:
        return None
    return last[1] - first[1]
