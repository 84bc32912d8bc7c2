"""The store in PostgreSQL: the contract of every store, over its parts."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, cast

from millstream.protocol.attributes import matches
from millstream.protocol.configuration import ConfigureRequest
from millstream.protocol.globs import glob_matches
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.reads import ReadFailed
from millstream.protocol.requests import AppendRequest, CreateRequest, DeletionRequest, ReadRequest
from millstream.protocol.retention import Retention
from millstream.protocol.streams import Stream, Unreachable, Unstored
from millstream.protocol.trims import TrimRequest
from millstream.store.base import (
    NO_ATTRIBUTES,
    Appended,
    Backlog,
    Committed,
    Configured,
    Created,
    Deleted,
    DeletedPage,
    Dropped,
    Head,
    Listed,
    Listener,
    ManyDeleted,
    OnCreated,
    Page,
    Read,
    Staged,
    Store,
    Trimmed,
)
from millstream.store.entries import StreamEntry
from millstream.store.listening import Listeners, Listening
from millstream.store.measures import ReplicaMeasures
from millstream.store.pending import Pending
from millstream.store.postgres.connections import Database, UnreachableError
from millstream.store.postgres.encoding import decode_state, prefix_range
from millstream.store.postgres.loaded.cache import StreamCache
from millstream.store.postgres.loaded.loading import Loader
from millstream.store.postgres.loaded.replica import Replica
from millstream.store.postgres.notices import Notices
from millstream.store.postgres.reads import Reads
from millstream.store.postgres.rounds import Rounds
from millstream.store.postgres.schema import apply_schema, refuse_unfinished
from millstream.store.postgres.subscribing.offered import SharedSubscriptions
from millstream.store.postgres.subscribing.rounds import SubscriptionRounds
from millstream.store.postgres.upkeep import Upkeep
from millstream.store.postgres.workspace import Deciding, is_renewal_due
from millstream.store.postgres.writing import Writer
from millstream.store.quotas import Quotas
from millstream.store.subscriptions.subscriptions import Subscriptions

_COUNT_INTERVAL_S: Final = 30.0
_PAGE: Final = 1000  # names looked at for one page
_DELETED_TOGETHER: Final = 64
_MAX_LOOKED_AT: Final = 10_000

_LIST = """
    SELECT name, state FROM streams
    WHERE name >= $1 AND ($2::text IS NULL OR name < $2) AND name > $3 ORDER BY name LIMIT $4
