"""The index of a stream with files of its own: the end and the time of each append, in pages of 256.

Ends have a fixed length, so that an append is found by its number. Times follow each other closely, so each
takes one or two bytes as its distance from the one before (`deltas`):

        <id>.index   | end 8 | ... 256 | crc32c 4, zeros 4, times end 8 | end 8 | ...
        <id>.times   | time 7, code 1 | distances ... 256 | crc32c 4 | time 7, code 1 | distances ...
                       `- of the page's first append                 ^
                                                                     `- the first page's `times end`

A page's times begin where those of the page before end, or at the beginning of the file for the first page of
a file. Both are in files of the same number of appends (`layout`), so they go together.

Until a page is full, the catalog has its times (`places.Filed`): how many bits suit all of them is known only
then. It also has the checksum of its ends, which gets into the file once the page is full, as those of blocks
of content do (`sums`). Nothing in a file is ever overwritten. Format 4 had the times of a page that is not
full in the file, and their checksum in the catalog; such a page goes on like that until it is full.
"""

import struct
import sys
from array import array
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from millstream.store.log.crc import crc32c, extend
from millstream.store.log.files import deltas, layout
from millstream.store.log.files.places import Filed
from millstream.store.log.files.sums import PLACE

END_BYTES: Final = 8
_ENDS, _TIMES = 2, 3
_PAGE_END = struct.Struct("<I4xQ")
_TIME = struct.Struct("<Q")
_DENSE = 1 << 56  # the code, in the last byte of the first time
_SUM = struct.Struct("<I")


def page_bytes() -> int:
    """Give the length of a full page of ends."""
    return layout.PAGE_ENTRIES * END_BYTES + _PAGE_END.size


def _seed(kind: int, stream_id: int, page: int) -> int:
    return crc32c(PLACE.pack(kind, stream_id, page))


class PagePart(msgspec.Struct, frozen=True, gc=False):
    """What is written of one page: its new ends and times, with checksums if they fill it."""

    chunk: int
    """The number of the files."""
    position: int
    ends: bytes
    times_position: int
    times: bytes


def write_pages(
    stream_id: int, first: int, pages_per_file: int, place: Filed, ends: "array[int]", times: "array[int]"
) -> Iterator[tuple[PagePart, Filed]]:
    """Cut the entries of appends from the number `first` on into pages.

    Gives each part, and what the catalog has to say after it.
    """
    done = 0
    while done < len(ends):
        page, inside = divmod(first + done, layout.PAGE_ENTRIES)
        chunk, page_in_file = divmod(page, pages_per_file)
        count = min(layout.PAGE_ENTRIES - inside, len(ends) - done)
        is_full = inside + count == layout.PAGE_ENTRIES
        if not inside:
            times_end = place.times_end if page_in_file else 0
            place = replace(place, index_sum=_seed(_ENDS, stream_id, page), times_end=times_end, recent=b"")
        times_position, new_times = place.times_end, times[done : done + count]
        if place.recent is None:
            encoded_times, place = _write_former_times(stream_id, page, place, new_times, is_full)
        else:
            encoded_times, place = _write_times(stream_id, page, place, new_times, is_full)
        encoded = little_endian(ends[done : done + count]).tobytes()
        place = replace(place, index_sum=extend(place.index_sum, encoded), last_ms=new_times[-1])
        if is_full:
            times_end = place.times_end
            encoded += _PAGE_END.pack(extend(place.index_sum, _TIME.pack(times_end)), times_end)
        position = page_in_file * page_bytes() + inside * END_BYTES
        yield PagePart(chunk, position, encoded, times_position, encoded_times), place
        done += count


def _write_times(
    stream_id: int, page: int, place: Filed, new: "array[int]", is_full: bool
) -> tuple[bytes, Filed]:
    """Give the times of a page for its file, if it is full; otherwise the catalog keeps them."""
    recent = place.recent or _TIME.pack(new[0])
    recent += deltas.encode(new, place.last_ms if place.recent else new[0])
    if not is_full:
        return b"", replace(place, recent=recent)
    first_ms = _TIME.unpack_from(recent)[0]
    times = deltas.decode(recent, _TIME.size, layout.PAGE_ENTRIES, first_ms)[0]
    encoded, is_dense = deltas.encode_shortest(times, first_ms)
    encoded = _TIME.pack(first_ms | _DENSE if is_dense else first_ms) + encoded
    encoded += _SUM.pack(extend(_seed(_TIMES, stream_id, page), encoded))
    return encoded, replace(place, recent=b"", times_end=place.times_end + len(encoded))


def _write_former_times(
    stream_id: int, page: int, place: Filed, new: "array[int]", is_full: bool
) -> tuple[bytes, Filed]:
    """Give more times of a page for its file, as format 4 had it."""
    encoded = deltas.encode(new, place.last_ms)
    sum = extend(place.times_sum, encoded)
    if is_full:
        encoded += _SUM.pack(sum)
    return encoded, replace(place, times_sum=sum, times_end=place.times_end + len(encoded))


class Page(msgspec.Struct, frozen=True, gc=False):
    """The ends of a page's appends, and where its times end, if it is full."""

    ends: "array[int]"
    times_end: int


def read_full_page(stream_id: int, page: int, data: bytes) -> Page | None:
    """Read a full page of ends; None when it is damaged."""
    ends = data[: layout.PAGE_ENTRIES * END_BYTES]
    sum, times_end = _PAGE_END.unpack(data[len(ends) :])
    expected = extend(extend(_seed(_ENDS, stream_id, page), ends), _TIME.pack(times_end))
    return Page(_numbers(ends), times_end) if expected == sum else None


def read_partial_page(stream_id: int, page: int, data: bytes, place: Filed) -> Page | None:
    """Read the page of ends that is not full; None when it is damaged."""
    sum = extend(_seed(_ENDS, stream_id, page), data)
    return Page(_numbers(data), place.times_end) if sum == place.index_sum else None


class Times(msgspec.Struct, frozen=True, gc=False):
    """The times of a page's appends, decoded when they are needed."""

    first_ms: int
    encoded: bytes
    is_dense: bool

    @classmethod
    def of(cls, data: bytes) -> "Times":
        """Read the times of a page, whose bytes are verified."""
        first = _TIME.unpack_from(data)[0]
        return cls(first & ~_DENSE, data[_TIME.size :], bool(first & _DENSE))

    def decode(self, count: int) -> "array[int]":
        """Give when each append of the page arrived."""
        if self.is_dense:
            return deltas.decode_dense(self.encoded, count, self.first_ms)
        return deltas.decode(self.encoded, 0, count, self.first_ms)[0]


def read_times(stream_id: int, page: int, data: bytes, partial_sum: int | None) -> Times | None:
    """Read the times of a page; None when they are damaged. A full page has its checksum at its end."""
    if partial_sum is None:
        data, sum = data[: -_SUM.size], _SUM.unpack(data[-_SUM.size :])[0]
    else:
        sum = partial_sum
    return Times.of(data) if extend(_seed(_TIMES, stream_id, page), data) == sum else None


def little_endian(numbers: "array[int]") -> "array[int]":
    """Give numbers in the order of bytes that files have, or the other way round."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def _numbers(data: bytes) -> "array[int]":
    numbers = array("Q")
    numbers.frombytes(data)
    return little_endian(numbers)
