"""Trimming: a stream lets go of its oldest appends, as `retention` says.

`plan_trim` decides; `apply_trim` is the only way in which a stream's start moves, and an engine that
replays its log calls the same. Forks hold on to what they inherited: `share` and `unshare`.

Rules X4, O4.
"""

from typing import Protocol

import msgspec

from millstream.protocol import retention
from millstream.protocol.retention import Boundaries, Shared
from millstream.protocol.streams import Stream


class Trim(msgspec.Struct, frozen=True, gc=False):
    """A change to commit: where the stream begins now, and how many of its own appends lie before."""

    start: int
    first_append: int


class CountedAppends(Boundaries, Protocol):
    """Appends that can be counted."""

    def count(self, position: int) -> int:
        """Tell how many of the stream's own appends end at or before a position."""
        ...


def plan_trim(stream: Stream, now_ms: int, appends: CountedAppends) -> Trim | None:
    """Decide what a stream lets go of now, if anything."""
    if stream.soft_deleted:
        return None
    start = retention.new_start(stream.retention, stream.start, stream.tail, stream.marks, now_ms, appends)
    return Trim(start, appends.count(start)) if start > stream.start else None


def apply_trim(stream: Stream, change: Trim) -> None:
    """Make a stream what it is after a trim."""
    stream.start, stream.first_append = change.start, change.first_append
    stream.marks = retention.after(stream.marks, change.start)


def share(source: Stream, base: int) -> None:
    """Keep what a new fork may read of its source: from where the source begins to the fork's base."""
    if source.retention:
        shared = source.shared or Shared(source.start, source.first_append, base)
        source.shared = msgspec.structs.replace(shared, end=max(shared.end, base))


def unshare(source: Stream) -> None:
    """Keep nothing for forks any more, if the last one is gone; the caller has counted down."""
    if source.fork_count == 0:
        source.shared = None
