"""The index of a stream with files of its own: the end and the time of each append, in pages of 256.

Ends have a fixed length, so that an append is found by its number. Times follow each other closely, so each
takes one or two bytes as its distance from the one before (`deltas`):

        <id>.index   | end 8 | ... 256 | crc32c 4, zeros 4, times end 8 | end 8 | ...
        <id>.times   | time 8 | distance | ... 256 | crc32c 4 | time 8 | distance | ...
                       `- of the page's first append            ^
                                                                `- where `times end` of the first page points

A page's times begin where those of the page before end, or at the beginning of the file for the first page of
a file. Both are in files of the same number of appends (`layout`), so they go together.

A page that is not full yet has its checksums in the catalog (`places.Filed`), and gets them in the files once
it is, as blocks of content do (`sums`). Nothing in a file is ever overwritten.
"""

import struct
import sys
from array import array
from collections.abc import Iterator
from typing import Final

import msgspec

from millstream.store.log.crc import crc32c, extend
from millstream.store.log.files import deltas, layout
from millstream.store.log.files.places import Filed
from millstream.store.log.files.sums import PLACE

END_BYTES: Final = 8
_ENDS, _TIMES = 2, 3
_PAGE_END = struct.Struct("<I4xQ")
_TIME = struct.Struct("<Q")
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
        new_times = times[done : done + count]
        if inside:
            sum, times_sum = place.index_sum, place.times_sum
            times_begin, times_position, last_ms, head = (
                place.times_begin,
                place.times_end,
                place.last_ms,
                b"",
            )
        else:
            sum, times_sum = _seed(_ENDS, stream_id, page), _seed(_TIMES, stream_id, page)
            times_begin = times_position = place.times_end if page_in_file else 0
            last_ms, head = new_times[0], _TIME.pack(new_times[0])
        encoded = little_endian(ends[done : done + count]).tobytes()
        encoded_times = head + deltas.encode(new_times, last_ms)
        sum, times_sum = extend(sum, encoded), extend(times_sum, encoded_times)
        times_end = times_position + len(encoded_times)
        if inside + count == layout.PAGE_ENTRIES:
            encoded_times += _SUM.pack(times_sum)
            times_end += _SUM.size
            encoded += _PAGE_END.pack(extend(sum, _TIME.pack(times_end)), times_end)
        position = page_in_file * page_bytes() + inside * END_BYTES
        place = msgspec.structs.replace(
            place,
            index_sum=sum,
            times_sum=times_sum,
            times_begin=times_begin,
            times_end=times_end,
            last_ms=new_times[-1],
        )
        yield PagePart(chunk, position, encoded, times_position, encoded_times), place
        done += count


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

    def decode(self, count: int) -> "array[int]":
        """Give when each append of the page arrived."""
        return deltas.decode(self.encoded, 0, count, self.first_ms)[0]


def read_times(stream_id: int, page: int, data: bytes, partial_sum: int | None) -> Times | None:
    """Read the times of a page; None when they are damaged. A full page has its checksum at its end."""
    if partial_sum is None:
        data, sum = data[: -_SUM.size], _SUM.unpack(data[-_SUM.size :])[0]
    else:
        sum = partial_sum
    if extend(_seed(_TIMES, stream_id, page), data) != sum:
        return None
    return Times(_TIME.unpack_from(data)[0], data[_TIME.size :])


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
