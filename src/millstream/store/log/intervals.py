"""Intervals by a clock that may be set back."""

from typing import Final

NEVER: Final = 2**62


def elapsed(since_ms: int, now_ms: int, least_ms: int) -> bool:
    """Tell whether some time has passed; a clock that was set back counts as passed."""
    return since_ms != NEVER and not since_ms <= now_ms < since_ms + least_ms
