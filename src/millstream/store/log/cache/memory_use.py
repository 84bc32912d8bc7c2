"""What the streams in memory take, and the order in which they are looked at to leave.

The cost of an entry is a constant, which was measured (`tests/unit/store/log/cache/test_memory_use.py` does
it again), its texts, and what only some streams have: producers, parts, marks, several slots in packs. The
constant is what a process grows by, which is a tenth more than its objects have: allocators round up. All of
that is added up when a stream arrives and leaves, and counted again after a checkpoint has saved it: an
append adds nothing. The bytes of appends that no file has yet are not in these sums; the journal counts them
(`changed_bytes`), and checkpoints what they take beside (`working_bytes`).

The order is that of a clock: the oldest is looked at first. One that was used since, or cannot leave, goes to
the end.
"""

from collections import deque
from typing import Final

from millstream.store.entries import StreamEntry
from millstream.store.log.files.content import StreamContent

ENTRY_BYTES: Final = 1_150
"""A stream without a fork, with its content and its places in the tables, but without its name."""
_SLOT_BYTES: Final = 115  # for each place in a pack after the first
_FORK_BYTES: Final = 160
_DEADLINE_BYTES: Final = 180  # its time in the schedule, too
_PRODUCERS_BYTES: Final = 200
_PRODUCER_BYTES: Final = 230
_PART_BYTES: Final = 450
_MARK_BYTES: Final = 120
_INDEX_BYTES: Final = 1_000


class MemoryUse:
    """The sum of all costs, and the order."""

    def __init__(self) -> None:
        self.bytes = 0
        self.order: deque[int] = deque()
        """Ids, the oldest first; also of streams that were removed, until they are looked at."""
        self._forks: dict[int, int] = {}  # by source, how many of its forks are in memory

    def add(self, entry: StreamEntry) -> None:
        """Count a stream that is in memory from now on."""
        stream = entry.stream
        self.bytes += fixed_bytes(entry)
        self.order.append(stream.id)
        if entry.source is not None:
            source_id = entry.source.stream.id
            self._forks[source_id] = self._forks.get(source_id, 0) + 1
        self.recount(entry)

    def remove(self, entry: StreamEntry) -> None:
        """Stop counting a stream."""
        self.bytes -= fixed_bytes(entry) + entry.varying_bytes
        entry.varying_bytes = 0
        if entry.source is not None:
            source_id = entry.source.stream.id
            self._forks[source_id] -= 1
            if not self._forks[source_id]:
                del self._forks[source_id]

    def recount(self, entry: StreamEntry) -> None:
        """Count again what may have changed."""
        size = varying_bytes(entry)
        self.bytes += size - entry.varying_bytes
        entry.varying_bytes = size

    def has_forks(self, stream_id: int) -> bool:
        """Tell whether forks in memory need this stream's content."""
        return stream_id in self._forks


def fixed_bytes(entry: StreamEntry) -> int:
    """Give what a stream takes as long as it exists."""
    stream = entry.stream
    size = ENTRY_BYTES + len(stream.name)  # content types are shared
    if stream.fork is not None:
        size += _FORK_BYTES + len(stream.fork.source_name)
    return size


def varying_bytes(entry: StreamEntry) -> int:
    """Give what a stream takes at the moment for what most have none of."""
    stream, content = entry.stream, entry.content
    size = len(stream.attributes)
    if isinstance(content, StreamContent) and (slots := content.slots) > 1:
        size += _SLOT_BYTES * (slots - 1)
    if stream.deadline_ms is not None:
        size += _DEADLINE_BYTES
    if stream.producers:
        size += _PRODUCERS_BYTES + _PRODUCER_BYTES * len(stream.producers)
    if entry.staged:
        size += _PART_BYTES * len(entry.staged)
    if stream.marks:
        size += _MARK_BYTES * len(stream.marks)
    if entry.indexes:
        size += _INDEX_BYTES * len(entry.indexes)
    return size
