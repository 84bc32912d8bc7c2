"""Streams in a table: the part of an engine that is the same wherever the bytes go.

A table looks streams up, asks `protocol` what should happen, changes the stream and hands the change
to its engine, which makes it durable. There are two states of every stream, and both have names:

        accepted   `kept.stream`                             what the next decision is made on
        durable    `kept.tail`, `kept.closed`, `kept.start`  what readers and answers may speak of

In memory they move together. On a disk the durable one follows when the change is on it.
"""

import copy
import heapq
from abc import abstractmethod
from collections.abc import Iterator
from typing import Protocol, TypeVar

import msgspec

from millstream.protocol import forks, lineage, reads, retention, streams
from millstream.protocol.globs import glob_matches
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.streams import NotFound, SoftDeleted, Stream
from millstream.store.base import Appended, Created, Deleted, Head, Missing, Page, Read, Store
from millstream.store.pending import Eventually
from millstream.store.pieces import Piece
from millstream.store.quotas import Quotas

_LISTING_STEPS = 10_000  # names looked at for one page, so that a glob that matches little stays quick
_UNSEEN = -1
_UNWATCHED = 2**62

D = TypeVar("D")


class Content(Protocol):
    """The bytes of one stream, from its base on."""

    def append(self, piece: Piece) -> None:
        """Add the bytes of one append."""
        ...

    def bounds(self, position: int) -> tuple[int, int]:
        """Give the append that holds the byte at `position`, as its start and end."""
        ...

    def fetch(self, start: int, end: int) -> bytes:
        """Give the bytes from start to end."""
        ...

    def count(self, position: int) -> int:
        """Tell how many appends end at or before a position, also those that are gone."""
        ...


class Kept:
    """A stream with its content and, for a fork, the stream that keeps what it inherited."""

    __slots__ = (
        "closed",
        "content",
        "logged_deadline_ms",
        "lsn",
        "source",
        "staged",
        "start",
        "stream",
        "tail",
        "used",
        "watched_ms",
    )

    def __init__(self, stream: Stream, source: "Kept | None", content: Content) -> None:
        self.stream = stream
        self.source = source
        self.content = content
        self.tail = _UNSEEN
        self.closed = False
        self.start = stream.start
        self.lsn = 0
        self.staged: dict[int, Piece] = {}
        self.logged_deadline_ms = stream.deadline_ms or 0
        self.used = True
        self.watched_ms = _UNWATCHED

    @property
    def seen(self) -> bool:
        """Whether readers may know of the stream: its creation is durable."""
        return self.tail != _UNSEEN

    def drop_staged(self) -> list[int]:
        """Forget every part, and give their numbers."""
        numbers = list(self.staged)
        self.staged.clear()
        if self.stream.staged is not None:
            self.stream.staged.clear()
        return numbers

    def owner(self, position: int) -> "tuple[Kept, int]":
        """Find who keeps a byte, this stream or an ancestor, and up to where this stream sees it."""
        owner, ceiling = self, self.stream.tail
        while position < owner.stream.base and owner.source is not None:
            ceiling = min(ceiling, owner.stream.base)
            owner = owner.source
        return owner, ceiling

    def bounds(self, position: int) -> tuple[int, int]:
        """Find the append that holds a byte, in this stream or the ancestor that keeps it."""
        owner, ceiling = self.owner(position)
        start, end = owner.content.bounds(position)
        return start, min(end, ceiling)

    def count(self, position: int) -> int:
        """Tell how many of the stream's own appends end at or before a position."""
        return self.content.count(position) if position > self.stream.base else 0

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


class Ending(msgspec.Struct, frozen=True):
    """All that one deletion changes: what is gone, and the source that stays with one fork less."""

    plan: streams.Delete
    gone: list[Kept]
    staying_source: Kept | None


