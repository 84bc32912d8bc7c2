"""What of a stream can still be read, and which of its files hold nothing of that."""

import msgspec

from millstream.protocol.retention import Shared, needed
from millstream.protocol.streams import Stream


class Extent(msgspec.Struct, frozen=True, gc=False):
    """What of a stream can still be read."""

    start: int
    first_append: int
    shared: Shared | None

    @classmethod
    def of(cls, stream: Stream) -> "Extent":
        """Give the extent of a stream as it is now."""
        return cls(stream.start, stream.first_append, stream.shared) if stream.start else WHOLE

    @property
    def lowest(self) -> int:
        """The first byte that can be read."""
        return self.start if self.shared is None else self.shared.start

    @property
    def first_entry(self) -> int:
        """The first append that the index must have; it begins at the lowest byte."""
        return self.first_append if self.shared is None else self.shared.first_append

    def kept(self, end: int) -> list[tuple[int, int]]:
        """Give the ranges up to `end` that can be read."""
        return list(needed(self.start, end, self.shared))


WHOLE = Extent(0, 0, None)
