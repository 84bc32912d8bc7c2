"""Reads: looked up in the database first, then answered from what is in memory.

        reads of one turn --one query: versions and states--> each is answered, or asks for rows
                                                                   ^                |
                                                                   +---- loaded <---+

The query begins after the reads have come, so what was acknowledged by any server before that is in their
answers, and so is what any server has shown. Rows may come from a replica then. A stream that turns out to be
expired is ended by a round.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from millstream.protocol.boundaries import ScanUnfinishedError
from millstream.protocol.errors import MalformedError
from millstream.protocol.reads import ReadFailed
from millstream.protocol.requests import ReadRequest
from millstream.protocol.streams import StoreFailed, Unreachable
from millstream.store.base import Deleted, Head, Read
from millstream.store.endings import Endings
from millstream.store.entries import StreamEntry
from millstream.store.finding import Finding
from millstream.store.pending import Eventually, Pending
from millstream.store.postgres.connections import Database, UnreachableError
from millstream.store.postgres.loaded.cache import StreamCache
from millstream.store.postgres.loaded.content import NotLoadedError, Wanted
from millstream.store.postgres.loaded.loading import READ_BYTES, Loader, LostContentError
from millstream.store.postgres.loaded.replica import Replica
from millstream.store.postgres.workspace import WorkEngine, WorkJournal, WorkStreams
from millstream.store.reading import Reading
from millstream.store.slices import Slices

_AT_ONCE: Final = 2  # queries that look streams up
_MAX_LOSSES: Final = 3

_log = logging.getLogger("millstream")


class _Asked(msgspec.Struct, eq=False):
    """A read that waits for an answer."""

    name: str
    attempt: Callable[[], Any]
    pending: Pending[Any]
    losses: int = 0


class CommittedStreams(WorkStreams):
    """Streams as they are in the database."""

    def find(self, name: str) -> StreamEntry | None:
        """Find a stream that was looked up."""
        saved = self._cache.get(name)
        return saved.entry if saved is not None else None


class _CommittedJournal(WorkJournal):
    """Passes on that a read has renewed a TTL."""

    def __init__(self, work: WorkStreams, cache: StreamCache, renewed: Callable[[StreamEntry], None]) -> None:
        super().__init__(work, cache)
        self._renewed = renewed

    def renew(self, entry: StreamEntry) -> None:
        """Have a round record it."""
        self._renewed(entry)


class _EndLater(Endings):
    """Passes on that a stream was met whose time is over."""

    report: Callable[[StreamEntry], None]

    def end(self, entry: StreamEntry) -> Eventually[Deleted]:
        """Have a round end it."""
        self.report(entry)
        return StoreFailed()


class Reads(Slices):
    """Answers reads."""

    def __init__(
        self,
        database: Database,
        cache: StreamCache,
        loader: Loader,
        replica: Replica | None,
        renewed: Callable[[StreamEntry], None],
        expired: Callable[[StreamEntry], None],
    ) -> None:
        super().__init__()
        self._database = database
        self._cache = cache
        self._loader = loader
        self._replica = replica
        engine = WorkEngine(cache)
        engine.streams = CommittedStreams(cache)
        engine.journal = _CommittedJournal(engine.streams, cache, renewed)
        endings = _EndLater(engine, self)
        endings.report = expired
        self._reading = Reading(Finding(engine, endings), engine.journal, self)
        self._waiting: list[_Asked] = []
        self._looking_up = 0
        self.renewal: Pending[Any] | None = None
        """The record of a TTL that a read has just renewed, which its answer waits for."""
        self._is_begun = False
        self._tasks: set[asyncio.Task[None]] = set()

    def read(self, name: str, request: ReadRequest, max_bytes: int, now_ms: int, peek: bool) -> Pending[Read]:
        """Read a chunk, which always holds its data."""
        size = min(max_bytes, READ_BYTES)
        return self._ask(name, partial(self._reading.read, name, request, size, now_ms, peek=peek))

    def head(self, name: str, now_ms: int) -> Pending[Head]:
        """Describe a stream."""
        return self._ask(name, partial(self._reading.head, name, now_ms))

    def fetch(self, name: str, stream_id: int, start: int, end: int) -> bytes | None:
        """Give bytes, if they are in memory."""
        try:
            return self._reading.fetch(name, stream_id, start, end)
        except NotLoadedError:
            return None

    async def finish(self) -> None:
        """Wait for what is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside, and hold it until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def decide(self, attempt: Callable[[], Eventually[Any]]) -> Pending[Any]:
        """Make a decision that takes several turns, and may need more from the database in each."""
        pending: Pending[Any] = Pending()
        self.add(partial(self._try, _Asked("", attempt, pending)))
        return pending

    def _ask(self, name: str, attempt: Callable[[], Any]) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        self._waiting.append(_Asked(name, attempt, pending))
        self._begin_soon()
        return pending

    def _begin_soon(self) -> None:
        if self._waiting and not self._is_begun and self._looking_up < _AT_ONCE:
            self._is_begun = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_begun = False
        self._looking_up += 1
        asked, self._waiting = self._waiting, []
        self.spawn(self._look_up(asked))

    async def _look_up(self, asked: list[_Asked]) -> None:
        try:
            await self._loader.refresh(self._database.ask, {one.name for one in asked})
        except UnreachableError:
            self._fail(asked, Unreachable())
            return
        except Exception as error:
            _log.error("streams could not be looked up", exc_info=error)
            self._fail(asked, ReadFailed())
            return
        finally:
            self._looking_up -= 1
            self._begin_soon()
        for one in asked:
            self._try(one)

    def _fail(self, asked: list[_Asked], refusal: Any) -> None:
        for one in asked:
            _settle(one, refusal)

    def _try(self, one: _Asked) -> None:
        """Answer, or load what is missing and try again."""
        self.renewal = None
        renewal: Pending[Any] | None = None
        try:
            found = one.attempt()
            renewal = self.renewal
        except NotLoadedError as missing:
            self.spawn(self._load(one, missing.wanted))
            return
        except ScanUnfinishedError:
            self.add(partial(self._try, one))
            return
        except MalformedError as error:
            found = error
        except Exception as error:
            _log.error("a read could not be decided", exc_info=error)
            found = ReadFailed()
        if isinstance(found, Pending):
            found.then(partial(_settle, one))
        elif renewal is not None:
            renewal.then(lambda _: _settle(one, found))
        else:
            _settle(one, found)

    async def _load(self, one: _Asked, wanted: Wanted) -> None:
        try:
            if self._replica is None or not await self._replica.load(wanted):
                await self._loader.load(self._database.ask, wanted)
        except UnreachableError:
            _settle(one, Unreachable())
            return
        except LostContentError:
            one.losses += 1
            if one.losses > _MAX_LOSSES:
                _log.error("%s lacks content that it should have: %s", one.name, wanted)
                _settle(one, ReadFailed())
                return
            if one.name:  # it may have been trimmed or deleted meanwhile
                self._waiting.append(one)
                self._begin_soon()
                return
        except Exception as error:
            _log.error("content could not be loaded", exc_info=error)
            _settle(one, ReadFailed())
            return
        self._try(one)


def _settle(one: _Asked, found: Any) -> None:
    try:
        one.pending.settle(found)
    except Exception:  # a connection that fails to take its answer must not affect the others
        _log.exception("an answer could not be delivered")
