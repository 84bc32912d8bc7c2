"""Reads: chunks of a stream, what it is like, and pages of names. None of them changes more than a TTL.

A chunk may begin at a time or at a number of messages before the end, and finding the beginning may take
several turns of the event loop (`slices`). A page of names has a bound on how many are looked at, and for how
long.
"""

import logging
import time
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from millstream.protocol import reads
from millstream.protocol.attributes import matches
from millstream.protocol.boundaries import ScanUnfinishedError
from millstream.protocol.globs import glob_matches
from millstream.protocol.origins import Origin, Search
from millstream.protocol.requests import LiveMode, ReadRequest
from millstream.protocol.streams import Stream
from millstream.store.base import FilePart, Head, Page, Read, StoreError
from millstream.store.engine import Journal, Streams
from millstream.store.entries import StreamEntry
from millstream.store.finding import Finding
from millstream.store.pending import Eventually
from millstream.store.slices import Slices

_RUNS: Final = 1000  # times in one chunk
_MAX_STEPS = 10_000  # names looked at for one page, so that a glob that matches little stays quick
_MAX_S = 0.01  # time for one page, whatever is looked at; a caller continues with the next one

_log = logging.getLogger("millstream")


class Reading:
    """Reads streams that are found by name."""

    def __init__(self, finding: Finding, journal: Journal, slices: Slices) -> None:
        self._finding = finding
        self._journal = journal
        self._slices = slices

    def read(
        self,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        *,
        peek: bool = False,
        held_bytes: int | None = None,
    ) -> Eventually[Read]:
        """Read a chunk and renew the stream's TTL, as the contract says."""
        if request.origin is not None:
            return self._read_from(request.origin, name, request, max_bytes, now_ms, peek, held_bytes)
        try:
            return self._read(name, request, max_bytes, now_ms, peek, held_bytes)
        except ScanUnfinishedError:
            attempt = partial(self._read, name, request, max_bytes, now_ms, peek, held_bytes)
            return self._slices.decide(attempt)

    def _read(
        self,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        peek: bool,
        held_bytes: int | None,
    ) -> Eventually[Read]:
        entry = self._finding.visible(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return self._journal.confirm_missing(name, entry)
        stream = entry.stream
        span = reads.plan_read(request, stream.kind, entry.start, entry.tail, max_bytes, entry)
        if not isinstance(span, reads.Span):
            return span
        if not peek:
            self._finding.renew(entry, now_ms)
        runs: tuple[reads.Run, ...] = ()
        if request.times and span.start < span.end:
            if request.live is not LiveMode.SSE:
                span = reads.Span(span.start, next(entry.runs(span.start, span.end)).end)
            elif not peek:
                runs = tuple(islice(entry.runs(span.start, span.end), _RUNS))
                span = reads.Span(span.start, runs[-1].end)
        is_held = not peek and (held_bytes is None or span.end - span.start <= held_bytes)
        first_ms, last_ms = _times_of(entry, span)
        return reads.Chunk(
            stream.id,
            stream.content_type,
            stream.kind,
            stream.lifetime,
            span.start,
            span.end,
            entry.fetch(span.start, span.end) if is_held else b"",
            span.end == entry.tail,
            entry.closed,
            first_ms,
            last_ms,
            runs,
            stream.created_ms,
        )

    def _read_from(
        self,
        origin: Origin,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        peek: bool,
        held_bytes: int | None,
    ) -> Eventually[Read]:
        """Read from where a time or a number of messages begins, which may take several turns to find."""
        searches: dict[int, Search] = {}  # by stream: a name may be given to another one in between

        def attempt() -> Eventually[Read]:
            entry = self._finding.visible(name, now_ms)
            if not isinstance(entry, StreamEntry):
                return self._journal.confirm_missing(name, entry)
            id = entry.stream.id
            if id not in searches:
                searches[id] = Search(origin, entry.tail, now_ms)
            search = searches[id]
            offset = search.find(entry.stream.kind, entry.start, entry)
            until = search.tail if request.until is None else min(request.until, search.tail)
            resolved = msgspec.structs.replace(request, origin=None, offset=offset, until=until)
            return self._read(name, resolved, max_bytes, now_ms, peek, held_bytes)

        try:
            return attempt()
        except ScanUnfinishedError:
            return self._slices.decide(attempt)

    def fetch(self, name: str, stream_id: int, start: int, end: int) -> bytes | None:
        """Give bytes that a read has promised; None when the stream has lost them since."""
        entry = self._finding.promised(name, stream_id, start)
        return entry.fetch(start, end) if entry is not None else None

    def locate(self, name: str, stream_id: int, start: int, end: int) -> FilePart | None:
        """Give the place of the first of these bytes; None when they are not in a file."""
        entry = self._finding.promised(name, stream_id, start)
        if entry is None:
            return None
        owner, ceiling = entry.owner(start)
        return self._finding.streams.locate(owner, start, min(end, ceiling))

    def head(self, name: str, now_ms: int) -> Eventually[Head]:
        """Describe a stream without renewing its TTL."""
        entry = self._finding.visible(name, now_ms)
        if not isinstance(entry, StreamEntry):
            return self._journal.confirm_missing(name, entry)
        return entry.as_visible()


def _times_of(entry: StreamEntry, span: reads.Span) -> tuple[int, int]:
    """Give when the first and the last append of a chunk arrived; 0 if that is damaged: content goes out."""
    try:
        return entry.times_of(span.start, span.end)
    except StoreError as error:
        _log.error("%s is read without times: %s", entry.stream.name, error)
        return 0, 0


def list_page(
    streams: Streams,
    prefix: str,
    glob: str | None,
    after: str,
    limit: int,
    now_ms: int,
    attributes: Mapping[str, str],
) -> Page:
    """List streams in the order of their names, beginning after a name."""
    found: list[Stream] = []
    end_s = time.thread_time() + _MAX_S  # its own time: a busy machine has no shorter pages
    for steps, name in enumerate(streams.walk(prefix, after)):
        if len(found) == limit or steps == _MAX_STEPS or (steps and time.thread_time() > end_s):
            return Page(found, after)
        after = name
        if glob and not glob_matches(glob, name):
            continue
        entry = streams.find(name)
        if entry is None or not entry.is_visible:
            continue
        if entry.stream.soft_deleted or entry.stream.expired(now_ms):
            continue
        stream = entry.as_visible()
        if matches(stream.attributes, attributes):
            found.append(stream)
    return Page(found, None)
