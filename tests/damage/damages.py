"""Kinds of damage to a file: what disks, file systems, copies and people do.

Each changes one file of a folder, or two of the same kind, and says what it did. One that a file is too small
for, or that would change nothing, is `None`; then another kind is tried.
"""

import random
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

BLOCKS = (16, 512, 4096)


class Damage(msgspec.Struct, frozen=True):
    """What was done."""

    kind: str
    files: list[str]
    what: str

    def __str__(self) -> str:
        return f"{self.kind} of {' and '.join(self.files)}: {self.what}"


class Place(msgspec.Struct, frozen=True):
    """A file to damage, where an older version of it is, and others of its kind."""

    folder: Path
    name: str
    older: Path
    others: list[str]

    @property
    def path(self) -> Path:
        return self.folder / self.name


def kind_of(name: str) -> str:
    """The kind of a file of a data folder, by its folder and its name."""
    folder, _, file = name.rpartition("/")
    top = folder.partition("/")[0]
    return f"{top}/*.{file.rpartition('.')[2]}" if top else re.sub(r"\d+", "*", file)


def damage(place: Place, dice: random.Random) -> Damage:
    """Damage a file in a way that is possible for it."""
    kinds = list(KINDS.items())
    dice.shuffle(kinds)
    for kind, change in kinds:
        done = change(place, dice)
        if done is not None:
            files = [place.name, *([done[1]] if done[1] else [])]
            return Damage(kind, files, done[0])
    raise AssertionError(f"{place.name} cannot be damaged")


Done = tuple[str, str] | None
"""What was done, and the other file that it was done to."""


def _bit(place: Place, dice: random.Random) -> Done:
    data = bytearray(place.path.read_bytes())
    if not data:
        return None
    position, bit = _position(data, dice), dice.randrange(8)
    data[position] ^= 1 << bit
    place.path.write_bytes(data)
    return f"bit {bit} of byte {position}", ""


def _truncation(place: Place, dice: random.Random) -> Done:
    data = place.path.read_bytes()
    if not data:
        return None
    size = dice.choice((0, _position(data, dice), len(data) - 1, len(data) // BLOCKS[2] * BLOCKS[2]))
    if size == len(data):
        return None
    place.path.write_bytes(data[:size])
    return f"{size} of {len(data)} bytes are left", ""


def _zeros(place: Place, dice: random.Random) -> Done:
    data, size = bytearray(place.path.read_bytes()), dice.choice(BLOCKS)
    if not data:
        return None
    start = _position(data, dice) // size * size
    end = min(len(data), start + size)
    if not any(data[start:end]):
        return None
    data[start:end] = bytes(end - start)
    place.path.write_bytes(data)
    return f"bytes {start} to {end} are zeros", ""


def _swap(place: Place, dice: random.Random) -> Done:
    data, size = bytearray(place.path.read_bytes()), dice.choice(BLOCKS)
    blocks = len(data) // size
    if blocks < 2:
        return None
    one, other = _position(data[: blocks * size], dice) // size, dice.randrange(blocks)
    return _exchange(data, one * size, data, other * size, size, place.path, place.path, "")


def _swap_between(place: Place, dice: random.Random) -> Done:
    if not place.others:
        return None
    name, size = dice.choice(place.others), dice.choice(BLOCKS)
    path = place.folder / name
    data, others = bytearray(place.path.read_bytes()), bytearray(path.read_bytes())
    blocks = min(len(data), len(others)) // size
    if not blocks:
        return None
    start = _position(data[: blocks * size], dice) // size * size
    other = dice.choice((start, dice.randrange(blocks) * size))
    return _exchange(data, start, others, other, size, place.path, path, name)


def _exchange(
    data: bytearray, start: int, others: bytearray, other: int, size: int, path: Path, to: Path, name: str
) -> Done:
    here, there = bytes(data[start : start + size]), bytes(others[other : other + size])
    if here == there:
        return None
    data[start : start + size], others[other : other + size] = there, here
    path.write_bytes(data)
    to.write_bytes(others)
    return f"{size} bytes from {start} and from {other}", name


def _older(place: Place, _: random.Random) -> Done:
    older = place.older / place.name
    if not older.exists() or older.read_bytes() == place.path.read_bytes():
        return None
    place.path.write_bytes(older.read_bytes())
    return "as it was before the last stop", ""


def _garbage(place: Place, dice: random.Random) -> Done:
    data = place.path.read_bytes()
    more = dice.choice((dice.randbytes(dice.choice(BLOCKS)), data[: dice.choice(BLOCKS)] or b"\xff"))
    place.path.write_bytes(data + more)
    return f"{len(more)} bytes more", ""


def _removal(place: Place, _: random.Random) -> Done:
    place.path.unlink()
    return "removed", ""


def _position(data: bytes | bytearray, dice: random.Random) -> int:
    """A position that is not in the unused rest of a file, most of the time."""
    used = len(data.rstrip(b"\0")) or len(data)
    return dice.randrange(used if dice.random() < 0.95 else len(data))


KINDS: dict[str, Callable[[Place, random.Random], Done]] = {
    "bit": _bit,
    "truncation": _truncation,
    "zeros": _zeros,
    "swap": _swap,
    "swap between files": _swap_between,
    "older version": _older,
    "garbage": _garbage,
    "removal": _removal,
}
