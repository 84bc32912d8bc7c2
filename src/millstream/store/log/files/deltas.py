"""Numbers that never fall, such as the ends and times of appends: each as its distance from the one before.

        17, 17, 305     from 10 on     7, 0, 288     07 | 00 | A0 02

A distance takes seven bits of each byte, the lowest first; the eighth says that more follow (LEB128). So the
time of an append that follows within an eighth of a second takes one byte, within 16 seconds two.

Many numbers together are shorter in a *dense* code (of Rice). The first one is as above. From each other
distance the least is subtracted; then it is cut into its lowest bits, as many as suit all of them, and the
rest, which is small, so it is written as so many zeros, and a one:

        +--------+-----------------+---------+---------------------+----------------------+
        | first  | least distance  | width 1 | rests               | lowest bits          |
        +--------+-----------------+---------+---------------------+----------------------+
          LEB128   LEB128            w         0 0 1 1 0 1 ...       w bits of each ...      to whole bytes

If what is left of the distances is m on average, each takes at most 2 + log2(m) bits; no code takes less than
1.44 + log2(m) for distances that are random and independent. So the times of appends that follow each other
after 16 seconds take two bytes each, and little, however far apart they are, if that is regular. It is more
work, so it is used only for many of them that take more than a byte each (`encode_shortest`).
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice
from operator import sub
from typing import Final

_MORE: Final = 0x80


def _encode_one(distance: int) -> bytes:
    if distance < 0:
        raise ValueError("numbers that fall cannot be encoded")
    encoded = bytearray()
    while distance >= _MORE:
        encoded.append(distance & 0x7F | _MORE)
        distance >>= 7
    encoded.append(distance)
    return bytes(encoded)


_SHORT_ENOUGH: Final = 1.25  # bytes for a number
_FEW: Final = 16  # numbers, of which the dense code saves a few bytes in all, for as much work as all else

_COMMON: Final = {distance: _encode_one(distance) for distance in range(2048)}


def encode(numbers: Sequence[int], before: int) -> bytes:
    """Encode numbers that begin at or after another one."""
    if len(numbers) == 1:
        distance = numbers[0] - before
        return _COMMON.get(distance) or _encode_one(distance)
    distances = list(map(sub, numbers, chain((before,), numbers)))
    try:
        return b"".join(map(_COMMON.__getitem__, distances))  # without a step of Python for each
    except KeyError:
        return b"".join([_COMMON.get(one) or _encode_one(one) for one in distances])


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


def encode_shortest(numbers: Sequence[int], before: int) -> tuple[bytes, bool]:
    """Encode numbers in few bytes; tells also whether that is the dense code."""
    plain, count = encode(numbers, before), len(numbers)
    if count < _FEW or len(plain) <= count * _SHORT_ENOUGH:
        return plain, False
    dense = _encode_dense(numbers, before, len(plain))
    return (plain, False) if dense is None else (dense, True)


def _encode_dense(numbers: Sequence[int], before: int, limit: int) -> bytes | None:
    """Encode numbers in the dense code; None when that is not shorter than a limit."""
    distances = list(map(sub, numbers[1:], numbers))
    least = min(distances)
    values = [one - least for one in distances]
    width = _best_width(values)
    head = _encode_one(numbers[0] - before) + _encode_one(least) + bytes((width,))
    if len(head) + (_dense_bits(values, width) + 7) // 8 >= limit:
        return None
    bits = "".join(["0" * (one >> width) + "1" for one in values])
    if width:
        mask, form = (1 << width) - 1, f"0{width}b"
        bits += "".join([format(one & mask, form) for one in values])
    bits += "0" * (-len(bits) % 8)
    return head + int(bits, 2).to_bytes(len(bits) // 8, "big")


def _best_width(values: list[int]) -> int:
    """Choose how many of the lowest bits are kept apart: about as many as the average has."""
    usual = max(1, (sum(values) // len(values)).bit_length())
    return min((usual - 1, usual), key=lambda width: _dense_bits(values, width))


def _dense_bits(values: list[int], width: int) -> int:
    return len(values) * (width + 1) + sum([one >> width for one in values])


def decode_dense(data: bytes, count: int, before: int) -> "array[int]":
    """Decode so many numbers of the dense code, which take all of the data; a ValueError if they do not."""
    (first,), at = decode(data, 0, 1, before)
    (least,), at = decode(data, at, 1, 0)
    width, encoded = data[at] if at < len(data) else 0, data[at + 1 :]
    bits = format(int.from_bytes(encoded, "big"), f"0{len(encoded) * 8}b")
    *rests, rest = bits.split("1", count - 1)
    low = _low_bits(bits, len(bits) - len(rest), width, count - 1)
    if len(rests) != len(low):
        raise ValueError("the numbers end too early")
    distances = [least + (len(rest) << width) + one for rest, one in zip(rests, low, strict=True)]
    return array("Q", [first, *_sums(distances, first)])


def _low_bits(bits: str, first: int, width: int, count: int) -> Sequence[int]:
    if not width:
        return bytes(count)
    if first + width * count > len(bits):
        raise ValueError("the numbers end too early")
    return [int(bits[at : at + width], 2) for at in range(first, first + width * count, width)]


def _sums(distances: Iterable[int], before: int) -> "array[int]":
    return array("Q", islice(accumulate(distances, initial=before), 1, None))
