"""Rounds of subscriptions: requests are decided under one lock, on the roster as it is then.

        lock the one row --> other version? load all rows --> take changes, tell them
                                                                   |
        commit <-- rows, events of wake streams, lease <-- decide the requests

Until the commit, what is in memory is not what is in the database. If it fails, or a request needs what was
not prepared, the roster is loaded again.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from millstream.protocol.errors import RequestError
from millstream.protocol.events import literal_prefix
from millstream.protocol.reads import ReadFailed
from millstream.store.postgres.connections import Connection, Database
from millstream.store.postgres.loaded.cache import StreamCache
from millstream.store.postgres.loaded.content import NotPreparedError
from millstream.store.postgres.loaded.loading import Ask, Loader
from millstream.store.postgres.rounds import Request, Rounds
from millstream.store.postgres.subscribing import tables
from millstream.store.postgres.subscribing.changes import Entry, take_changes, tell
from millstream.store.postgres.subscribing.needs import Needs, keys_of, tails_of, wake_streams, woken_keys
from millstream.store.postgres.workspace import Change
from millstream.store.postgres.writing import Writer
from millstream.store.subscriptions.members import MAX_IDLE
from millstream.store.subscriptions.registry import MAX_LOOKED_AT

_UNKNOWN: Final = -1

_log = logging.getLogger("millstream")


class SubscriptionRounds(Rounds):
    """Decides what is about subscriptions."""

    def __init__(self, database: Database, cache: StreamCache, loader: Loader, writer: Writer) -> None:
        super().__init__(database, cache, loader, writer)
        self._parts = self.table.subscriptions
        self._version = _UNKNOWN  # of what is in memory
        self._committing = _UNKNOWN
        self._wanted_tails: set[str] = set()
        self._wanted_streams: set[str] = set()
        self.now_ms = 0
        """The time that this server was last asked at."""
        self.is_leading = False
        """Whether this server delivers."""
        self.attempts: dict[str, str] = {}
        """The wakes that this server is sending, by subscription."""
        self.on_begin: Callable[[], None] = lambda: None
        """Called before a round takes changes: those that come later need another one."""

    @property
    def server(self) -> str:
        """How the lease names this server."""
        return self._writer.sender

    @property
    def is_known(self) -> bool:
        """Whether the roster was loaded, and nothing has failed since."""
        return self._version != _UNKNOWN

    def is_current(self, version: int) -> bool:
        """Tell whether the roster in memory is of a version."""
        return self._version == version

    async def _decide_locked(self, connection: Connection, requests: list[Request]) -> list[Any]:
        streams, journal = self._engine.streams, self._engine.journal
        streams.clear()
        journal.clear()
        self.table.host.begin()
        self.on_begin()
        known, self._version, self._committing = self._version, _UNKNOWN, _UNKNOWN
        state = await tables.read_state(connection, self._writer.sender, locks=True)
        self._lead(state)
        if known != state.version:
            self._adopt(await tables.load_rows(connection))
        changes = await take_changes(connection) if state.has_changes else []
        try:
            decided = await self._decide_prepared(connection, requests, changes)
        except NotPreparedError as missing:
            self._wanted_tails.update(missing.tails)
            self._wanted_streams.update(missing.streams)
            raise
        self._wanted_tails.clear()
        self._wanted_streams.clear()
        version = state.version + bool(journal.kept or changes)
        if journal.kept:
            await tables.put_rows(connection, journal.kept)
        leads = self.is_leading and bool(self._parts.entries)
        if leads or version != state.version:
            await tables.put_state(connection, self._writer.sender, version, leads=leads)
        if journal.kept and not self.is_leading:
            sql = "SELECT pg_notify($1, $2)"
            await connection.execute(sql, self._writer.channel, f"{self._writer.sender} s")
        self._committing = version
        return decided

    def _lead(self, state: tables.State) -> None:
        """Deliver from now on, if nobody else does; who has lost the lease has nothing under way any more."""
        was_leading, self.is_leading = self.is_leading, state.is_mine or state.is_over
        if not (was_leading and state.is_mine):
            self.attempts.clear()

    def _adopt(self, rows: dict[str, bytes]) -> None:
        self._parts.adopt(rows)
        for key, wake_id in self.attempts.items():
            entry = self._parts.entries.get(key)
            if entry is not None and entry.state.wake is not None and entry.state.wake.id == wake_id:
                entry.attempted = wake_id
                self._parts.roster.set_timer(entry)

    async def _decide_prepared(
        self, connection: Connection, requests: list[Request], changes: list[Entry]
    ) -> list[Any]:
        def ask(question: Callable[[Connection], Any]) -> Any:
            return question(connection)

        roster, host = self._parts.roster, self.table.host
        needs = [request.needs for request in requests if request.needs is not None]
        await self._lock_streams(ask, needs, changes)
        now_ms = next((one.now_ms for one in needs if one.now_ms is not None), self.now_ms)
        for change in changes if roster.entries else ():
            tell(self._parts.waking, change, now_ms)
        host.finish()
        if not roster.entries and any(one.adds for one in needs):
            await tables.record_from_now(connection)
        tails: dict[str, int | None] = {}
        for one in needs:
            if one.pattern is not None:
                prefix = literal_prefix(one.pattern)
                found = await tables.find_streams(connection, prefix, one.pattern, MAX_IDLE, MAX_LOOKED_AT)
                tails |= found
        wanted = self._wanted_tails.union(*[one.names for one in needs])
        for key in (key for one in needs for key in keys_of(one, roster, self.now_ms)):
            if key in roster.entries:
                wanted.update(tails_of(roster.entries[key]))
        host.found = list(tails)
        host.prepared_tails = tails | await tables.load_tails(connection, wanted)
        return [self._decide_one(request) for request in requests]

    async def _lock_streams(self, ask: Ask, needs: list[Needs], changes: list[Entry]) -> None:
        """Lock the streams that may get an event."""
        roster = self._parts.roster
        keys = [key for one in needs for key in woken_keys(one, roster, self.now_ms)]
        locked = wake_streams(roster, [change.name for change in changes], keys) | self._wanted_streams
        if locked:
            await self._loader.refresh(ask, locked, for_update=True)
        self.table.host.locked = frozenset(locked)

    def _decide_one(self, request: Request) -> Any:
        if request.is_answered or (
            request.needs is not None and request.needs.delivers and not self.is_leading
        ):
            return None
        try:
            decided = request.decide(self.table)
            self.table.host.finish()
        except NotPreparedError:
            raise
        except RequestError as error:
            return error
        except Exception as error:
            # It may have changed some of what is in memory: the others begin anew.
            _log.error("a request about subscriptions could not be decided", exc_info=error)
            self._answer(request, ReadFailed())
            raise NotPreparedError from None
        return decided

    def _publish(self, changes: list[Change]) -> None:
        """Go on with what is committed."""
        self._version = self._committing
        super()._publish(changes)
