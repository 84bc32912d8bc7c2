"""Numbers that never fall, such as the ends and times of appends: each as its distance from the one before.

        17, 17, 305     from 10 on     7, 0, 288     07 | 00 | A0 02

A distance takes seven bits of each byte, the lowest first; the eighth says that more follow (LEB128). So the
time of an append that follows within an eighth of a second takes one byte, within 16 seconds two.
"""

from array import array
from collections.abc import Iterable
from itertools import accumulate, chain, islice
from operator import sub
from typing import Final

_MORE: Final = 0x80


def _encode_one(distance: int) -> bytes:
    encoded = bytearray()
    while distance >= _MORE:
        encoded.append(distance & 0x7F | _MORE)
        distance >>= 7
    encoded.append(distance)
    return bytes(encoded)


_COMMON: Final = [_encode_one(distance) for distance in range(2048)]
_COMMON_COUNT: Final = len(_COMMON)


def encode(numbers: "array[int]", before: int) -> bytes:
    """Encode numbers that begin at or after another one."""
    distances = list(map(sub, numbers, chain((before,), numbers)))
    if distances and min(distances) < 0:
        raise ValueError("numbers that fall cannot be encoded")
    common, count = _COMMON, _COMMON_COUNT
    return b"".join([common[one] if one < count else _encode_one(one) for one in distances])


def decode(data: bytes, at: int, count: int, before: int) -> "tuple[array[int], int]":
    """Decode so many numbers at a place; gives also where they end. A ValueError means that they do not."""
    short = data[at : at + count]
    if short.isascii() and len(short) == count:  # one byte for each, as is usual
        return _sums(short, before), at + count
    distances: list[int] = []
    try:
        for _ in range(count):
            one = shift = 0
            while (byte := data[at]) & _MORE:
                one |= (byte & 0x7F) << shift
                shift += 7
                at += 1
            distances.append(one | byte << shift)
            at += 1
    except IndexError:
        raise ValueError("the numbers end too early") from None
    return _sums(distances, before), at


def _sums(distances: Iterable[int], before: int) -> "array[int]":
    return array("Q", islice(accumulate(distances, initial=before), 1, None))
