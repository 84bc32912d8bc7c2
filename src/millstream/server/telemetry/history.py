"""History: the server's numbers over the last 15 minutes, so that plots have a past when the page opens.

One sample is taken every 5 seconds, and 181 are kept: some tens of kilobytes. A sample holds counters as
they stand, so nothing between two samples is lost: whoever plots a rate divides a difference by its time.
Times are the clock's. When it is set back, the samples from before are dropped, because their times are
no longer in order.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

EVERY_MS: Final = 5_000
KEPT_MS: Final = 15 * 60_000


class Sample(msgspec.Struct, frozen=True, array_like=True, gc=False, rename="camel"):
    """The numbers at one moment; the last two are None in a store without a disk."""

    at_ms: int
    appends: int
    appended_bytes: int
    reads: int
    live_readers: int
    syncs: int | None
    sync_seconds: float | None


COLUMNS: Final = tuple(field.encode_name for field in msgspec.structs.fields(Sample))
"""What the values of a sample are, in their order."""


class History:
    """The samples of the last 15 minutes."""

    def __init__(self, read: Callable[[int], Sample]) -> None:
        self._read = read
        self._samples: deque[Sample] = deque(maxlen=KEPT_MS // EVERY_MS + 1)

    def tick(self, now_ms: int) -> None:
        """Take a sample if one is due; called more often than that."""
        samples = self._samples
        if samples and now_ms < samples[-1].at_ms:
            samples.clear()
        if not samples or now_ms >= samples[-1].at_ms + EVERY_MS:
            samples.append(self._read(now_ms))

    def since(self, after_ms: int, now_ms: int) -> list[Sample]:
        """Give the samples of the last 15 minutes that were taken after a time, and the numbers of now."""
        oldest_ms = max(after_ms + 1, now_ms - KEPT_MS)
        kept = [sample for sample in self._samples if oldest_ms <= sample.at_ms < now_ms]
        return [*kept, self._read(now_ms)]
