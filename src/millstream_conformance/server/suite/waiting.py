"""Wait for a condition, no longer than necessary."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from millstream_conformance.server.streams import Stream


def eventually(condition: Callable[[], bool], within_s: float, what: str) -> float:
    """Poll until a condition holds and return how long it took; fail with `what` if it never does."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < within_s, f"{what} did not happen within {within_s} s"
        time.sleep(0.03)
    return time.monotonic() - started


def sleep_until_gone(stream: Stream, within_s: float = 3.0) -> float:
    """Wait for a stream to expire, with HEAD, which does not renew its TTL."""
    return eventually(lambda: stream.head().status == 404, within_s, "expiry")


def in_seconds(seconds: float) -> str:
    """A moment from now as an RFC 3339 timestamp with milliseconds."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
