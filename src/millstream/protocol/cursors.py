"""Cursors: how caches serve many waiting readers with one response, without repeating it for ever.

A cursor numbers the 20-second interval in which a live response was given. A client sends it back, so
that clients that wait in the same interval ask for the same URL and share one cached response. When the
client's cursor is not behind the clock, the next one must be greater, or the client would get the same
cached response again and again.

PROTOCOL.md 10.1; rule L3.
"""

from typing import Final

INTERVAL_MS: Final = 20_000
EPOCH_MS: Final = 1_728_432_000_000
"""2024-10-09T00:00:00Z, where intervals are counted from."""

MAX_JITTER_S: Final = 3600


def current_cursor(now_ms: int) -> int:
    """Give the number of the interval that `now_ms` is in."""
    return (now_ms - EPOCH_MS) // INTERVAL_MS if now_ms > EPOCH_MS else 0


def next_cursor(now_ms: int, client_cursor: int | None, jitter_s: int) -> int:
    """Choose the cursor of a response; `jitter_s` is 1 to 3,600, drawn by the caller."""
    current = current_cursor(now_ms)
    if client_cursor is None or client_cursor < current:
        return current
    return client_cursor + max(1, jitter_s * 1000 // INTERVAL_MS)


def parse_cursor(text: bytes) -> int | None:
    """Read a client's cursor; one that this server cannot have sent counts as none."""
    return int(text) if text.isdigit() and len(text) <= 16 else None
