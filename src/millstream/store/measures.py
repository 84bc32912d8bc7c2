"""Measurements of an engine: plain numbers, from which the server makes metrics.

They are taken where the work happens, some of it on the commit thread, so each is one addition without
a lock. Every number has one writer; a reader sees it now or a moment later.
"""

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

_TIMES_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)


class Histogram:
    """How many values fell below each bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Sizes(msgspec.Struct, frozen=True):
    """How much room the data takes, and how much is free."""

    store_bytes: int
    free_bytes: int


class ReplicaMeasures(msgspec.Struct):
    """What is read from the replica of a database."""

    reads: int = 0
    """How often it had what was asked for."""
    misses: int = 0
    """How often it did not have it yet."""
    is_used: bool = False
    lag_s: float | None = None
    """How old what it certainly has is, if that is known."""


class Measures:
    """The numbers of an engine that has a disk."""

    __slots__ = (
        "cached_bytes",
        "cached_streams",
        "checkpoint_failures",
        "checkpoint_s",
        "damaged_streams",
        "is_saving",
        "postponed_since_s",
        "recovery_s",
        "scrub_rounds",
        "scrubbed_blocks",
        "stream_evictions",
        "stream_loads",
        "sync_records",
        "sync_s",
        "unsaved_streams",
        "writing_since_s",
    )

    def __init__(self) -> None:
        self.sync_s = Histogram(_TIMES_S)
        """How long each sync of the log took."""
        self.sync_records = Histogram(_SIZES)
        """How many changes each sync made durable."""
        self.checkpoint_s = Histogram(_TIMES_S)
        """How long each checkpoint took to write."""
        self.is_saving = False
        """Whether a checkpoint is under way, from its first snapshot until memory is rid of what it saved."""
        self.checkpoint_failures = 0
        """How many checkpoints failed and were tried again."""
        self.postponed_since_s = 0.0
        """Since when a checkpoint is due that something else keeps from beginning; 0 when there is none."""
        self.unsaved_streams = 0
        """How many streams the last checkpoint could not save, though it saved others."""
        self.cached_streams = 0
        """How many streams are in memory."""
        self.cached_bytes = 0
        """How much memory they take, without content that waits for a checkpoint."""
        self.stream_loads = 0
        """How many streams were loaded into memory since the start."""
        self.stream_evictions = 0
        """How many streams have left memory since the start to make room for others."""
        self.scrubbed_blocks = 0
        """How many blocks of what is saved were examined since the start."""
        self.scrub_rounds = 0
        """How often everything that is saved was examined since the start."""
        self.damaged_streams = 0
        """How many streams were found to be damaged, in the last round or in this one so far."""
        self.recovery_s = 0.0
        """How long it took to recover at the start."""
        self.writing_since_s = 0.0
        """When the batch that is being written was begun (`time.monotonic`); 0 when there is none."""
