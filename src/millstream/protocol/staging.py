"""The parts that a stream has staged, as far as decisions about them need to know (`parts`).

Rule X3.
"""

from typing import Final

import msgspec

PART_LIFETIME_MS: Final = 24 * 3600 * 1000
"""How long a staged part waits for its commit (rule X3)."""


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A staged part: bytes that wait for their commit.

    Its number is unique in the stream for ever, so an engine may name a file by it and remove the file
    at any later time.
    """

    number: int
    size: int
    staged_ms: int

    def expired(self, now_ms: int) -> bool:
        """Tell whether the part has waited too long."""
        return now_ms >= self.staged_ms + PART_LIFETIME_MS


class Staged(msgspec.Struct):
    """The parts of one stream by the ids that their writers chose, oldest first.

    `count` is the next part's number, `size` the bytes of all parts together.
    """

    parts: dict[str, Part] = {}
    count: int = 0
    size: int = 0

    def add(self, id: str, size: int, now_ms: int) -> Part:
        """Add a part under an id that is free."""
        part = self.parts[id] = Part(self.count, size, now_ms)
        self.count += 1
        self.size += size
        return part

    def take(self, id: str) -> Part:
        """Remove a part and return it."""
        part = self.parts.pop(id)
        self.size -= part.size
        return part

    def clear(self) -> None:
        """Remove all parts; their numbers stay used."""
        self.parts.clear()
        self.size = 0

    def expired(self, now_ms: int) -> list[str]:
        """Give the parts that have waited too long; oldest first, so a younger one ends the search."""
        ids = []
        for id, part in self.parts.items():
            if not part.expired(now_ms):
                break
            ids.append(id)
        return ids

    def copy(self) -> "Staged":
        """Copy the parts as they are now."""
        return Staged(self.parts.copy(), self.count, self.size)
