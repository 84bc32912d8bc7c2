"""Company: whether others than writers want the event loop's turns.

Answers of a batch go out in one turn of the loop, and while they do, who asks for something else waits.
Alone, writers are served best so: fewer turns, fewer wake-ups. In company a turn should be short.
"""

import math
from collections.abc import Callable

_STAYS_S = 0.1
_REMEMBERED_S = 10.0


class Company:
    """Is there from one read until a moment after the last, and is remembered for a while."""

    def __init__(self, count_reads: Callable[[], int]) -> None:
        self._count_reads = count_reads
        self._reads = 0
        self._last_read_s = -math.inf

    def is_there(self, now_s: float) -> bool:
        """Tell whether somebody has read since a moment ago."""
        return self._alone_for_s(now_s) < _STAYS_S

    def may_return(self, now_s: float) -> bool:
        """Tell whether somebody has read lately: one who reads every few seconds comes again."""
        return self._alone_for_s(now_s) < _REMEMBERED_S

    def _alone_for_s(self, now_s: float) -> float:
        reads = self._count_reads()
        if reads != self._reads:
            self._reads = reads
            self._last_read_s = now_s
        return now_s - self._last_read_s
