"""How streams and their appends are written in the database.

A stream's state is the same MessagePack that the log's catalog has, without its producers and parts, which
have tables of their own. A row of content holds one or more appends; its index has their sizes and times:

        index   size of append 0, size of append 1, ...      u32 each, little-endian
                time of append 0, time of append 1, ...      u64 each
        data    the bytes of all of them
"""

import sys
from array import array
from collections.abc import Sequence
from copy import copy
from itertools import accumulate
from struct import Struct

import msgspec

from millstream.protocol.retention import is_overfull
from millstream.protocol.streams import Stream

_ONE = Struct("<IQ")
_ENTRY_BYTES = _ONE.size
_LAST_CHARACTER = "\U0010ffff"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Stream).decode


class Row(msgspec.Struct, eq=False, gc=False):
    """Some appends of a stream that follow each other; decoded when somebody looks into them."""

    start: int
    end: int
    first: int
    """The number of its first append."""
    index: bytes
    _ends: "array[int] | None" = None
    _times: "array[int] | None" = None

    @property
    def count(self) -> int:
        """How many appends there are."""
        return len(self.index) // _ENTRY_BYTES

    @property
    def ends(self) -> "array[int]":
        """Where each of them ends."""
        if self._ends is None:
            sizes = _little(array("I", self.index[: 4 * self.count]))
            self._ends = array("Q", accumulate(sizes, initial=self.start))[1:]
        return self._ends

    @property
    def times(self) -> "array[int]":
        """When each of them arrived."""
        if self._times is None:
            self._times = _little(array("Q", self.index[4 * self.count :]))
        return self._times


def encode_state(stream: Stream) -> bytes:
    """Encode a stream, without what has tables of its own."""
    if stream.producers is not None or stream.staged is not None:
        stream = copy(stream)
        stream.producers = stream.staged = None
    return _encode(stream)


def decode_state(state: bytes) -> Stream:
    """Decode a stream."""
    return _decode(state)


def encode_index(sizes: Sequence[int], times: Sequence[int]) -> bytes:
    """Encode the sizes and times of the appends of a row."""
    if len(sizes) == 1:
        return _ONE.pack(sizes[0], times[0])
    return _little(array("I", sizes)).tobytes() + _little(array("Q", times)).tobytes()


def _little(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def due_ms(stream: Stream) -> int | None:
    """Give when a stream has to be looked at without being asked for; 0 is at once."""
    if stream.soft_deleted:
        return None
    if stream.retention and is_overfull(stream.retention, stream.start, stream.tail):
        return 0
    return stream.due_ms


def prefix_range(prefix: str) -> tuple[str, str | None]:
    """Give the range of all names that begin with a prefix; None is no end."""
    for at in range(len(prefix) - 1, -1, -1):
        if prefix[at] != _LAST_CHARACTER:
            following = ord(prefix[at]) + 1
            return prefix, prefix[:at] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)
    return prefix, None