"""


class PostgresStore(Store):
    """Streams in a database that several servers share."""

    is_shared = True

    def __init__(self, database: Database, memory_bytes: int, replica: Database | None = None) -> None:
        self._database = database
        self.cache = StreamCache(memory_bytes)
        loader = Loader(self.cache)
        self._writer = Writer()
        self.rounds = Rounds(database, self.cache, loader, self._writer)
        self._replica = Replica(database, replica, self.cache, loader) if replica is not None else None
        self._reads = Reads(database, self.cache, loader, self._replica, self._renewed, self._expired)
        self._listeners = Listeners(self._install_listener, self.head)
        self.notices = Notices(database, self.cache, loader, self._listeners)
        self.upkeep = Upkeep(database, self.rounds)
        self._told_writer = Writer(records=False)
        self._subscribing = SubscriptionRounds(database, self.cache, loader, self._told_writer)
        self.shared = SharedSubscriptions(database, self._subscribing)
        self.subscriptions = cast("Subscriptions", self.shared)  # the same requests, each as a round
        self.rounds.on_committed = self.notices.on_heard = self.shared.hear
        self.rounds.on_created = self.notices.look_for_created
        for rounds in (self.rounds, self._subscribing):
            rounds.on_written = self.upkeep.note_written
            rounds.count_change = self._count_changed
        self._renewing: dict[int, Pending[Any]] = {}
        self._count = 0
        self._counted_s = 0.0
        self._now_ms = 0

    # -- Opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, bring the tables up to date, and begin to listen."""
        await self._database.open()
        try:
            async with self._database.connection() as connection:
                await apply_schema(connection)
                await refuse_unfinished(connection)
                schema = await connection.fetchval("SELECT current_schema()")
            channel, sender = f"millstream {schema}", secrets.token_hex(6)
            for part in (self._writer, self._told_writer, self.notices):
                part.channel, part.sender = channel, sender
            await self._recount()
            await self.shared.open()
            await self.notices.open()
            if self._replica is not None:
                await self._replica.open(self._now_ms)
        except BaseException:
            await self._database.close()
            raise

    async def close(self) -> None:
        """Finish what was begun, and disconnect."""
        await self.rounds.finish()
        await self.upkeep.finish()
        await self.shared.close()
        await self._reads.finish()
        await self.notices.close()
        if self._replica is not None:
            await self._replica.close()
        await self._database.close()

    @property
    def failure(self) -> str | None:
        """Why no change is accepted, if none is."""
        return self._database.failure

    @property
    def replica_measures(self) -> ReplicaMeasures | None:
        """What is read from a replica, if there is one."""
        return self._replica.measures if self._replica is not None else None

    @property
    def backlog(self) -> Backlog:
        """The changes that are not yet committed."""
        return self.rounds

    # -- What it is set up with ------------------------------------------------------------------

    @property
    def quotas(self) -> Quotas:
        """How much a stream may have, and how many there may be."""
        return self.rounds.table.quotas

    @quotas.setter
    def quotas(self, quotas: Quotas) -> None:
        self.rounds.table.quotas = self._subscribing.table.quotas = quotas

    @property
    def usual_retention(self) -> Retention:
        """The retention of streams that are created without limits of their own."""
        return self.rounds.table.usual_retention

    @usual_retention.setter
    def usual_retention(self, usual: Retention) -> None:
        self.rounds.table.usual_retention = usual

    @property
    def listener(self) -> Listener:
        """Called with the name of a stream after every change that a waiting reader must see."""
        return self._listeners.first

    @listener.setter
    def listener(self, listener: Listener) -> None:
        self._listeners.first = listener

    def listen(self, glob: str, clock_ms: Callable[[], int]) -> Listening:
        """Give events of the streams that a glob matches, whichever server changes them, from now on."""
        return self._listeners.listen(glob, clock_ms)

    def _install_listener(self, listener: Listener) -> None:
        self.cache.listener = listener

    @property
    def on_created(self) -> OnCreated:
        """Called with the name and the id of every stream that any server has created."""
        return self.notices.on_created

    @on_created.setter
    def on_created(self, call: OnCreated) -> None:
        self.notices.on_created = call

    @property
    def watched(self) -> Callable[[], Iterable[str]]:
        """Gives the names of the streams that readers wait for."""
        return self.notices.watched

    @watched.setter
    def watched(self, watched: Callable[[], Iterable[str]]) -> None:
        self.notices.watched = watched

    # -- Changes ---------------------------------------------------------------------------------

    def create(self, name: str, request: CreateRequest, now_ms: int) -> Pending[Created]:
        """Create a stream or a fork, or say what is in the way."""
        self.shared.note_time(now_ms)
        names = (name,) if request.forked_from is None else (name, request.forked_from)
        return self.rounds.submit(
            names,
            lambda table: table.create_now(name, request, now_ms),
            is_exclusive=True,
            creates=1,
            size=len(request.body),
        )

    def append(self, name: str, request: AppendRequest, now_ms: int) -> Pending[Appended]:
        """Append, close, or both."""
        self.shared.note_time(now_ms)
        return self.rounds.submit(
            (name,),
            lambda table: table.append(name, request, now_ms),
            closes=request.closes,
            size=len(request.data),
        )

    def delete(self, name: str, now_ms: int) -> Pending[Deleted]:
        """Delete a stream; its bytes stay while forks need them."""
        self.upkeep.note_ended()
        return self._change(name, lambda table: table.delete(name, now_ms))

    def stage(self, name: str, request: StageRequest, max_staged_bytes: int, now_ms: int) -> Pending[Staged]:
        """Store a part, invisibly."""
        return self._change(
            name, lambda table: table.stage(name, request, max_staged_bytes, now_ms), len(request.data)
        )

    def commit(self, name: str, request: CommitRequest, now_ms: int) -> Pending[Committed]:
        """Append parts, in one atomic change."""
        self.shared.note_time(now_ms)
        return self._change(name, lambda table: table.commit(name, request, now_ms))

    def drop_part(self, name: str, id: str, now_ms: int) -> Pending[Dropped]:
        """Drop a part; one that is not there counts as dropped."""
        return self._change(name, lambda table: table.drop_part(name, id, now_ms))

    def configure(self, name: str, request: ConfigureRequest, now_ms: int) -> Pending[Configured]:
        """Change how long a stream lives, what it keeps and its attributes."""
        return self._change(name, lambda table: table.configure(name, request, now_ms))

    def trim(self, name: str, request: TrimRequest, now_ms: int) -> Pending[Trimmed]:
        """Drop the beginning of a stream."""
        return self._change(name, lambda table: table.trim(name, request, now_ms))

    def _change(self, name: str, decide: Callable[[Deciding], Any], size: int = 0) -> Pending[Any]:
        return self.rounds.submit((name,), decide, is_exclusive=True, size=size)

    def delete_some(
        self, request: DeletionRequest, may_delete: Callable[[str], bool], now_ms: int
    ) -> Pending[ManyDeleted]:
        """Delete the streams of a page, in the order of their names."""
        self.upkeep.note_ended()
        return self._later(self._delete_some(request, may_delete, now_ms))

    async def _delete_some(
        self, request: DeletionRequest, may_delete: Callable[[str], bool], now_ms: int
    ) -> ManyDeleted:
        after, deleted, looked_at = request.after, 0, 0
        while True:
            rows = await self._names(request.prefix, after, _PAGE)
            names: list[str] = []
            for name, _ in rows:
                looked_at += 1
                after = name
                if request.selects(name) and may_delete(name):
                    names.append(name)
                if len(names) == min(_DELETED_TOGETHER, request.limit - deleted):
                    break
            if names:
                done: int | Unstored | ReadFailed = await self._delete_named(names, now_ms)
                if not isinstance(done, int):
                    return done
                deleted += done
            is_end = len(rows) < _PAGE and (not rows or after == rows[-1][0])
            if is_end or deleted >= request.limit or looked_at >= _MAX_LOOKED_AT:
                return DeletedPage(deleted, None if is_end else after)

    def _delete_named(self, names: list[str], now_ms: int) -> Pending[Any]:
        return self.rounds.submit(names, lambda table: table.delete_named(names, now_ms), is_exclusive=True)

    # -- Reads -----------------------------------------------------------------------------------

    def read(
        self,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        *,
        peek: bool = False,
        held_bytes: int | None = None,
    ) -> Pending[Read]:
        """Read a chunk and renew the stream's TTL; it always holds its data."""
        return self._reads.read(name, request, max_bytes, now_ms, peek)

    def fetch(self, name: str, stream_id: int, start: int, end: int) -> bytes | None:
        """Give bytes, if they are in memory."""
        return self._reads.fetch(name, stream_id, start, end)

    def head(self, name: str, now_ms: int) -> Pending[Head]:
        """Describe a stream without renewing its TTL."""
        return self._reads.head(name, now_ms)

    def listing(
        self,
        prefix: str,
        glob: str | None,
        after: str,
        limit: int,
        now_ms: int,
        attributes: Mapping[str, str] = NO_ATTRIBUTES,
    ) -> Pending[Listed]:
        """List streams in the order of their names, beginning after a name."""
        return self._later(self._list(prefix, glob, after, limit, now_ms, attributes))

    async def _list(
        self,
        prefix: str,
        glob: str | None,
        after: str,
        limit: int,
        now_ms: int,
        attributes: Mapping[str, str],
    ) -> Page:
        found: list[Stream] = []
        rows = await self._names(prefix, after, _PAGE)
        for name, state in rows:
            if len(found) == limit:
                return Page(found, after)
            after = name
            if glob and not glob_matches(glob, name):
                continue
            stream = decode_state(state)
            if stream.soft_deleted or stream.expired(now_ms):
                continue
            if matches(stream.attributes, attributes):
                found.append(stream)
        return Page(found, after if len(rows) == _PAGE else None)

    async def _names(self, prefix: str, after: str, limit: int) -> list[Any]:
        first, end = prefix_range(prefix)
        return list(
            await self._database.ask(lambda connection: connection.fetch(_LIST, first, end, after, limit))
        )

    def _later(self, work: Any) -> Pending[Any]:
        pending: Pending[Any] = Pending()

        async def settle() -> None:
            try:
                found = await work
            except UnreachableError as error:
                found = Unreachable(is_unknown=error.is_unknown)
            pending.settle(found)

        self._reads.spawn(settle())
        return pending

    @property
    def newest_id(self) -> int:
        """The id of the newest stream that was reported as created."""
        return self.notices.newest_id

    def count_streams(self) -> int:
        """Count all streams; those of other servers are counted now and then."""
        return self._count

    # -- Now and then ----------------------------------------------------------------------------

    def expire(self, now_ms: int) -> bool:
        """Begin what is due now and then."""
        self._now_ms = now_ms
        loop = asyncio.get_running_loop()
        self.notices.tick(loop.time())
        self.upkeep.begin(now_ms)
        self.shared.tick(now_ms)
        if self._replica is not None:
            self._replica.tick(now_ms)
        if loop.time() - self._counted_s > _COUNT_INTERVAL_S:
            self._counted_s = loop.time()
            self._reads.spawn(self._recount_quietly())
        watched = set(self.watched())
        self.cache.evict(watched.__contains__)
        return False

    def expire_more(self, now_ms: int) -> bool:
        """Nothing is left over: what is due is done beside the event loop."""
        return False

    def _renewed(self, entry: StreamEntry) -> None:
        """Record a TTL that a read has renewed, once in a while; the read is answered when it is recorded."""
        stream = entry.stream
        renewed = self._renewing.get(stream.id)
        if renewed is None and is_renewal_due(entry):
            now_ms = (stream.deadline_ms or 0) - (stream.lifetime.ttl_s or 0) * 1000
            name, id = stream.name, stream.id
            renewed = self._renewing[id] = self.rounds.submit(
                (name,), lambda table: table.renew(name, id, now_ms)
            )
            renewed.then(lambda _: self._renewing.__delitem__(id))
        self._reads.renewal = renewed

    def _expired(self, entry: StreamEntry) -> None:
        """End a stream that a read has met after its time."""
        names, now_ms = [entry.stream.name], self._now_ms
        deadline_ms = entry.stream.deadline_ms or now_ms
        decide = partial(_look_after, names=names, now_ms=max(now_ms, deadline_ms))
        self.rounds.submit(names, decide, is_exclusive=True)

    def _count_changed(self, change: int) -> None:
        self._count += change
        if change < 0:
            self.upkeep.note_ended()

    async def _recount(self) -> None:
        sql = "SELECT count(*) FROM streams"
        before = self._count
        counted: int = await self._database.ask(lambda connection: connection.fetchval(sql))
        if self._count == before:  # otherwise our own changes may or may not be in it: the next time will do
            self._count = counted
        self._counted_s = asyncio.get_running_loop().time()

    async def _recount_quietly(self) -> None:
        try:
            await self._recount()
        except UnreachableError:
            return  # the number stays as it was


def _look_after(table: Deciding, names: list[str], now_ms: int) -> None:
    table.look_after(names, now_ms)
