"""Notices: what has changed elsewhere, and what others should know.

Every transaction notifies the other servers of the streams that it has changed:

        SENDER ID ID ...        their ids; a second line has the names of those that are gone, in JSON
        SENDER *                too many for one notice: everything may have changed
        SENDER s                subscriptions

A notice may be lost with the connection that listens for it; therefore the streams that readers wait for are
looked up now and then, and more often while no connection listens. An application that listens to streams of
which this server knows only the ids has their names looked up, and is told when notices may be lost.

Streams that were created, here or elsewhere, are found by one query in the order of their ids. Creations are
committed in that order, so nobody is told of one before an older one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from millstream.store.base import OnCreated, ignore_creation
from millstream.store.listening import Listeners
from millstream.store.postgres.connections import LOST, Connection, Database, Pauses, UnreachableError
from millstream.store.postgres.loaded.cache import StreamCache
from millstream.store.postgres.loaded.loading import Loader
from millstream.store.postgres.workspace import Change

_POLL_S: Final = 1.0
_POLLED_AT_ONCE: Final = 500
_CREATED_AT_ONCE: Final = 500

_CREATED = "SELECT id, name FROM streams WHERE id > $1 ORDER BY id LIMIT $2"

_NAMES = "SELECT name FROM streams WHERE id = ANY($1)"
_MAX_NOTICE_BYTES: Final = 7_900  # PostgreSQL takes less than 8,000

_log = logging.getLogger("millstream")


def encode_notice(sender: str, changes: Sequence[Change]) -> str:
    """Say what has changed."""
    text = " ".join([sender, *(str(change.entry.stream.id) for change in changes)])
    gone = [change.entry.stream.name for change in changes if change.is_gone]
    if gone:
        text += "\n" + msgspec.json.encode(gone).decode()
    return text if len(text.encode()) < _MAX_NOTICE_BYTES else f"{sender} *"


class Notices:
    """Hears what other servers change, and looks for what it did not hear."""

    def __init__(self, database: Database, cache: StreamCache, loader: Loader, listeners: Listeners) -> None:
        self._database = database
        self._cache = cache
        self._loader = loader
        self._listeners = listeners
        self._unnamed: set[int] = set()
        self._has_tried = asyncio.Event()
        self.channel = ""
        self.sender = ""
        self.newest_id = 0
        self.on_created: OnCreated = ignore_creation
        self.on_heard: Callable[[], None] = lambda: None
        """Called when another server has changed something."""
        self.watched: Callable[[], Iterable[str]] = tuple
        self.is_listening = False
        self._listening: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._is_asked = False
        self._polled_s = 0.0
        self._polls_all = False

    async def open(self) -> None:
        """Begin to listen, and to know which stream is the newest."""
        sql = "SELECT last_value FROM stream_ids"
        self.newest_id = await self._database.ask(lambda connection: connection.fetchval(sql))
        self._listening = asyncio.get_running_loop().create_task(self._listen())
        await self._has_tried.wait()

    async def close(self) -> None:
        """Stop."""
        for task in (self._listening, self._looking):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _listen(self) -> None:
        pauses = Pauses()
        while True:
            try:
                connection = await self._database.listener()
            except Exception as error:  # whatever it is: polls go on
                self._database.note_lost(error)
                self._has_tried.set()
                await pauses.wait()
                continue
            ended = asyncio.get_running_loop().create_future()
            connection.add_termination_listener(lambda _, ended=ended: ended.done() or ended.set_result(None))
            try:
                await connection.add_listener(self.channel, self._heard)
                self.is_listening, pauses = True, Pauses()
                self._miss()
                self._has_tried.set()
                await ended
            except LOST:
                await pauses.wait()
            finally:
                self._has_tried.set()
                self.is_listening = False
                connection.terminate()

    def _heard(self, _connection: Connection, _process: int, _channel: str, notice: Any) -> None:
        head, _, names = notice.partition("\n")
        sender, *ids = head.split(" ")
        if sender == self.sender:
            return
        self.on_heard()
        if ids == ["s"]:
            return  # of subscriptions
        if ids == ["*"]:
            self._miss()
            return
        numbers = [int(id) for id in ids]
        if self._listeners.has_others:
            self._unnamed.update(number for number in numbers if number not in self._cache.by_id)
        for name in msgspec.json.decode(names or "[]", type=list[str]):
            self._gone(name, numbers)
        for name in self._cache.changed_elsewhere(iter(numbers)):
            self._cache.listener(name)
        if self._unnamed or max(numbers, default=0) > self.newest_id:
            self.look_for_created()

    def _gone(self, name: str, numbers: list[int]) -> None:
        saved = self._cache.get(name)
        if saved is not None and saved.entry.stream.id in numbers:
            self._cache.missing(name)
        else:  # another stream has the name, or none
            self._cache.listener(name)

    def _miss(self) -> None:
        """Look for what was not heard."""
        self.poll()
        self._listeners.miss()

    # -- Polls -------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """Poll when it is time to."""
        if not self.is_listening or now_s - self._polled_s >= _POLL_S:
            self.poll()

    def poll(self) -> None:
        """Look up the streams that readers wait for, and new ones."""
        self._polled_s = asyncio.get_running_loop().time()
        self._polls_all = True
        self.look_for_created()

    def look_for_created(self) -> None:
        """Look for streams that were created, and for names that somebody wants to know."""
        self._is_asked = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while self._is_asked:
            self._is_asked = False
            try:
                await self._report_created()
                await self._tell_unnamed()
                if self._polls_all:
                    self._polls_all = False
                    await self._poll_watched()
            except UnreachableError:
                return  # the next tick tries again
            except Exception:
                _log.exception("changes of other servers could not be looked up")
                return

    async def _report_created(self) -> None:
        while True:
            rows = await self._database.ask(self._created_since)
            for id, name in rows:
                self.newest_id = id
                self.on_created(name, id)
            if len(rows) < _CREATED_AT_ONCE:
                return

    async def _created_since(self, connection: Connection) -> list[Any]:
        return list(await connection.fetch(_CREATED, self.newest_id, _CREATED_AT_ONCE))

    async def _tell_unnamed(self) -> None:
        if self._unnamed:
            ids, self._unnamed = sorted(self._unnamed), set()
            for row in await self._database.ask(lambda connection: connection.fetch(_NAMES, ids)):
                self._cache.listener(row[0])

    async def _poll_watched(self) -> None:
        names = iter(list(self.watched()))
        while some := list(islice(names, _POLLED_AT_ONCE)):
            await self._loader.refresh(self._database.ask, some)
