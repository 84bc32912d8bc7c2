"""Company: whether others than writers want the event loop's turns.

Answers of a batch go out in one turn of the loop, and while they do, who asks for something else waits.
Alone, writers are served best so: fewer turns, fewer wake-ups. In company a turn should be short.
"""

from collections.abc import Callable

_STAYS_S = 0.1


class Company:
    """Is there from one read until a moment after the last."""

    def __init__(self, count_reads: Callable[[], int]) -> None:
        self._count_reads = count_reads
        self._reads = 0
        self._leaves_s = 0.0

    def is_there(self, now_s: float) -> bool:
        """Tell whether somebody has read since a moment ago."""
        reads = self._count_reads()
        if reads != self._reads:
            self._reads = reads
            self._leaves_s = now_s + _STAYS_S
        return now_s < self._leaves_s
