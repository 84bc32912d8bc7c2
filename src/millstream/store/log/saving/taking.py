"""Taking the snapshots of a checkpoint, of any number of streams, without holding up the event loop.

A checkpoint is of the state at one moment. Copying all streams that have changed in that moment takes some
microseconds for each, so they are copied one after the other, and whatever is about to change one that was
not copied yet has it copied first (copy on write):

        begun                the dirty streams are set aside, and each awaits its snapshot
        in each turn         some snapshots are taken
        before a change      `StreamCache.before_change`, which the table calls: if the stream awaits its
                             snapshot, that is taken now
        complete             no stream awaits one

They are taken by id. That is how the catalog has its rows, and about how streams came into memory, where
what is read in order is read faster.

So each snapshot shows its stream as it was when the checkpoint began. What is changed after that is dirty
again, and for the next checkpoint.
"""

from collections import defaultdict
from collections.abc import Iterator

from millstream.store.entries import StreamEntry
from millstream.store.log.cache.stream_cache import StreamCache, ignore_change
from millstream.store.log.saving.snapshots import Checkpoint, Snapshot

_BATCH_IDS = 1024
_IDS_A_STEP = 16  # are put into their batches in the time that a snapshot takes


class Taking:
    """The snapshots of one checkpoint, while they are being taken."""

    def __init__(self, cache: StreamCache, lsn: int) -> None:
        self.lsn = lsn
        self.changed_bytes = cache.changed_bytes
        """How much was logged since the last checkpoint."""
        self.is_logged = False
        """Whether the log is durable up to the snapshots."""
        self._cache = cache
        self._awaiting = cache.begin_period()
        self._early: dict[int, Snapshot] = {}  # those that were taken before a change
        self._taken: dict[int, Snapshot] = {}
        self._turns = self._take_all()
        self._last_id = cache.last_id
        self._removed = cache.removed.copy()
        self._released_files = cache.released_files[:]
        self._released_parts = list(cache.released_parts)
        self._rows, cache.changed_rows = cache.changed_rows, {}
        cache.changed_bytes, cache.frees_room = 0, False
        cache.before_change = self._before_change

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._taken or stream_id in self._awaiting or stream_id in self._early

    def __len__(self) -> int:
        return len(self._taken) + len(self._awaiting) + len(self._early)

    def __bool__(self) -> bool:
        return True  # also without streams

    @property
    def is_complete(self) -> bool:
        """Whether every snapshot is taken."""
        return not self._awaiting

    def steps(self) -> Iterator[None]:
        """Take the snapshots, one in each step."""
        return self._turns

    def complete(self) -> Checkpoint:
        """Give the checkpoint; takes what snapshots are left."""
        for _ in self._turns:
            pass
        self.end()
        snapshots = list(self._taken.values())
        return Checkpoint(
            self.lsn,
            self._last_id,
            snapshots,
            self._removed,
            self._released_files,
            self._released_parts,
            self.changed_bytes,
            self._rows,
            self._cache.unfinished,
        )

    def forget(self, stream_id: int) -> None:
        """Forget the snapshot of a stream: what it shows is saved, and the stream may leave memory."""
        self._taken.pop(stream_id, None)

    def end(self) -> None:
        """Take no more snapshots, also before changes."""
        self._awaiting.clear()
        self._cache.before_change = ignore_change

    def _before_change(self, entry: StreamEntry) -> None:
        id = entry.stream.id
        if id in self._awaiting:
            self._early[id] = self._take(id, self._awaiting.pop(id))

    def _take_all(self) -> Iterator[None]:
        awaiting, early, taken = self._awaiting, self._early, self._taken
        # Sorting all of them in one call would hold up the event loop.
        batches: defaultdict[int, list[int]] = defaultdict(list)
        for count, id in enumerate(list(awaiting)):
            batches[id // _BATCH_IDS].append(id)
            if not count % _IDS_A_STEP:
                yield
        for number in sorted(batches):
            for id in sorted(batches[number]):
                if id in awaiting:
                    taken[id] = self._take(id, awaiting.pop(id))
                elif id in early:
                    taken[id] = early.pop(id)
                yield

    def _take(self, id: int, entry: StreamEntry) -> Snapshot:
        return Snapshot.of(entry, self._cache.changed_producers.pop(id, ()))
