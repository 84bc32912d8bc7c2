"""Mutations: small changes of an input, as transmission errors and attackers make them."""

from collections.abc import Callable, Sequence
from random import Random

_MAX_CHANGES = 4
_MAX_PART_BYTES = 64
_NUMBERS = (b"0", b"1", b"-1", b"00", b"9" * 15, b"9" * 16, b"9" * 20, b"9" * 400)
_NUMBERS += tuple(b"%d" % (2**bits + near) for bits in (7, 8, 16, 31, 32, 53, 63, 64) for near in (-1, 0, 1))
_DIGITS = frozenset(b"0123456789")


def mutate(data: bytes, dice: Random, tokens: Sequence[bytes], others: Sequence[bytes]) -> bytes:
    """Change an input in a few places."""
    changes: list[Callable[[bytes], bytes]] = [
        lambda data: _replace(data, dice, 1, bytes([dice.randrange(256)])),
        lambda data: _flip(data, dice),
        lambda data: _replace(data, dice, _part_bytes(dice), b""),
        lambda data: _repeat(data, dice),
        lambda data: _replace(data, dice, 0, dice.choice(tokens)),
        lambda data: _replace(data, dice, _part_bytes(dice), dice.choice(tokens)),
        lambda data: _renumber(data, dice),
        lambda data: data[: dice.randint(0, len(data))],
        lambda data: _splice(data, dice.choice(others), dice),
        lambda data: data + dice.choice(others),
    ]
    for _ in range(dice.randint(1, _MAX_CHANGES)):
        data = dice.choice(changes)(data)
    return data


def _part_bytes(dice: Random) -> int:
    return dice.randint(1, dice.choice((1, 4, _MAX_PART_BYTES)))


def _replace(data: bytes, dice: Random, size: int, part: bytes) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + part + data[at + size :]


def _flip(data: bytes, dice: Random) -> bytes:
    if not data:
        return data
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def _repeat(data: bytes, dice: Random) -> bytes:
    at = dice.randint(0, len(data))
    end = at + _part_bytes(dice)
    return data[:at] + data[at:end] * dice.choice((2, 2, 2, 3, 100)) + data[end:]


def _renumber(data: bytes, dice: Random) -> bytes:
    """Replace a number by one at which something may change."""
    places = [at for at, byte in enumerate(data) if byte in _DIGITS and data[at - 1 : at] not in _DIGITS_TEXT]
    if not places:
        return data
    start = end = dice.choice(places)
    while end < len(data) and data[end] in _DIGITS:
        end += 1
    return data[:start] + dice.choice(_NUMBERS) + data[end:]


_DIGITS_TEXT = frozenset(bytes([digit]) for digit in _DIGITS)


def _splice(data: bytes, other: bytes, dice: Random) -> bytes:
    """Continue an input with the end of another."""
    return data[: dice.randint(0, len(data))] + other[dice.randint(0, len(other)) :]
