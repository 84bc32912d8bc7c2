"""The engine that keeps everything in memory: for tests, caches and streams that may be lost.

It is also the plainest reading of the contract: look up, decide, change, tell.
"""

import heapq
import itertools
import secrets

from millstream.protocol import lineage, reads, streams
from millstream.protocol.globs import glob_matches
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.streams import NotFound, SoftDeleted, Stream
from millstream.store.base import Appended, Created, Deleted, Head, Missing, Page, Read, Store
from millstream.store.names import SortedNames
from millstream.store.pieces import Pieces

_LISTING_STEPS = 10_000  # names looked at for one page, so that a glob that matches little stays quick


class _Kept:
    """A stream with its content and, for a fork, the stream that keeps what it inherited."""

    __slots__ = ("content", "source", "stream")

    def __init__(self, stream: Stream, source: "_Kept | None") -> None:
        self.stream = stream
        self.source = source
        self.content = Pieces(stream.base)

    def bounds(self, position: int) -> tuple[int, int]:
        """Find the append that holds a byte, in this stream or the ancestor that keeps it."""
        owner, ceiling = self, self.stream.tail
        while position < owner.stream.base and owner.source is not None:
            ceiling = min(ceiling, owner.stream.base)
            owner = owner.source
        start, end = owner.content.bounds(position)
        return start, min(end, ceiling)

    def fetch(self, start: int, end: int) -> bytes:
        """Read bytes from this stream and the ancestors that keep what it inherited."""
        if start >= self.stream.base:
            return self.content.fetch(start, end)
        chain = [self]
        while chain[-1].source is not None:
            chain.append(chain[-1].source)
        bases = [kept.stream.base for kept in chain]
        parts = lineage.segments(bases, start, end)
        return b"".join(chain[part.ancestor].content.fetch(part.start, part.end) for part in parts)


