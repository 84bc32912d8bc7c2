"""Packs: files that many small streams share.

A checkpoint writes what small streams have new to the end of one file, one stream after the other:

        packs/00000007.pack   | slot | slot | slot | slot | ...            up to `PACK_BYTES`

A slot holds some appends of one stream. All integers are little-endian:

        +---------+----------+-----------+----------+----------------+-----------+---------+
        | magic 4 | crc32c 4 | stream 8  | position | first append 8 | appends 4 | size 4  |      40 bytes
        +---------+----------+-----------+----------+----------------+-----------+---------+
        | end of each append | time of each append | content ...
        +--------------------+---------------------+---------

Ends and times are distances (`deltas`), from the position and from when the stream was created: a few bytes
for a small append. The magic says in which code the times are. The size is that of the whole slot.

The checksum covers everything after it, the stream and the position included, so a slot in the wrong place
is found. The catalog says which slots a stream has (`places.Packed`). A stream has few: from `MAX_SLOTS` on
the last ones are joined (`kept_slots`); from `PACKED_BYTES` on the stream gets files of its own.

Nothing in a pack is ever overwritten, as far as a catalog may know of it. The catalog counts the bytes of
each pack that nothing refers to; when they are many the rest is copied to another pack (`reclaiming`).
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from millstream.store.log.crc import crc32c
from millstream.store.log.files import deltas, layout
from millstream.store.log.files.examining import complaint_of
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.places import Slot
from millstream.store.log.wal.segments import DamagedError

FOLDER: Final = "packs"

_PLAIN: Final = b"SLOT"
_DENSE: Final = b"SLTD"  # since format 5
_HEAD = struct.Struct("<4sI")
_CHECKED = struct.Struct("<QQQII")
HEADER_BYTES: Final = _HEAD.size + _CHECKED.size
_ENTRY_BYTES: Final = 4  # for most appends of a small stream
_SUFFIX: Final = ".pack"


def pack_name(number: int) -> str:
    """Name a pack file."""
    return f"{FOLDER}/{number:08d}{_SUFFIX}"


def pack_number(name: str) -> int | None:
    """Give the number of a pack by the name of its file, if it is one."""
    number = name.removesuffix(_SUFFIX)
    return int(number) if number.isdecimal() and pack_name(int(number)) == f"{FOLDER}/{name}" else None


def slot_bytes(content_bytes: int, appends: int) -> int:
    """Estimate the size of a slot; who decides by it where a stream goes estimates the same."""
    return HEADER_BYTES + _ENTRY_BYTES * appends + content_bytes


class Appends(msgspec.Struct, frozen=True, gc=False):
    """Some appends of one stream: what a slot holds."""

    stream_id: int
    position: int
    first_append: int
    ends: Sequence[int]
    times: Sequence[int]
    content: bytes

    @property
    def end(self) -> tuple[int, int]:
        """Where they end, and how many appends the stream has up to there."""
        return self.position + len(self.content), self.first_append + len(self.ends)

    def encode(self, created_ms: int) -> bytes:
        """Encode them as a slot; none arrived before the stream was created."""
        times, is_dense = deltas.encode_shortest(self.times, created_ms)
        entries = deltas.encode(self.ends, self.position) + times
        size = HEADER_BYTES + len(entries) + len(self.content)
        about = _CHECKED.pack(self.stream_id, self.position, self.first_append, len(self.ends), size)
        checked = b"".join((about, entries, self.content))
        return _HEAD.pack(_DENSE if is_dense else _PLAIN, crc32c(checked)) + checked

    @classmethod
    def joined(cls, parts: "list[Appends]") -> "Appends":
        """Join what several slots hold, one after the other."""
        first, ends, times = parts[0], array("Q"), array("Q")
        for part in parts:
            ends.extend(part.ends)
            times.extend(part.times)
        content = b"".join([part.content for part in parts])
        return cls(first.stream_id, first.position, first.first_append, ends, times, content)


class SlotHead(msgspec.Struct, frozen=True, gc=False):
    """What the beginning of a slot says; not verified."""

    stream_id: int
    size: int


def read_head(data: bytes, offset: int) -> SlotHead | None:
    """Read the beginning of a slot; None when there is none."""
    if data[offset : offset + 4] not in (_PLAIN, _DENSE) or len(data) - offset < HEADER_BYTES:
        return None
    stream_id, _, _, _, size = _CHECKED.unpack_from(data, offset + _HEAD.size)
    return SlotHead(stream_id, size) if size >= HEADER_BYTES else None


def decode_slot(data: bytes, created_ms: int) -> Appends | None:
    """Decode a slot of a stream; None when it is damaged."""
    if len(data) < HEADER_BYTES:
        return None
    magic, sum = _HEAD.unpack_from(data)
    if magic not in (_PLAIN, _DENSE) or crc32c(data[_HEAD.size :]) != sum:
        return None
    stream_id, position, first_append, count, size = _CHECKED.unpack_from(data, _HEAD.size)
    if size != len(data):
        return None
    try:
        ends, at = deltas.decode(data, HEADER_BYTES, count, position)
        if magic == _DENSE:
            content_at = size - (ends[-1] - position)
            times, at = deltas.decode_dense(data[at:content_at], count, created_ms), content_at
        else:
            times, at = deltas.decode(data, at, count, created_ms)
    except (ValueError, OverflowError, IndexError):
        return None
    return Appends(stream_id, position, first_append, ends, times, data[at:])


def kept_slots(sizes: list[int], new_bytes: int) -> int:
    """Tell how many slots stay as they are when one is added; it is joined with the others, the last ones.

    When there are many, those are joined that are not larger than what comes after them. So what is written
    once more is mostly what was written lately, and a byte is written a few times in all.
    """
    kept = len(sizes)
    if kept >= layout.MAX_SLOTS:
        while kept and (kept >= layout.MAX_SLOTS or sizes[kept - 1] <= new_bytes):
            kept -= 1
            new_bytes += sizes[kept]
    return kept


def read_slots(
    files: StreamFiles, stream_id: int, end: int, appends: int, created_ms: int, slots: tuple[Slot, ...]
) -> list[Appends]:
    """Read and verify what a stream has in its last slots, which end where it ends, after so many appends."""
    found: list[Appends] = []
    for slot in reversed(slots):
        data = files.read_file(pack_name(slot.pack), slot.size, slot.position)
        one = decode_slot(data, created_ms)
        if one is None or one.stream_id != stream_id or one.end != (end, appends):
            raise DamagedError(f"{pack_name(slot.pack)}: the slot at byte {slot.position} is damaged.")
        found.append(one)
        end, appends = one.position, one.first_append
    return found[::-1]


class PackedBytes(msgspec.Struct, eq=False, gc=False):
    """What packs hold of a stream, from its base to `end`; in memory once it was read."""

    _files: StreamFiles
    _id: int
    _base: int
    _created_ms: int
    slots: tuple[Slot, ...]
    end: int
    appends: int
    _loaded: Appends | None = None

    def grow(self, slots: tuple[Slot, ...], end: int, appends: int) -> None:
        """Note that there is more, and where all of it is now."""
        self.slots, self.end, self.appends, self._loaded = slots, end, appends, None

    def bounds(self, position: int, _: Extent) -> tuple[int, int]:
        """Give the start and end of the append that holds the byte at `position`."""
        ends = self._load().ends
        index = bisect_right(ends, position)
        return ends[index - 1] if index else self._base, ends[index]

    def count(self, position: int, _: Extent) -> int:
        """Count the appends that end at or before a position, trimmed ones included."""
        return bisect_right(self._load().ends, position)

    def start_of(self, append: int, _: Extent) -> int:
        """Give where an append begins."""
        return self._load().ends[append - 1] if append else self._base

    def time_of(self, append: int, _: Extent) -> int:
        """Give when an append arrived."""
        return self._load().times[append]

    def arrived_before(self, time_ms: int, _: Extent) -> int:
        """Count the appends that arrived before a time, trimmed ones included."""
        return bisect_left(self._load().times, time_ms)

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        return self._load().content[start - self._base : end - self._base]

    def locate(self, start: int, end: int) -> None:
        """Nothing of it can be sent from a file: it is small."""

    def examine(self, _: Extent) -> Iterator[str | None]:
        """Read everything, in one step; gives what is wrong with it."""
        yield complaint_of(self._read)

    def _load(self) -> Appends:
        if self._loaded is None:
            self._loaded = self._read()
        return self._loaded

    def _read(self) -> Appends:
        if not self.slots:
            return Appends(self._id, self._base, 0, array("Q"), array("Q"), b"")
        found = read_slots(self._files, self._id, self.end, self.appends, self._created_ms, self.slots)
        appends = Appends.joined(found)
        if (appends.position, appends.first_append) != (self._base, 0):
            raise DamagedError(f"catalog.db: the slots of stream {self._id} do not hold all of it.")
        return appends
