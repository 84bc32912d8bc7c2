"""Connections to the database, and what to do when there is none.

Every server has a few connections for queries and transactions, and one that listens for notices. A query
that fails because a connection was lost may be sent again: the database is asked until it answers, with
growing pauses, and for no longer than a client would wait. What may have been committed is never sent again:
its outcome is unknown.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg

from millstream.store.base import StoreError
from millstream.store.postgres.pool import Pool

PATIENCE_S: Final = 10.0
"""How long a request waits for a database that does not answer."""

_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0
CONNECT_S: Final = 5.0
"""How long a connection may take, or an answer of what need not be asked."""

_log = logging.getLogger("millstream")

T = TypeVar("T")

Connection = Any
"""A connection of asyncpg, which has no useful types."""

LOST: Final = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # of a connection that the database has ended while nobody used it
    asyncpg.PostgresConnectionError,
    asyncpg.exceptions.OperatorInterventionError,  # the server stops, or is not ready yet
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.ReadOnlySQLTransactionError,  # a replica that is not promoted yet
)
"""What says that the database cannot be asked at the moment."""

AGAIN: Final = (asyncpg.exceptions.DeadlockDetectedError, asyncpg.exceptions.SerializationError)
"""What says that nothing was changed, and that it may go well the next time."""


class UnreachableError(Exception):
    """The database did not answer for too long; `is_unknown` tells that a change may have been kept."""

    def __init__(self, *, is_unknown: bool) -> None:
        super().__init__("the database cannot be reached")
        self.is_unknown = is_unknown


class Pauses:
    """Growing pauses between attempts."""

    def __init__(self) -> None:
        self._next_s = _FIRST_PAUSE_S

    async def wait(self) -> None:
        """Wait, longer each time, and not in step with other servers."""
        await asyncio.sleep(self._next_s * random.uniform(0.5, 1.0))
        self._next_s = min(_LONGEST_PAUSE_S, self._next_s * 2)


async def _ignore(_connection: Connection) -> None:
    """Do nothing with a connection."""


class Database:
    """The connections of one server, to what takes changes or, `is_replica`, to what follows it."""

    def __init__(self, url: str, connections: int, *, is_replica: bool = False) -> None:
        self._url = url
        self._role = "standby" if is_replica else "primary"
        self._pool = Pool(self._connect, connections, CONNECT_S)
        self.failure: str | None = None
        """Why the database cannot be asked, if it cannot."""
        self.on_connected: Callable[[Connection], Awaitable[None]] = _ignore
        """Called with each new connection, before it is used."""

    async def _connect(self) -> Connection:
        connection = await self.listener()
        try:
            await asyncio.wait_for(self.on_connected(connection), CONNECT_S)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def open(self) -> None:
        """Connect, and fail with a sentence if that is not possible."""
        try:
            async with self.connection() as one, self.connection() as other:
                await _use_prepared(one, other)
        except LOST as error:
            raise StoreError(f"the database cannot be reached: {reason(error)}") from None
        except (asyncpg.PostgresError, ValueError) as error:
            raise StoreError(f"the database cannot be used: {error}") from None

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def listener(self) -> Connection:
        """Open a connection of its own, for notices."""
        return await asyncpg.connect(
            self._url,
            timeout=CONNECT_S,
            target_session_attrs=self._role,  # a replica may answer at an address before it is promoted
        )

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Give a connection; raise one of `LOST` where there is none."""
        async with self._pool.connection() as connection:
            try:
                yield connection
            except LOST:
                connection.terminate()  # it may look whole, and is not
                raise

    async def ask(self, question: Callable[[Connection], Awaitable[T]]) -> T:
        """Ask the database something that may be asked twice."""
        give_up_s = asyncio.get_running_loop().time() + PATIENCE_S
        pauses = Pauses()
        while True:
            try:
                async with self.connection() as connection:
                    found = await question(connection)
            except (*LOST, *AGAIN) as error:
                self.note_lost(error)
                if asyncio.get_running_loop().time() > give_up_s:
                    raise UnreachableError(is_unknown=False) from None
                await pauses.wait()
            else:
                self.note_reached()
                return found

    def note_lost(self, error: BaseException) -> None:
        """Note that the database could not be asked."""
        if isinstance(error, LOST) and self.failure is None:
            self.failure = "its database cannot be reached"
            _log.error("the database cannot be reached: %s", reason(error))

    def note_reached(self) -> None:
        """Note that the database has answered."""
        if self.failure is not None:
            self.failure = None
            _log.warning("the database answers again")


async def _use_prepared(one: Connection, other: Connection) -> None:
    """Refuse a pooler that gives each transaction another connection and forgets prepared statements."""
    asked = "SELECT pg_backend_pid()"
    try:
        if await one.fetchval(asked) != await other.fetchval(asked):
            return  # each has its own
        for _ in range(10):
            statement = await one.prepare(asked)
            place = await statement.fetchval()
            async with other.transaction():
                if await other.fetchval(asked) == place:
                    await statement.fetchval()  # elsewhere, since that place is taken
                    return
    except (
        asyncpg.exceptions.InvalidSQLStatementNameError,
        asyncpg.exceptions.DuplicatePreparedStatementError,
    ):
        raise StoreError(
            "a pooler in front of the database gives each transaction another connection, and forgets "
            "prepared statements. Connect directly, or let it pool sessions (pool_mode = session); pgbouncer "
            "1.21 and newer can pool transactions with max_prepared_statements."
        ) from None


def reason(error: BaseException) -> str:
    """Say what is wrong."""
    if isinstance(error, asyncpg.exceptions.TargetServerAttributeNotMatched):
        return "what answers there has another role: a replica takes no changes, a primary follows nothing"
    return str(error) or type(error).__name__