class MemoryStore(Store):
    """Streams in a dictionary."""

    def __init__(self) -> None:
        # A random beginning, so that an entity tag of another run never matches.
        self._ids = itertools.count(secrets.randbits(47))
        self._by_name: dict[str, _Kept] = {}
        self._names = SortedNames()
        self._deadlines: list[tuple[int, int, _Kept]] = []

    # -- The contract ----------------------------------------------------------------------------

    def create(self, name: str, request: CreateRequest, now_ms: int) -> Created:
        """Create a stream or a fork, or say what is in the way."""
        kept = self._find(name, now_ms)
        if not isinstance(kept, NotFound):
            return streams.plan_existing(self._by_name[name].stream, request)
        if request.forked_from is None:
            plan = streams.plan_create(next(self._ids), name, request, now_ms)
            self._keep(plan, None)
            return plan
        return self._fork(name, request, request.forked_from, now_ms)

    def append(self, name: str, request: AppendRequest, now_ms: int) -> Appended:
        """Append, close, or both."""
        kept = self._find(name, now_ms)
        if not isinstance(kept, _Kept):
            return kept
        plan = streams.plan_append(kept.stream, request)
        if isinstance(plan, streams.Append):
            if plan.data:
                kept.content.append(plan.data)
            streams.apply_append(kept.stream, plan, now_ms)
            self.listener(name)
        elif isinstance(plan, streams.Duplicate | streams.AlreadyClosed):
            kept.stream.renew(now_ms)
        return plan

    def read(
        self, name: str, request: ReadRequest, max_bytes: int, now_ms: int, *, peek: bool = False
    ) -> Read:
        """Read a chunk and renew the stream's TTL; a peek does neither, it only measures the chunk."""
        kept = self._find(name, now_ms)
        if not isinstance(kept, _Kept):
            return kept
        stream = kept.stream
        span = reads.plan_read(request, stream.kind, 0, stream.tail, max_bytes, kept)
        if not isinstance(span, reads.Span):
            return span
        if not peek:
            stream.renew(now_ms)
        return reads.Chunk(
            stream.id,
            stream.content_type,
            stream.kind,
            stream.lifetime,
            span.start,
            span.end,
            b"" if peek else kept.fetch(span.start, span.end),
            span.end == stream.tail,
            stream.closed,
        )

    def head(self, name: str, now_ms: int) -> Head:
        """Describe a stream without renewing its TTL."""
        kept = self._find(name, now_ms)
        return kept.stream if isinstance(kept, _Kept) else kept

    def delete(self, name: str, now_ms: int) -> Deleted:
        """Delete a stream; its bytes stay while forks need them."""
        kept = self._find(name, now_ms)
        return self._end(kept) if isinstance(kept, _Kept) else kept

    def listing(self, prefix: str, glob: str | None, after: str, limit: int, now_ms: int) -> Page:
        """List streams in the order of their names, beginning after a name."""
        found: list[Stream] = []
        for steps, name in enumerate(self._names.walk(prefix, after)):
            if len(found) == limit or steps == _LISTING_STEPS:
                return Page(found, after)
            after = name
            stream = self._by_name[name].stream
            if (
                not stream.soft_deleted
                and not stream.expired(now_ms)
                and (not glob or glob_matches(glob, name))
            ):
                found.append(stream)
        return Page(found, None)

    def expire(self, now_ms: int) -> None:
        """End the streams whose time is over."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, id, kept = heapq.heappop(self._deadlines)
            stream = kept.stream
            if self._by_name.get(stream.name) is not kept or stream.soft_deleted:
                continue
            if stream.expired(now_ms):
                self._end(kept)
            elif stream.deadline_ms is not None:  # it was renewed since
                heapq.heappush(self._deadlines, (stream.deadline_ms, id, kept))

    # -- How -------------------------------------------------------------------------------------

    def _find(self, name: str, now_ms: int) -> _Kept | Missing:
        kept = self._by_name.get(name)
        if kept is None:
            return NotFound(name)
        stream = kept.stream
        if stream.deadline_ms is not None and stream.expired(now_ms) and not stream.soft_deleted:
            self._end(kept)
            return SoftDeleted(name) if stream.soft_deleted else NotFound(name)
        return SoftDeleted(name) if stream.soft_deleted else kept

    def _fork(self, name: str, request: CreateRequest, source_name: str, now_ms: int) -> Created:
        if isinstance(self._find(source_name, now_ms), NotFound):
            return streams.SourceNotFound(source_name)
        source = self._by_name[source_name]
        anchor = streams.fork_anchor(source.stream, request, earliest=0)
        if not isinstance(anchor, int):
            return anchor
        following = b""
        if request.fork_sub_offset and anchor < source.stream.tail:
            following = source.fetch(anchor, source.bounds(anchor)[1])
        base = streams.fork_base(source.stream.kind, anchor, request.fork_sub_offset, following)
        if not isinstance(base, int):
            return base
        plan = streams.plan_fork(next(self._ids), name, source.stream, anchor, base, request, now_ms)
        self._keep(plan, source)
        return plan

    def _keep(self, plan: streams.Create, source: _Kept | None) -> None:
        stream = plan.stream
        kept = _Kept(stream, source)
        if plan.data:
            kept.content.append(plan.data)
        if source is not None:
            source.stream.fork_count += 1
        self._by_name[stream.name] = kept
        self._names.add(stream.name)
        if stream.deadline_ms is not None:
            heapq.heappush(self._deadlines, (stream.deadline_ms, stream.id, kept))
        self.listener(stream.name)

    def _end(self, kept: _Kept) -> Deleted:
        plan = streams.plan_delete(kept.stream)
        if isinstance(plan, streams.Delete):
            if plan.soft:
                kept.stream.soft_deleted = True
            else:
                self._forget(kept)
            self.listener(kept.stream.name)
        return plan

    def _forget(self, kept: _Kept) -> None:
        """Drop a stream, and each ancestor that was only kept for it."""
        doomed: _Kept | None = kept
        while doomed is not None:
            del self._by_name[doomed.stream.name]
            self._names.remove(doomed.stream.name)
            source = doomed.source
            if source is None:
                return
            source.stream.fork_count -= 1
            doomed = source if streams.releases_source(source.stream) else None
