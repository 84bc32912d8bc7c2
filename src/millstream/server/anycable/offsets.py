"""AnyCable's offsets: a position, and the epoch that it counts in.

        42::1f3a     position 42 of the stream whose id is 1f3a

A stream that is deleted and created again has another id, so an offset of the old one is recognised as
stale. Offsets are opaque to clients: they send back what they received. A stream that does not exist has
no epoch; its only offset is `0`, the start.
"""

from typing import Final

import msgspec

from millstream.protocol.errors import MalformedError
from millstream.protocol.offsets import NOW, START

_SEPARATOR = b"::"
_START = (b"-1", b"0", b"")
_MAX_DIGITS = 32
_HEX = frozenset(b"0123456789abcdef")

NO_STREAM: Final = 0
"""An id that no stream has."""


class Offset(msgspec.Struct, frozen=True, gc=False):
    """A position, or `START` or `NOW`, and the stream that it belongs to, if any."""

    position: int
    stream_id: int | None = None

    def fits(self, stream_id: int) -> bool:
        """Tell whether the offset belongs to this stream, or is valid in every stream."""
        return self.stream_id is None or self.stream_id == stream_id


def format_offset(position: int, stream_id: int) -> bytes:
    """Write a position in a stream."""
    if stream_id == NO_STREAM:
        return b"0"
    return b"%d::%x" % (position, stream_id)


def parse_offset(text: bytes) -> Offset:
    """Read an offset."""
    if text in _START:
        return Offset(START)
    if text == b"now":
        return Offset(NOW)
    number, separator, epoch = text.partition(_SEPARATOR)
    is_number = number.isdigit() and len(number) <= _MAX_DIGITS
    if separator and is_number and 0 < len(epoch) <= _MAX_DIGITS and _HEX.issuperset(epoch):
        return Offset(int(number), int(epoch, 16))
    raise MalformedError(
        "INVALID_OFFSET", "An offset is -1, 0, now, or a value that this server gave in Stream-Next-Offset."
    )
