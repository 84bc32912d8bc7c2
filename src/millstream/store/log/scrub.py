"""The scrub: reads everything that is saved, slowly and again and again, to find damage before a reader does.

A round goes through the pages of the catalog, then through all streams in the order of their ids. A step
examines some pages, or some blocks of streams, in a thread, while no checkpoint changes files:

        due --a step, about once a second--> ... --> the round has ended --an hour after it began--> due

What it finds is logged with file and position, and counted. A damaged stream is verified again when it is
read, and answers with an error where it is damaged; all else goes on. A damaged catalog may hide streams, so
the engine then accepts no more changes, as after a start on such a catalog.

Streams whose files are of format 3 have no checksums yet, and are passed over.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import chain

import msgspec

from millstream.store.log.cache.stream_cache import StreamCache, content_of
from millstream.store.log.catalog.database import Catalog
from millstream.store.log.catalog.pages import PIECE_PAGES
from millstream.store.log.catalog.rows import Row
from millstream.store.log.disk import Disk
from millstream.store.log.files.content import StreamContent
from millstream.store.log.files.examining import complaint_of
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.places import Former
from millstream.store.log.files.staged import examine_parts
from millstream.store.log.intervals import elapsed
from millstream.store.log.pace import Rest
from millstream.store.log.runtime import Runtime
from millstream.store.measures import Measures

_STEP_BLOCKS = 256
"""How many blocks, pages of an index or small streams one step examines: 4 MiB, or 16 of staged parts."""
_STEP_INTERVAL_MS = 1_000
_ROUND_INTERVAL_MS = 3_600_000

_log = logging.getLogger("millstream")


class Finding(msgspec.Struct, frozen=True):
    """A stream with something that is damaged."""

    stream_id: int
    name: str
    complaint: str


class _Examined(msgspec.Struct):
    """The stream that is being examined; a large one takes many steps."""

    row: Row
    extent: Extent
    steps: Iterator[str | None]


class Scrub:
    """Where the round is, and its steps."""

    def __init__(
        self,
        disk: Disk,
        catalog: Catalog,
        runtime: Runtime,
        measures: Measures,
        streams: Callable[[], StreamCache],
    ) -> None:
        self._files = StreamFiles(disk)  # those of the event loop are not ours to use
        self._catalog = catalog
        self._runtime = runtime
        self._measures = measures
        self._streams = streams
        self.is_running = False
        """Whether a step runs; no checkpoint may begin then."""
        self._begun_ms = self._stepped_ms = 0
        self._has_ended = True  # the round
        self._first_page: int | None = 0  # of the next step; None when all were examined
        self._after_id = 0
        self._stream: _Examined | None = None
        self._damaged: set[int] = set()  # streams, in this round

    def is_due(self, now_ms: int) -> bool:
        """Tell whether it is time for a step."""
        if self.is_running:
            return False
        if self._has_ended:
            return elapsed(self._begun_ms, now_ms, _ROUND_INTERVAL_MS)
        return elapsed(self._stepped_ms, now_ms, _STEP_INTERVAL_MS)

    def step(self, now_ms: int, then: Callable[[list[str]], None]) -> None:
        """Examine some more in the background; `then` gets what is wrong with the catalog.

        The caller has the guard; it is released at the end.
        """
        if self._has_ended:
            self._begin_round(now_ms)
        self._stepped_ms = now_ms
        self.is_running = True
        pages: list[str] = []
        found: list[Finding] = []

        def job() -> None:
            try:
                if self._first_page is not None:
                    pages.extend(self._examine_pages(self._first_page))
                else:
                    found.extend(self._examine_streams(self._runtime.rest()))
            finally:
                self._files.close()

        def done(error: BaseException | None) -> None:
            self.is_running = False
            self._runtime.release_guard()
            if error is not None:
                _log.error("what is saved could not be examined, and will be again: %s", error)
                self._has_ended = True
            for finding in found:
                self._report(finding)
            if self._has_ended:
                self._measures.damaged_streams = len(self._damaged)
                self._measures.scrub_rounds += 1
            then(pages)

        self._runtime.begin_job(job, done)

    def _begin_round(self, now_ms: int) -> None:
        self._begun_ms = now_ms
        self._has_ended = False
        self._first_page, self._after_id, self._stream = 0, 0, None
        self._damaged = set()

    def _report(self, finding: Finding) -> None:
        """Log and count what is damaged; the next round does if the stream is changing, and files with it."""
        cache, id = self._streams(), finding.stream_id
        if id in cache.removed or id in cache.dirty:
            return
        _log.error("%s (%s)", finding.complaint, finding.name)
        self._damaged.add(id)
        self._measures.damaged_streams = max(self._measures.damaged_streams, len(self._damaged))
        entry = cache.by_id.get(id)
        if entry is not None:
            content_of(entry).distrust()

    # -- In a thread -----------------------------------------------------------------------------

    def _examine_pages(self, first: int) -> list[str]:
        found = self._catalog.examine_pages(first)
        self._first_page = first + PIECE_PAGES if found is not None else None
        return found or []

    def _examine_streams(self, rest: Rest) -> Iterator[Finding]:
        blocks = 0
        while blocks < _STEP_BLOCKS:
            stream = self._stream = self._current() or self._next()
            if stream is None:
                self._has_ended = True
                return
            row = stream.row
            for complaint in stream.steps:
                rest()
                blocks += 1
                self._measures.scrubbed_blocks += 1
                if complaint is not None:
                    yield Finding(row.stream_id, row.name, complaint)
                if blocks == _STEP_BLOCKS:
                    return
            self._stream = None

    def _current(self) -> _Examined | None:
        """Give the stream that the last step did not finish, unless its files were removed since."""
        if self._stream is None:
            return None
        row = self._catalog.written_row(self._stream.row.stream_id)
        if row is None or complaint_of(row.verify) is not None:
            return None
        return self._stream if Extent.of(row.stream()) == self._stream.extent else None

    def _next(self) -> _Examined | None:
        """Begin to examine the next stream; None when there is none."""
        row = self._catalog.next_row(self._after_id)
        if row is None:
            return None
        self._after_id = row.stream_id
        damage = complaint_of(row.verify)
        if damage is not None:
            return _Examined(row, Extent(0, 0, None), iter((damage,)))
        stream, place = row.stream(), row.where()
        content = StreamContent.of(self._files, stream, row.flushed, row.appends, place)
        steps = iter(()) if isinstance(place, Former) else content.examine()
        return _Examined(row, Extent.of(stream), chain(steps, examine_parts(self._files, stream)))
