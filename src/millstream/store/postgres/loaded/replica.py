"""A streaming replica: content that it has is read there, so that catching up costs the database little.

        database    says, for every read, which stream there is and where it ends; takes all changes
        replica     gives bytes before that end, if it has them; otherwise the database does

What is committed never changes until it is trimmed, and what is trimmed is refused by what the database says.
So bytes of a stream at a position are the same in both, wherever the replica is, as long as it follows the
history that the database writes:

        promoted      a replica that has become a database of its own says so with the rows: none is taken
        left behind   after another replica was promoted, one may have what was lost with the old database.
                      Every new connection to the database learns which timeline it writes now, and a replica
                      on another one is not asked
        behind        it has no such row yet, or one that ends after what the database has told
        gone          it is asked again when it answers a look that is taken now and then

A look also tells up to which time the replica has everything. What was appended later is not asked for in
vain, unless it is far before the end of its stream.
"""

import asyncio
import logging
from typing import Any, Final

import asyncpg
import msgspec

from millstream.store.base import StoreError
from millstream.store.measures import ReplicaMeasures
from millstream.store.postgres.connections import (
    AGAIN,
    CONNECT_S,
    LOST,
    Connection,
    Database,
    UnreachableError,
    reason,
)
from millstream.store.postgres.loaded.cache import StreamCache
from millstream.store.postgres.loaded.content import Bytes, RowContent, Wanted
from millstream.store.postgres.loaded.loading import MAX_ROWS, READ_BYTES, ROWS, Loader

_LOOK_S: Final = 1.0

_HISTORY = """
    SELECT system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
    FROM pg_control_system()
"""
_WRITTEN = "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint"
_REPLAYED = """
    SELECT pg_is_in_recovery(), system_identifier, min_recovery_end_timeline::bigint,
        pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint
    FROM pg_control_system(), pg_control_recovery()
"""
_REPLICATED_ROWS = (
    f"SELECT pg_is_in_recovery(), r.* FROM ({ROWS}) AS r"  # evaluated after the snapshot is taken
)

_log = logging.getLogger("millstream")


class History(msgspec.Struct, frozen=True):
    """What a database writes, or a replica follows."""

    system: int
    timeline: int


class Position(msgspec.Struct, frozen=True):
    """How far the database had written at a time."""

    written: int
    at_ms: int


class Replica:
    """Loads content from a replica, where that is possible."""

    def __init__(self, primary: Database, replica: Database, cache: StreamCache, loader: Loader) -> None:
        self._primary = primary
        self._database = replica
        self._cache = cache
        self._loader = loader
        self._written: History | None = None  # by the database
        self._followed: History | None = None  # by the replica
        self._awaited: Position | None = None
        self._has_until_ms: int | None = None
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = float("-inf")
        self._trouble: str | None = "it was not looked at yet"
        self.measures = ReplicaMeasures()
        primary.on_connected = self._learn_history

    # -- Opening and closing ---------------------------------------------------------------------

    async def open(self, now_ms: int) -> None:
        """Look at it; one that is gone is not needed, one that is not set up for us is refused."""
        try:
            await self._look_once(now_ms)
        except (*LOST, *AGAIN) as error:
            self._lose(f"it cannot be reached: {reason(error)}")
        except (asyncpg.PostgresError, ValueError) as error:
            raise StoreError(f"the replica cannot be used: {error}") from None

    async def close(self) -> None:
        """Disconnect."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._database.close()

    # -- What it follows -------------------------------------------------------------------------

    async def _learn_history(self, connection: Connection) -> None:
        """Learn what the database writes: it is the same for as long as the connection lasts."""
        try:
            self._written = History(*await connection.fetchrow(_HISTORY))
        except asyncpg.PostgresError as error:
            self._written = None
            self._lose(f"the database does not tell its timeline: {reason(error)}")

    def tick(self, now_ms: int) -> None:
        """Look at it now and then."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._looked_s >= _LOOK_S and (self._looking is None or self._looking.done()):
            self._looked_s = loop.time()
            self._looking = loop.create_task(self._look(now_ms))

    async def _look(self, now_ms: int) -> None:
        try:
            await self._look_once(now_ms)
        except (*LOST, *AGAIN, asyncpg.PostgresError, ValueError) as error:
            self._lose(f"it cannot be reached: {reason(error)}")
        except UnreachableError:
            return  # the database: nothing can be read at all

    async def _look_once(self, now_ms: int) -> None:
        written = await self._primary.ask(lambda connection: connection.fetchval(_WRITTEN))
        async with self._database.connection() as connection, asyncio.timeout(CONNECT_S):
            is_replica, system, timeline, replayed = await connection.fetchrow(_REPLAYED)
        self._followed = History(system, timeline)
        if not is_replica:
            self._lose("it was promoted, or never was a replica")
        elif self._followed != self._written:
            self._lose("it does not follow the history that the database writes")
        else:
            self._advance(replayed, Position(written, now_ms))
            self._use()

    def _advance(self, replayed: int, now: Position) -> None:
        """Note up to which time it has everything."""
        if replayed >= now.written:
            self._has_until_ms, self._awaited = now.at_ms, None
        elif self._awaited is None:
            self._awaited = now
        elif replayed >= self._awaited.written:
            self._has_until_ms, self._awaited = self._awaited.at_ms, now
        self.measures.lag_s = (now.at_ms - self._has_until_ms) / 1000 if self._has_until_ms else None

    def _lose(self, why: str) -> None:
        """Ask it no more, until a look finds it well."""
        self.measures.is_used = False
        self._awaited = self._has_until_ms = self.measures.lag_s = None
        if self._trouble != why:
            self._trouble = why
            _log.warning("the replica is not asked: %s", why)

    def _use(self) -> None:
        self.measures.is_used = True
        if self._trouble is not None:
            self._trouble = None
            _log.info("the replica is asked for content")

    # -- Loading ---------------------------------------------------------------------------------

    async def load(self, wanted: Wanted) -> bool:
        """Load something, and tell whether that was possible; if not, the database is to be asked."""
        if not (isinstance(wanted, Bytes) and self._followed == self._written and self._may_have(wanted)):
            return False
        content, start = wanted.content, wanted.start
        until = min(max(wanted.end, start + READ_BYTES) + 1, content.end)  # beyond it nothing is known
        try:
            async with self._database.connection() as connection, asyncio.timeout(CONNECT_S):
                values = (content.stream_id, start, until, MAX_ROWS)
                rows = await connection.fetch(_REPLICATED_ROWS, *values)
        except AGAIN:  # it had to go on with what the database has removed
            return False
        except (*LOST, asyncpg.PostgresError) as error:
            self._lose(f"it cannot be reached: {reason(error)}")
            return False
        is_loaded = self._take(content, start, rows)
        self.measures.reads += is_loaded
        self.measures.misses += not is_loaded
        return is_loaded

    def _may_have(self, wanted: Bytes) -> bool:
        if self._has_until_ms is None:
            return False
        saved = self._cache.by_id.get(wanted.content.stream_id)
        is_old = saved is not None and saved.entry.stream.last_write_ms <= self._has_until_ms
        return is_old or wanted.content.end - wanted.start > READ_BYTES

    def _take(self, content: RowContent, start: int, rows: list[Any]) -> bool:
        """Take rows that end where the stream was known to reach, or before."""
        if not all(row[0] for row in rows):
            self._lose("it was promoted, or never was a replica")
            return False
        known = [row[1:] for row in rows if row[2] <= content.end]
        return self._loader.add_rows(content, start, known)
