"""Rounds: the changes that wait are decided together and written in one transaction; then the next ones are.

        requests --decide, on working copies--> changes --one transaction--> published, told, answered
            ^                                      |
            +---- again, with the row's lock <-----+  another server was faster

No timer gathers them: what arrives while a round is under way is the next round. Its answers go out once that
one is at the database, so that neither waits for the other. A round has two parts:

        optimistic   appends. Decided on what this server knows, written if the stream still has the version
                     that was decided on: one round trip. What turns out to change nothing was decided on
                     what may be out of date, so it is decided again after a look at the database.
        locked       everything else, and appends to streams that several servers write to at the moment.
                     Rows are locked, looked up, decided on and written: it never conflicts, so there is no
                     third attempt.

A connection that is lost before the commit was sent has changed nothing, and the round is tried again. After
that nobody can know, and the answer says so; a producer's retry is safe.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from millstream.protocol.boundaries import ScanUnfinishedError
from millstream.protocol.errors import RequestError
from millstream.protocol.reads import ReadFailed
from millstream.protocol.streams import Unreachable
from millstream.store.entries import StreamEntry
from millstream.store.pending import Pending
from millstream.store.postgres.connections import (
    AGAIN,
    LOST,
    PATIENCE_S,
    Connection,
    Database,
    Pauses,
    UnreachableError,
)
from millstream.store.postgres.encoding import prefix_range
from millstream.store.postgres.loaded.cache import Saved, StreamCache
from millstream.store.postgres.loaded.content import NotLoadedError, NotPreparedError, Wanted
from millstream.store.postgres.loaded.loading import Ask, Loader, LostContentError
from millstream.store.postgres.subscribing.needs import Needs
from millstream.store.postgres.workspace import Change, Deciding, WorkEngine
from millstream.store.postgres.writing import Writer

_MAX_REQUESTS: Final = 2048
_MAX_BYTES: Final = 16 * 2**20
_CONTENDED_S: Final = 1.0  # for so long the lock is taken after a conflict
_MAX_ATTEMPTS: Final = 20
_MAX_LOADS: Final = 10_000  # of one round: each gets a little further
_CREATION_LOCK: Final = 0x6D73_0001
_UPKEEP_LOCK: Final = 0x6D73_0002

_log = logging.getLogger("millstream")


class Request(msgspec.Struct, eq=False):
    """A change that waits for its round."""

    names: tuple[str, ...]
    decide: Callable[[Deciding], Any]
    pending: Pending[Any]
    arrived_s: float
    is_exclusive: bool = False
    """Whether it needs the locks of its rows."""
    creates: int = 0
    """How many ids it may need for new streams."""
    is_upkeep: bool = False
    """Whether one server at a time does it, and nobody waits for its turn."""
    closes: bool = False
    size: int = 0
    is_answered: bool = False
    needs_look: bool = False
    """Whether it was decided on what may be out of date."""
    needs: Needs | None = None
    """What one about subscriptions must find prepared."""


class Rounds:
    """Decides and writes changes."""

    def __init__(self, database: Database, cache: StreamCache, loader: Loader, writer: Writer) -> None:
        self._database = database
        self._cache = cache
        self._loader = loader
        self._writer = writer
        self._engine = WorkEngine(cache)
        self.table = Deciding(self._engine)
        self._waiting: deque[Request] = deque()
        self._answers: list[tuple[Pending[Any], Any]] = []
        self._running: asyncio.Task[None] | None = None
        self.on_created: Callable[[], None] = lambda: None
        """Called when a round has created streams."""
        self.on_written: Callable[[int, int, int], None] = lambda _id, _start, _size: None
        """Called with the stream, the beginning and the size of every row of content."""
        self.count_change: Callable[[int], None] = lambda _: None
        """Called with how many more streams there are."""
        self.on_committed: Callable[[], None] = lambda: None
        """Called when a round has changed streams."""
        self.unsynced_changes = self.unsynced_bytes = self.synced_bytes = 0
        self.commits = self.conflicts = 0

    def submit(self, names: Iterable[str], decide: Callable[[Deciding], Any], **rest: Any) -> Pending[Any]:
        """Have something decided and written in the next round."""
        pending: Pending[Any] = Pending()
        loop = asyncio.get_running_loop()
        request = Request(tuple(names), decide, pending, loop.time(), **rest)
        self._waiting.append(request)
        self.unsynced_changes += 1
        self.unsynced_bytes += request.size
        if self._running is None:
            self._running = loop.create_task(self._run())
        return pending

    async def finish(self) -> None:
        """Wait until nothing waits any more."""
        while self._running is not None:
            await asyncio.shield(self._running)

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch: list[Request] = []
                size = 0
                while self._waiting and len(batch) < _MAX_REQUESTS and size < _MAX_BYTES:
                    batch.append(self._waiting.popleft())
                    size += batch[-1].size
                await self._round([request for request in batch if not request.is_answered])
        finally:
            self._running = None

    async def _round(self, batch: list[Request]) -> None:
        optimistic: list[Request] = []
        locked: list[Request] = []
        upkeep: list[Request] = []
        now_s = asyncio.get_running_loop().time()
        for request in batch:
            if request.is_upkeep:
                upkeep.append(request)
            elif self._needs_lock(request, now_s):
                locked.append(request)
            else:
                optimistic.append(request)
        for requests, attempt in (
            (optimistic, self._optimistic),
            (locked, self._locked),
            (upkeep, self._locked),
        ):
            if requests:
                await self._attempt(requests, attempt)
        self._engine.streams.clear()
        self.table.forget_schedule()

    def _needs_lock(self, request: Request, now_s: float) -> bool:
        if request.is_exclusive:
            return True
        saved = self._cache.get(request.names[0])
        if saved is None:
            return False
        return saved.contended_until_s > now_s or (request.closes and saved.parts_next > 0)

    async def _attempt(self, requests: list[Request], attempt: Callable[[list[Request]], Any]) -> None:
        """Carry out a part of a round; whatever goes wrong becomes answers."""
        pauses = Pauses()
        for _ in range(_MAX_ATTEMPTS):
            try:
                await attempt(requests)
            except (*AGAIN, NotPreparedError):
                continue
            except UnreachableError as error:
                self._answer_all(requests, Unreachable(is_unknown=error.is_unknown))
                return
            except LostContentError:
                for request in requests:
                    request.needs_look = True
                continue
            except LOST as error:
                self._database.note_lost(error)
                late_s = asyncio.get_running_loop().time() - PATIENCE_S
                overdue = [request for request in requests if request.arrived_s < late_s]
                self._answer_all(overdue, Unreachable(is_unknown=False))
                requests = [request for request in requests if request.arrived_s >= late_s]
                if not requests:
                    return
                await pauses.wait()
            except Exception as error:
                _log.error("a round of changes failed", exc_info=error)
                self._answer_all(requests, ReadFailed())
                return
            else:
                self._database.note_reached()
                return
        self._answer_all(requests, Unreachable(is_unknown=False))

    # -- The two kinds of rounds -----------------------------------------------------------------

    async def _optimistic(self, requests: list[Request]) -> None:
        ask = self._database.ask
        requests = [request for request in requests if not request.is_exclusive]
        looked_up = {
            request.names[0] for request in requests if request.needs_look or not self._knows(request)
        }
        if looked_up:
            await self._loader.refresh(ask, looked_up)
            now_s = asyncio.get_running_loop().time()
            for request in requests:
                if self._needs_lock(request, now_s):  # that is known now
                    request.is_exclusive = True
                    self._waiting.appendleft(request)
            requests = [request for request in requests if not request.is_exclusive]
        decided = await self._decide(ask, requests, looked_up)
        changes = list(self._engine.journal.changes.values())
        changed = await self._write_once(changes) if changes else set()
        self._publish([change for change in changes if change.entry.stream.id in changed])
        again: list[Request] = []
        for request, decision in zip(requests, decided, strict=True):
            name = request.names[0]
            entry = self._engine.streams.by_name.get(name)
            id = entry.stream.id if entry is not None else 0
            if id in changed or (id not in self._engine.journal.changes and name in looked_up):
                self._answer(request, decision)
                continue
            if id in self._engine.journal.changes:
                self._note_conflict(name)
                request.is_exclusive = True
            request.needs_look = True
            again.append(request)
        self._waiting.extendleft(reversed(again))

    def _knows(self, request: Request) -> bool:
        saved = self._cache.get(request.names[0])
        return saved is not None and not saved.is_stale

    def _note_conflict(self, name: str) -> None:
        self.conflicts += 1
        saved = self._cache.get(name)
        if saved is not None:
            saved.is_stale = True
            saved.contended_until_s = asyncio.get_running_loop().time() + _CONTENDED_S

    async def _write_once(self, changes: list[Change]) -> set[int]:
        """Write in one statement; once it is sent, a lost connection leaves its outcome unknown."""
        async with self._database.connection() as connection:
            try:
                changed = await self._writer.write(connection, changes, is_locked=False)
            except LOST as error:
                self._lose(changes, error)
                raise UnreachableError(is_unknown=True) from None
            self.commits += 1
            return changed

    def _lose(self, changes: list[Change], error: BaseException) -> None:
        self._database.note_lost(error)
        for change in changes:
            self._cache.remove(change.entry.stream)

    async def _locked(self, requests: list[Request]) -> None:
        journal = self._engine.journal
        async with self._database.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            is_committing = False
            try:
                if requests[0].is_upkeep and not await self._claim_upkeep(connection):
                    await transaction.rollback()
                    self._answer_all(requests, None)
                    return
                self._engine.streams.is_locked = True
                decided = await self._decide_locked(connection, requests)
                changes = list(journal.changes.values())
                if changes:
                    await self._writer.write(connection, changes, is_locked=True)
                is_committing = True
                await transaction.commit()
            except LOST as error:
                if is_committing:
                    self._lose(list(journal.changes.values()), error)
                    raise UnreachableError(is_unknown=True) from None
                raise
            except BaseException:
                if not is_committing:
                    with contextlib.suppress(Exception):
                        await transaction.rollback()
                raise
            finally:
                self._engine.streams.is_locked = False
                self._engine.streams.loaded_parts = {}
        self.commits += 1
        self._publish(changes)
        for request, decision in zip(requests, decided, strict=True):
            self._answer(request, decision)

    async def _claim_upkeep(self, connection: Connection) -> bool:
        sql = "SELECT pg_try_advisory_xact_lock($1, hashtext(current_schema()))"
        return bool(await connection.fetchval(sql, _UPKEEP_LOCK))

    async def _decide_locked(self, connection: Connection, requests: list[Request]) -> list[Any]:
        def ask(question: Callable[[Connection], Any]) -> Any:
            return question(connection)

        names = {name for request in requests for name in request.names}
        ids: list[int] = []
        count = sum(request.creates for request in requests)
        if count:
            # Creations are committed in the order of their ids, so that nobody who has seen one misses
            # one that came before it.
            await connection.execute(
                "SELECT pg_advisory_xact_lock($1, hashtext(current_schema()))", _CREATION_LOCK
            )
            numbers = await connection.fetch(
                "SELECT nextval('stream_ids') FROM generate_series(1, $1::int)", count
            )
            ids = [row[0] for row in numbers]
        await self._loader.refresh(ask, names, for_update=True)
        self._join(requests, names)
        staging = [
            saved.entry.stream.id for saved in map(self._cache.get, names) if saved and saved.parts_next
        ]
        if staging:
            self._engine.streams.loaded_parts = await self._loader.parts(ask, staging)
        if count:
            await self._count_streams(connection, names)
        return await self._decide(ask, requests, names, ids)

    def _join(self, requests: list[Request], names: set[str]) -> None:
        """Take in the appends to locked streams that came while their locks were waited for."""
        left: deque[Request] = deque()
        held_up: set[str] = set()  # a change that has to wait, and what came after it
        size = sum(request.size for request in requests)
        while self._waiting and len(requests) < _MAX_REQUESTS and size < _MAX_BYTES:
            request = self._waiting.popleft()
            if request.is_answered:
                continue
            if request.is_exclusive or request.needs is not None or not names.issuperset(request.names):
                held_up.update(request.names)
                left.append(request)
            elif held_up.isdisjoint(request.names):
                requests.append(request)
                size += request.size
            else:
                left.append(request)
        self._waiting.extendleft(reversed(left))

    async def _count_streams(self, connection: Connection, names: set[str]) -> None:
        """Count the streams that quotas limit, now that no other server creates any."""
        sql = "SELECT count(*) FROM streams WHERE name >= $1 AND name < $2"
        counted = {(quota, above) for name in names for quota, above in self.table.quotas.limited(name)}
        for quota, above in counted:
            quota.counts[above] = await connection.fetchval(sql, *prefix_range(above))

    async def _decide(
        self, ask: Ask, requests: list[Request], looked_up: set[str], ids: Iterable[int] = ()
    ) -> list[Any]:
        """Let the table decide, and load what it needs for that, until it has all of it."""
        streams, journal = self._engine.streams, self._engine.journal
        failed: dict[int, Any] = {}
        for _ in range(_MAX_LOADS):
            streams.clear()
            journal.clear()
            streams.new_ids = list(ids)
            decided: list[Any] = []
            wanted: list[Wanted] = []
            is_whole = True
            for request in requests:
                if id(request) in failed:
                    decided.append(failed[id(request)])
                    continue
                try:
                    decided.append(request.decide(self.table))
                except NotLoadedError as missing:
                    wanted.append(missing.wanted)
                except ScanUnfinishedError:
                    is_whole = False
                except RequestError as error:
                    failed[id(request)], is_whole = error, False
                except Exception as error:
                    _log.error("a change could not be decided", exc_info=error)
                    failed[id(request)], is_whole = ReadFailed(), False
            if is_whole and not wanted:
                return decided
            for one in wanted:
                await self._loader.load(ask, one)
            stale = {
                request.names[0] for request in requests if not self._knows(request)
            } & self._cache.by_name.keys()
            if stale and not streams.is_locked:
                await self._loader.refresh(ask, stale)
                looked_up |= stale
            await asyncio.sleep(0)
        raise LostContentError

    # -- What a round leaves ---------------------------------------------------------------------

    def _publish(self, changes: list[Change]) -> None:
        """Let readers see what is committed."""
        created = removed = 0
        for change in changes:
            stream = change.entry.stream
            created += change.is_new
            if change.is_gone:
                removed += 1
                self._cache.remove(stream)
            else:
                self._publish_one(change)
        if created != removed:
            self.count_change(created - removed)
        for name in dict.fromkeys([change.entry.stream.name for change in changes if change.tells]):
            self._cache.listener(name)
        if created:
            self.on_created()
        if changes:
            self.on_committed()

    def _publish_one(self, change: Change) -> None:
        entry, content = change.entry, change.content
        stream, saved = entry.stream, content.saved
        saved.adopt(stream.tail, content.appends)
        for new in change.rows:
            row = new.row
            if isinstance(new.data, bytes):
                saved.add(row, row.start, new.data)
            else:
                saved.add_row(row)
            self.on_written(stream.id, row.start, row.end - row.start)
        parts_next = stream.staged.count if stream.staged is not None else 0
        stream.staged = None
        source = self._cache.by_id.get(stream.fork.source_id) if stream.fork is not None else None
        published = StreamEntry(stream, source.entry if source is not None else entry.source, saved)
        published.publish()
        published.indexes = entry.indexes
        self._cache.replace(Saved(published, change.version + 1, content.appends, parts_next))

    def _answer_all(self, requests: list[Request], decision: Any) -> None:
        for request in requests:
            self._answer(request, decision)

    def _answer(self, request: Request, decision: Any) -> None:
        if request.is_answered:
            return
        request.is_answered = True
        self.unsynced_changes -= 1
        self.unsynced_bytes -= request.size
        self.synced_bytes += request.size
        if not self._answers:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._answers.append((request.pending, decision))

    def _deliver(self) -> None:
        """Deliver answers; if more waits, the next round is at the database by now."""
        answers, self._answers = self._answers, []
        for pending, decision in answers:
            try:
                pending.settle(decision)
            except Exception:  # a connection that fails to take its answer must not affect the others
                _log.exception("an answer could not be delivered")
