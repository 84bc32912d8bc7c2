"""What is moved: streams with their states, and content in batches of whole appends; pure.

        kept        the ranges of a stream's own bytes that its readers, or those of its forks, may ask for
        unfinished  the state of a stream while it is copied: deleted for everybody, as long as its tail says
        finished    its state at the end: that of the source, with the ids that the destination gives
        is_same     whether a destination has a stream already; of a server's, whether it looks so
        may_go_on   whether what a destination has is the beginning of it

A fork's inherited bytes belong to its source, which is copied before it.
"""

import hashlib
from array import array
from bisect import bisect_right

import msgspec
from msgspec.structs import replace

from millstream.protocol.retention import needed
from millstream.protocol.streams import Stream


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Some appends of a stream that follow each other, some of which may be longer than what is kept."""

    first: int
    """The number of the first of them."""
    start: int
    ends: "array[int]"
    times: "array[int]"
    data: bytes

    @property
    def end(self) -> int:
        """Where the last of them ends."""
        return self.ends[-1]

    @property
    def sizes(self) -> list[int]:
        """How long each of them is."""
        return [end - start for start, end in zip((self.start, *self.ends), self.ends, strict=False)]

    def after(self, position: int) -> "Batch | None":
        """Give what is after a position; None if there is nothing."""
        if position <= self.start:
            return self
        low = bisect_right(self.ends, position)
        if low == len(self.ends):
            return None
        start = max(position, self.ends[low - 1] if low else self.start)
        data = self.data[start - self.start :]
        return Batch(self.first + low, start, self.ends[low:], self.times[low:], data)


def kept(stream: Stream) -> list[tuple[int, int]]:
    """Give the ranges of a stream's own bytes that may still be read, by its forks, too."""
    base = stream.base
    ranges = needed(stream.start, stream.tail, stream.shared)
    return [(max(start, base), end) for start, end in ranges if end > base]


def beginning(stream: Stream) -> tuple[int, int]:
    """Give where the content that is kept begins, and the number of the append that begins there."""
    start, first, shared = stream.start, stream.first_append, stream.shared
    if shared is not None and shared.start < start:
        start, first = shared.start, shared.first_append
    return (start, first) if start > stream.base else (stream.base, 0)


def kept_bytes(stream: Stream) -> int:
    """Count the bytes that are copied."""
    return sum(end - start for start, end in kept(stream))


def unfinished(stream: Stream, tail: int) -> Stream:
    """Give the state of a stream of which some is copied; no stream is ever deleted and without forks."""
    return replace(
        stream,
        tail=tail,
        closed=False,
        closed_by=None,
        producers=None,
        staged=None,
        soft_deleted=True,
        fork_count=0,
    )


def is_unfinished(stream: Stream) -> bool:
    """Tell whether only some of a stream is copied."""
    return stream.soft_deleted and not stream.fork_count


def finished(stream: Stream, id: int, source_id: int) -> Stream:
    """Give the state of a stream under the ids of its destination; staged parts stay behind."""
    fork = stream.fork
    return replace(
        stream, id=id, staged=None, fork=replace(fork, source_id=source_id) if fork is not None else None
    )


def is_same(one: Stream, other: Stream) -> bool:
    """Tell whether two streams differ in nothing but their ids, and in parts that are not committed."""
    return _comparable(one) == _comparable(other)


def _comparable(stream: Stream) -> tuple[object, ...]:
    fork = replace(stream.fork, source_id=0) if stream.fork is not None else None
    plain = replace(stream, id=0, staged=None, producers=None, fork=None)
    return plain, fork, sorted((stream.producers or {}).items())


def looks_same(one: Stream, other: Stream) -> bool:
    """Tell whether clients see the same of two streams, but for times."""

    def shown(stream: Stream) -> tuple[object, ...]:
        extent = stream.start, stream.tail, stream.closed, is_unfinished(stream)
        return *extent, stream.content_type, stream.lifetime, stream.retention, stream.attributes

    return shown(one) == shown(other)


def may_go_on(there: Stream, stream: Stream, *, is_exact: bool) -> bool:
    """Tell whether what is there is the beginning of a stream; a server may not say when it was created."""

    def origin(one: Stream) -> tuple[object, ...]:
        about = one.content_type, one.start
        return (
            (*about, one.created_ms, one.kind, one.first_append, one.shared, one.base) if is_exact else about
        )

    return origin(there) == origin(stream) and there.tail <= stream.tail


class Digest:
    """The digest of a stream's own content: its bytes, and where and when its appends ended."""

    def __init__(self, stream: Stream) -> None:
        self._kept = kept(stream)
        self._bytes = hashlib.sha256()
        self._ends = hashlib.sha256()
        self._times = hashlib.sha256()

    def add(self, batch: Batch) -> None:
        """Go on with a batch."""
        for start, end in self._kept:
            self._bytes.update(batch.data[max(0, start - batch.start) : max(0, end - batch.start)])
        self._ends.update(batch.ends.tobytes())
        self._times.update(batch.times.tobytes())

    @property
    def of_bytes(self) -> str:
        """The digest of the bytes alone."""
        return self._bytes.hexdigest()

    @property
    def of_appends(self) -> tuple[str, str]:
        """Those of where appends end, and of when they arrived."""
        return self._ends.hexdigest(), self._times.hexdigest()
