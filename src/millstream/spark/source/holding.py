"""Holding: few rows wait for more, so that a query does not make many small batches.

With `minRowsPerTrigger` a batch begins when it has as many rows, or when `maxTriggerDelay` has passed since
the last one; the first one after a start does not wait. Rows are counted by reading them, each once.
"""

import time
from collections.abc import Mapping
from typing import Optional

import msgspec

from millstream.spark.lookups import Found
from millstream.spark.options import SourceOptions
from millstream.spark.source.following import WAIT_S, Follower
from millstream.spark.source.offsets import Position, Positions
from millstream.spark.source.planning import Range


class Holding:
    """Decides when there are enough rows for a batch."""

    def __init__(self, follower: Follower, min_rows: int, delay_s: float) -> None:
        self._follower = follower
        self._min_rows = min_rows
        self._delay_s = delay_s
        self._released_at = float("-inf")
        self._start: Positions = {}
        self._counted: dict[str, Position] = {}
        self._rows = 0

    @classmethod
    def of(cls, options: SourceOptions, follower: Follower) -> Optional["Holding"]:
        """Return what these options ask for; None if that is nothing."""
        if options.min_rows_per_trigger is None:
            return None
        return cls(follower, options.min_rows_per_trigger, options.max_trigger_delay)

    def released(self, start: Positions, ends: Positions, found: Mapping[str, Found]) -> dict[str, Position]:
        """Return how far the next batch goes: to `ends`, or nowhere yet, after waiting a little.

        Streams that are new join at once, without rows.
        """
        now = time.monotonic()
        left_s = self._released_at + self._delay_s - now
        if left_s <= 0 or not self._must_wait(start, ends, found):
            if ends != start:
                self._released_at = now
            return dict(ends)
        joining = {name: end for name, end in ends.items() if name not in start}
        if not joining:
            self._follower.wait(ends, min(WAIT_S, left_s))
        return {**start, **joining}

    def _must_wait(self, start: Positions, ends: Positions, found: Mapping[str, Found]) -> bool:
        if found and all(stream.closed for stream in found.values()):
            return False  # nothing will come
        moved = [name for name in start if name in ends and not start[name].same_place(ends[name])]
        if any(name in found and ends[name].offset != found[name].tail for name in moved):
            return False  # another limit of the batch is reached
        if start != self._start:
            self._start, self._counted, self._rows = dict(start), dict(start), 0
        for name in moved:
            left = self._min_rows - self._rows
            if left <= 0:
                break
            one = Range(name, self._counted[name], ends[name])
            if not one.start.same_place(one.end) and name in found:
                self._rows += self._follower.rows_within(one, left, found[name].kind).rows
                self._counted[name] = ends[name]
        return self._rows < self._min_rows


def no_earlier(target: Mapping[str, Found], positions: Positions) -> dict[str, Found]:
    """Return streams as a finite query sees them: what was read beyond its end stays read."""
    return {
        name: msgspec.structs.replace(found, tail=positions[name].offset, closed=False)
        if name in positions
        and not positions[name].is_of_another(found.incarnation)
        and found.tail < positions[name].offset
        else found
        for name, found in target.items()
    }