class TableStore(Store):
    """An engine that decides on streams it has at hand."""

    def __init__(self) -> None:
        self.quotas = Quotas()
        self._by_name: dict[str, Kept] = {}
        self._deadlines: list[tuple[int, int, str]] = []  # names, not streams: it would keep deleted ones
        self._overfull: dict[int, Kept] = {}

    # -- What an engine adds ---------------------------------------------------------------------

    @abstractmethod
    def _next_id(self) -> int:
        """Give an id that no stream ever had."""

    @abstractmethod
    def _new_content(self, stream: Stream) -> Content:
        """Make the place for a new stream's bytes."""

    @abstractmethod
    def _lookup(self, name: str) -> Kept | None:
        """Find a stream, at hand or elsewhere."""

    @abstractmethod
    def _walk_names(self, prefix: str, after: str) -> Iterator[str]:
        """Give names in order."""

    @abstractmethod
    def _commit_create(self, kept: Kept, plan: streams.Create) -> Eventually[Created]:
        """Make a creation durable, then visible."""

    @abstractmethod
    def _commit_append(self, kept: Kept, plan: streams.Append, now_ms: int) -> Eventually[Appended]:
        """Make an append durable, then visible."""

    @abstractmethod
    def _commit_end(self, kept: Kept, ending: Ending) -> Eventually[Deleted]:
        """Make a deletion durable."""

    @abstractmethod
    def _commit_renewal(self, kept: Kept, now_ms: int) -> None:
        """Take note that a TTL was renewed."""

    @abstractmethod
    def _commit_trim(self, kept: Kept, change: retention.Trim) -> None:
        """Make durable that a stream begins later now, then visible; then let go of its bytes."""

    def _release_parts(self, kept: Kept, numbers: list[int]) -> None:
        """Take note that the bytes of parts are no longer needed as such."""

    def _once_durable(self, kept: Kept, decision: D) -> Eventually[D]:
        """Hold a decision back until all that it was made on is durable."""
        return decision

    # -- The contract ----------------------------------------------------------------------------

    def create(self, name: str, request: CreateRequest, now_ms: int) -> Eventually[Created]:
        """Create a stream or a fork, or say what is in the way."""
        if not isinstance(self._find(name, now_ms), NotFound):
            kept = self._by_name[name]
            decision = streams.plan_existing(kept.stream, request)
            if isinstance(decision, streams.Exists):
                decision = streams.Exists(copy.copy(kept.stream))
            return self._once_durable(kept, decision)
        if request.forked_from is None:
            plan = streams.plan_create(self._next_id(), name, request, now_ms, self.usual_retention)
            return self._keep(plan, None)
        return self._fork(name, request, request.forked_from, now_ms)

    def append(self, name: str, request: AppendRequest, now_ms: int) -> Eventually[Appended]:
        """Append, close, or both."""
        kept = self._find(name, now_ms)
        if not isinstance(kept, Kept):
            return kept
        plan = streams.plan_append(kept.stream, request, self.quotas.max_stream_bytes)
        if isinstance(plan, streams.Append):
            if plan.data:
                kept.content.append(plan.data)
            streams.apply_append(kept.stream, plan, now_ms)
            if plan.closes:
                self._drop_staged(kept)
            if kept.stream.retention:
                self._watch(kept)
            return self._commit_append(kept, plan, now_ms)
        if streams.renews_ttl(plan):
            self._renew(kept, now_ms)
        return self._once_durable(kept, plan)

    def read(
        self,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        *,
        peek: bool = False,
        held_bytes: int | None = None,
    ) -> Read:
        """Read a chunk and renew the stream's TTL; a peek does neither, it only measures the chunk.

        A chunk longer than `held_bytes` comes without its data, for who then fetches it in pieces.
        """
        kept = self._find(name, now_ms)
        if not isinstance(kept, Kept):
            return kept
        if not kept.seen:
            return NotFound(name)
        stream = kept.stream
        span = reads.plan_read(request, stream.kind, kept.start, kept.tail, max_bytes, kept)
        if not isinstance(span, reads.Span):
            return span
        if not peek:
            self._renew(kept, now_ms)
        is_held = not peek and (held_bytes is None or span.end - span.start <= held_bytes)
        return reads.Chunk(
            stream.id,
            stream.content_type,
            stream.kind,
            stream.lifetime,
            span.start,
            span.end,
            kept.fetch(span.start, span.end) if is_held else b"",
            span.end == kept.tail,
            kept.closed,
        )

    def fetch(self, name: str, stream_id: int, start: int, end: int) -> bytes | None:
        """Give bytes that a read has promised; None when the stream has lost them since."""
        kept = self._holder(name, stream_id, start)
        return kept.fetch(start, end) if kept is not None else None

    def head(self, name: str, now_ms: int) -> Head:
        """Describe a stream without renewing its TTL."""
        kept = self._find(name, now_ms)
        if not isinstance(kept, Kept):
            return kept
        return _as_seen(kept) if kept.seen else NotFound(name)

    def delete(self, name: str, now_ms: int) -> Eventually[Deleted]:
        """Delete a stream; its bytes stay while forks need them."""
        kept = self._find(name, now_ms)
        return self._end(kept) if isinstance(kept, Kept) else kept

    def listing(self, prefix: str, glob: str | None, after: str, limit: int, now_ms: int) -> Page:
        """List streams in the order of their names, beginning after a name."""
        found: list[Stream] = []
        for steps, name in enumerate(self._walk_names(prefix, after)):
            if len(found) == limit or steps == _LISTING_STEPS:
                return Page(found, after)
            after = name
            if glob and not glob_matches(glob, name):
                continue
            kept = self._lookup(name)
            if kept is None or not kept.seen or kept.stream.soft_deleted or kept.stream.expired(now_ms):
                continue
            found.append(_as_seen(kept))
        return Page(found, None)

    def expire(self, now_ms: int) -> None:
        """End the streams whose time is over, and let go of what streams need not keep."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            due_ms, id, name = heapq.heappop(self._deadlines)
            kept = self._by_name.get(name)
            if kept is None or kept.stream.id != id or kept.stream.soft_deleted:
                continue
            if kept.watched_ms != due_ms:  # an earlier time was watched since, and another after it
                continue
            kept.watched_ms = _UNWATCHED
            if kept.stream.expired(now_ms):
                self._end(kept)
            else:  # it was renewed since, or is to be trimmed
                self._trim(kept, now_ms)
                self._watch(kept)
        overfull, self._overfull = self._overfull, {}
        for kept in overfull.values():
            if self._by_name.get(kept.stream.name) is kept:
                self._trim(kept, now_ms)

    # -- How -------------------------------------------------------------------------------------

    def _holder(self, name: str, stream_id: int, start: int) -> Kept | None:
        """Find the stream that has promised bytes, if it still has them."""
        kept = self._lookup(name)
        if kept is None or kept.stream.id != stream_id or kept.stream.soft_deleted or start < kept.start:
            return None
        return kept

    def _find(self, name: str, now_ms: int) -> Kept | Missing:
        kept = self._lookup(name)
        if kept is None:
            return NotFound(name)
        stream = kept.stream
        if stream.deadline_ms is not None and stream.expired(now_ms) and not stream.soft_deleted:
            self._end(kept)
            return SoftDeleted(name) if stream.soft_deleted else NotFound(name)
        return SoftDeleted(name) if stream.soft_deleted else kept

    def _renew(self, kept: Kept, now_ms: int) -> None:
        if kept.stream.lifetime.is_sliding:
            kept.stream.renew(now_ms)
            self._commit_renewal(kept, now_ms)

    def _fork(self, name: str, request: CreateRequest, source_name: str, now_ms: int) -> Eventually[Created]:
        if isinstance(self._find(source_name, now_ms), NotFound):
            return forks.SourceNotFound(source_name)
        source = self._by_name[source_name]
        anchor = forks.fork_anchor(source.stream, request, earliest=source.stream.start, appends=source)
        if not isinstance(anchor, int):
            return anchor
        following = b""
        if request.fork_sub_offset and anchor < source.stream.tail:
            following = source.fetch(anchor, source.bounds(anchor)[1])
        base = forks.fork_base(source.stream.kind, anchor, request.fork_sub_offset, following)
        if not isinstance(base, int):
            return base
        plan = forks.plan_fork(self._next_id(), name, source.stream, anchor, base, request, now_ms)
        return self._keep(plan, source)

    def _keep(self, plan: streams.Create, source: Kept | None) -> Eventually[Created]:
        refusal = self.quotas.refuse(plan)
        if refusal is not None:
            return refusal
        self.quotas.add(plan.stream.name)
        stream = copy.copy(plan.stream)  # the plan says what was created; the stream will change
        kept = Kept(stream, source, self._new_content(stream))
        if plan.data:
            kept.content.append(plan.data)
        if source is not None:
            source.stream.fork_count += 1
            forks.share(source.stream, stream.base)
        self._by_name[stream.name] = kept
        self._watch(kept)
        return self._commit_create(kept, plan)

    def _watch(self, kept: Kept) -> None:
        """See to it that a stream is looked at when it is due."""
        stream = kept.stream
        due_ms = stream.due_ms
        if due_ms is not None and due_ms < kept.watched_ms:
            kept.watched_ms = due_ms
            heapq.heappush(self._deadlines, (due_ms, stream.id, stream.name))
        if retention.is_overfull(stream.retention, stream.start, stream.tail):
            self._overfull[stream.id] = kept

    def _trim(self, kept: Kept, now_ms: int) -> None:
        change = retention.plan_trim(kept.stream, now_ms, kept)
        if change is not None:
            retention.apply_trim(kept.stream, change)
            self._commit_trim(kept, change)

    def _end(self, kept: Kept) -> Eventually[Deleted]:
        plan = streams.plan_delete(kept.stream)
        if not isinstance(plan, streams.Delete):
            return plan
        self._drop_staged(kept)
        gone: list[Kept] = []
        source = None
        if plan.soft:
            kept.stream.soft_deleted = True
        else:
            gone, source = self._forget(kept)
        return self._commit_end(kept, Ending(plan, gone, source))

    def _drop_staged(self, kept: Kept) -> None:
        """Forget the parts of a stream that takes no more."""
        if kept.staged:
            self._release_parts(kept, kept.drop_staged())

    def _forget(self, kept: Kept) -> tuple[list[Kept], Kept | None]:
        """Drop a stream and each ancestor that was only kept for it; give them and the one that stays."""
        gone: list[Kept] = []
        doomed: Kept | None = kept
        while doomed is not None:
            gone.append(doomed)
            del self._by_name[doomed.stream.name]
            self.quotas.remove(doomed.stream.name)
            source = doomed.source
            if source is None:
                return gone, None
            source.stream.fork_count -= 1
            forks.unshare(source.stream)
            if not forks.releases_source(source.stream):
                return gone, source
            doomed = source
        return gone, None


def _as_seen(kept: Kept) -> Stream:
    """Show a stream as far as it is durable."""
    stream = kept.stream
    if stream.tail == kept.tail and stream.closed == kept.closed and stream.start == kept.start:
        return stream
    return msgspec.structs.replace(stream, tail=kept.tail, closed=kept.closed, start=kept.start)
