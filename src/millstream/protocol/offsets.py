"""Offsets: a position in a stream, and its text on the wire.

In the code a position is one integer. On the wire it is 32 decimal digits with an underscore in the
middle, so that offsets sort as text:

        0000000000000000_0000000000000042
        `-- generation -´ `--- bytes ---´

The second field counts the bytes of the stream's stored content. The first is 0 unless the stream
was truncated or restored, when it rises so that no offset is ever used twice.

PROTOCOL.md 8; rules O1 to O3.
"""

from typing import Final

from millstream.protocol.errors import MalformedError

START: Final = -1
"""`-1` on the wire: the first byte that the stream still keeps (rule O2)."""

NOW: Final = -2
"""`now` on the wire: the stream's tail at the time of the request (rule O2)."""

_FIELD_DIGITS = 16
_GENERATION: Final = 10_000_000_000_000_000
_TEXT_LENGTH = 2 * _FIELD_DIGITS + 1


def format_offset(position: int) -> bytes:
    """Write a position as clients see it (rule O1)."""
    if position < _GENERATION:  # the usual case, formatted for every append
        return b"0000000000000000_%016d" % position
    return b"%016d_%016d" % divmod(position, _GENERATION)


def parse_offset(text: bytes) -> int:
    """Read an offset: a position, `START` or `NOW`; anything else is malformed (rule O3)."""
    if len(text) == _TEXT_LENGTH and text[_FIELD_DIGITS] == 0x5F:
        generation, count = text[:_FIELD_DIGITS], text[_FIELD_DIGITS + 1 :]
        if generation.isdigit() and count.isdigit():
            return int(generation) * _GENERATION + int(count)
    if text == b"-1":
        return START
    if text == b"now":
        return NOW
    raise MalformedError(
        "INVALID_OFFSET", "An offset is -1, now, or a value that this server gave in Stream-Next-Offset."
    )
