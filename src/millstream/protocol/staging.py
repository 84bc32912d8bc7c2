"""Staged parts: what a stream remembers of bytes that are not in it yet.

Many write parts, one commits them (rule X3). Until then a part is known by the id that its writer
chose, and its bytes by a number that the stream counts up and never gives twice; so an engine may
name a file by it and remove that file at any later time.
"""

from typing import Final

import msgspec

LIFETIME_MS: Final = 24 * 3600 * 1000
"""How long a part waits for its commit."""


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Bytes that wait for their commit."""

    number: int
    size: int
    staged_ms: int

    def expired(self, now_ms: int) -> bool:
        """Tell whether the part has waited too long."""
        return now_ms >= self.staged_ms + LIFETIME_MS


class Staged(msgspec.Struct):
    """The parts of one stream by their ids, oldest first, and how many there ever were."""

    parts: dict[str, Part] = {}
    count: int = 0
    size: int = 0

    def add(self, id: str, size: int, now_ms: int) -> Part:
        """Take in a part under an id that is free."""
        part = self.parts[id] = Part(self.count, size, now_ms)
        self.count += 1
        self.size += size
        return part

    def take(self, id: str) -> Part:
        """Take a part out."""
        part = self.parts.pop(id)
        self.size -= part.size
        return part

    def clear(self) -> None:
        """Take all parts out; their numbers stay used."""
        self.parts.clear()
        self.size = 0

    def expired(self, now_ms: int) -> list[str]:
        """Give the parts that have waited too long; the oldest come first, so the rest is not looked at."""
        ids = []
        for id, part in self.parts.items():
            if not part.expired(now_ms):
                break
            ids.append(id)
        return ids

    def copy(self) -> "Staged":
        """Give the parts as they are now."""
        return Staged(self.parts.copy(), self.count, self.size)
