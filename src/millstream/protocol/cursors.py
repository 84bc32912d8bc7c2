"""Cursors: how caches collapse waiting readers without trapping them.

A cursor numbers the 20-second interval in which a live answer was given. A client sends it back,
so that clients who wait in the same interval ask the same URL and share one cached answer. When
its cursor is not behind the clock, the answer's must move ahead, or the client would meet the same
cached answer again for ever.

PROTOCOL.md 10.1; rule L3.
"""

from typing import Final

INTERVAL_MS: Final = 20_000
EPOCH_MS: Final = 1_728_432_000_000
"""2024-10-09T00:00:00Z, where intervals are counted from."""

MAX_JITTER_S: Final = 3600


def current_cursor(now_ms: int) -> int:
    """Number the interval that `now_ms` falls into."""
    return max(0, (now_ms - EPOCH_MS) // INTERVAL_MS)


def next_cursor(now_ms: int, client_cursor: int | None, jitter_s: int) -> int:
    """Choose the cursor of an answer; `jitter_s` is 1 to 3,600, drawn by the caller."""
    current = current_cursor(now_ms)
    if client_cursor is None or client_cursor < current:
        return current
    return client_cursor + max(1, jitter_s * 1000 // INTERVAL_MS)


def parse_cursor(text: bytes) -> int | None:
    """Read a client's cursor; one that we cannot have given counts as none."""
    return int(text) if text.isdigit() and len(text) <= 16 else None
