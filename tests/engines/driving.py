"""An engine under test: opened, driven from plain test code, and closed.

Every engine answers to the same suite. To add one, add a line to `ENGINES`: how to open it on a
folder. Engines may answer at once or later; the driver waits for whatever they return, and `until`
for what they do on their own. Time is what the test says it is.
"""

import asyncio
import copy
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from crash.folders import abandon
from millstream.protocol import json_frames
from millstream.protocol.attributes import Changes
from millstream.protocol.conditions import Condition
from millstream.protocol.configuration import parse_configure
from millstream.protocol.errors import MalformedError
from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.lifecycle import Create
from millstream.protocol.offsets import START
from millstream.protocol.origins import Origin
from millstream.protocol.parts import CommitRequest, StageRequest
from millstream.protocol.producers import Stamp
from millstream.protocol.reads import Chunk
from millstream.protocol.requests import (
    AppendRequest,
    CreateRequest,
    DeletionRequest,
    LiveMode,
    ReadRequest,
)
from millstream.protocol.retention import KEEP_ALL, Retention
from millstream.protocol.streams import Stream
from millstream.protocol.trims import TrimRequest
from millstream.store.base import (
    NO_ATTRIBUTES,
    Appended,
    Committed,
    Configured,
    Created,
    Deleted,
    Dropped,
    Head,
    ManyDeleted,
    Page,
    Read,
    Staged,
    Trimmed,
)
from millstream.store.log.engine import LogEngine
from millstream.store.log.opening import folder_store
from millstream.store.memory import memory_store
from millstream.store.pending import Eventually, settled
from millstream.store.postgres.opening import postgres_store
from millstream.store.postgres.store import PostgresStore
from millstream.store.table import Table
from postgres.cluster import shared


def _postgres(folder: Path) -> PostgresStore:
    """Open the tables that all tests of this process use; a test with another folder finds them empty."""
    return postgres_store(shared().url_of(folder))


ENGINES: dict[str, Callable[[Path], Table | PostgresStore]] = {
    "memory": lambda _folder: memory_store(),
    "log": lambda folder: folder_store(folder, durable=False),
    "postgres": _postgres,
}
SURVIVE_RESTART = {"log", "postgres"}


def examples(kind: str) -> int:
    """Give how many histories of a state machine an engine is put through."""
    return int(os.environ.get("MILLSTREAM_EXAMPLES", "4" if kind == "postgres" else "40"))


TEXT = b"text/plain"
JSON = b"application/json"
PATIENCE_S = 60.0
NO_CHANGES: Changes = {}

T = TypeVar("T")


class Engine:
    """A store on an event loop of its own."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.survives_restart = kind in SURVIVE_RESTART
        self.now_ms = 1_000_000
        self.changes: list[str] = []
        self._open = lambda: ENGINES[kind](folder)
        self._runner = asyncio.Runner()
        self._start()

    def _start(self) -> None:
        self.store = self._open()
        self.store.listener = self.changes.append
        self._runner.run(self.store.open())

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self.store.close())
        self._runner.close()

    def restart(self) -> None:
        """Close the engine and open it again, if it is one that keeps what it has."""
        if self.survives_restart:
            self._runner.run(self.store.close())
            self._start()

    def crash(self) -> None:
        """Leave the engine as a killed process does, and open what it left."""
        if self.log is not None:
            abandon(self.log)
        self.restart()

    @property
    def log(self) -> LogEngine | None:
        """The durable engine, if it is that one."""
        engine = None if isinstance(self.store, PostgresStore) else self.store.engine
        return engine if isinstance(engine, LogEngine) else None

    def wait(self, decision: Eventually[T]) -> T:
        return self._runner.run(settled(decision))

    def until(self, condition: Callable[[], bool]) -> None:
        """Let the engine work until something is so."""
        give_up_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up_s, "the engine did not get there"
            self._runner.run(asyncio.sleep(0.001))

    # -- The contract, with less to type ---------------------------------------------------------

    def create(
        self,
        name: str,
        body: bytes = b"",
        *,
        content_type: bytes | None = TEXT,
        closed: bool = False,
        lifetime: Lifetime = FOREVER,
        retention: Retention = KEEP_ALL,
        attributes: Changes = NO_CHANGES,
    ) -> Created:
        request = CreateRequest(
            body=body,
            content_type=content_type,
            closed=closed,
            lifetime=lifetime,
            retention=retention,
            attributes=attributes,
        )
        return self._created(name, request)

    def fork(
        self,
        name: str,
        source: str,
        offset: int | None = None,
        sub_offset: int = 0,
        *,
        body: bytes = b"",
        content_type: bytes | None = None,
        closed: bool = False,
        lifetime: Lifetime = FOREVER,
        retention: Retention = KEEP_ALL,
        attributes: Changes = NO_CHANGES,
    ) -> Created:
        request = CreateRequest(
            body, content_type, closed, lifetime, source, offset, sub_offset, retention, attributes
        )
        return self._created(name, request)

    def _created(self, name: str, request: CreateRequest) -> Created:
        # An engine decides when it is asked, so a refusal by exception comes at once as well.
        async def create() -> Created:
            return await settled(self.store.create(name, request, self.now_ms))

        return _raised(self._runner.run(create()))

    def append(
        self,
        name: str,
        data: bytes = b"",
        *,
        content_type: bytes = TEXT,
        closes: bool = False,
        stamp: Stamp | None = None,
        seq: bytes | None = None,
        expected: int | None = None,
    ) -> Appended:
        if content_type == JSON and data:
            data = json_frames.frame(data)
        request = AppendRequest(data, content_type, closes, stamp, seq, _condition(expected))

        async def append() -> Appended:
            return await settled(self.store.append(name, request, self.now_ms))

        return self._runner.run(append())

    def stage(
        self,
        name: str,
        id: str,
        data: bytes,
        *,
        content_type: bytes = TEXT,
        max_staged_bytes: int = 2**30,
    ) -> Staged:
        if content_type == JSON:
            data = json_frames.frame(data)
        request = StageRequest(id, data, content_type)

        async def stage() -> Staged:
            return await settled(self.store.stage(name, request, max_staged_bytes, self.now_ms))

        return self._runner.run(stage())

    def commit(
        self,
        name: str,
        *ids: str,
        closes: bool = False,
        stamp: Stamp | None = None,
        seq: bytes | None = None,
        expected: int | None = None,
        fingerprint: str | None = None,
    ) -> Committed:
        request = CommitRequest(list(ids), closes, stamp, seq, _condition(expected), fingerprint)

        async def commit() -> Committed:
            return await settled(self.store.commit(name, request, self.now_ms))

        return self._runner.run(commit())

    def drop_part(self, name: str, id: str) -> Dropped:
        async def drop() -> Dropped:
            return await settled(self.store.drop_part(name, id, self.now_ms))

        return self._runner.run(drop())

    def configure(self, name: str, **fields: str) -> Configured:
        """Change a stream by the headers of a PATCH, without their beginning `Stream-`."""
        named = {f"stream-{name.replace('_', '-')}".encode(): text.encode() for name, text in fields.items()}

        async def configure() -> Configured:
            return await settled(self.store.configure(name, parse_configure(named, b""), self.now_ms))

        return _raised(self._runner.run(configure()))

    def trim(self, name: str, before: int) -> Trimmed:
        async def trim() -> Trimmed:
            return await settled(self.store.trim(name, TrimRequest(before), self.now_ms))

        return self._runner.run(trim())

    def read(
        self,
        name: str,
        offset: int = START,
        *,
        max_bytes: int = 2**20,
        until: int | None = None,
        limit: int | None = None,
        peek: bool = False,
        held_bytes: int | None = None,
    ) -> Read:
        request = ReadRequest(offset=offset, until=until, limit=limit)

        async def read() -> Read:
            options = {"peek": peek, "held_bytes": held_bytes}
            return await settled(self.store.read(name, request, max_bytes, self.now_ms, **options))

        return self._runner.run(read())

    def read_from(
        self, name: str, origin: Origin, *, live: LiveMode = LiveMode.NO, times: bool = False
    ) -> Read:
        request = ReadRequest(origin=origin, live=live, times=times)

        async def read() -> Read:
            return await settled(self.store.read(name, request, 2**20, self.now_ms))

        return self._runner.run(read())

    def head(self, name: str) -> Head:
        async def head() -> Head:
            return copy.copy(await settled(self.store.head(name, self.now_ms)))

        return self._runner.run(head())

    def delete(self, name: str) -> Deleted:
        async def delete() -> Deleted:
            return await settled(self.store.delete(name, self.now_ms))

        return self._runner.run(delete())

    def delete_some(
        self,
        prefix: str = "/",
        *,
        glob: str = "",
        after: str = "",
        limit: int = 1000,
        may_delete: Callable[[str], bool] = lambda _name: True,
    ) -> ManyDeleted:
        request = DeletionRequest(prefix, glob, after, limit)

        async def delete() -> ManyDeleted:
            return await settled(self.store.delete_some(request, may_delete, self.now_ms))

        return self._runner.run(delete())

    def listing(
        self,
        prefix: str = "",
        *,
        glob: str | None = None,
        after: str = "",
        limit: int = 100,
        attributes: Mapping[str, str] = NO_ATTRIBUTES,
    ) -> Page:
        async def listing() -> Page:
            return await settled(self.store.listing(prefix, glob, after, limit, self.now_ms, attributes))

        return self._runner.run(listing())

    def expire(self) -> None:
        async def expire() -> None:
            has_more = self.store.expire(self.now_ms)
            while has_more:
                has_more = self.store.expire_more(self.now_ms)
            if isinstance(self.store, PostgresStore):
                await self.store.upkeep.finish()
                await self.store.shared.finish()

        self._runner.run(expire())

    def checkpoint(self) -> None:
        """Make an engine that has files write them, and remove those that it no longer needs."""
        if isinstance(self.store, PostgresStore):
            self._runner.run(self.store.upkeep.merge(2))
            self.store.cache.memory.drop_all()
            return
        engine = self.log
        if engine is not None:

            async def checkpoint() -> None:
                engine.checkpoint()

            self.until(lambda: not engine.checkpoints.under_way)  # it takes one by itself now and then
            self._runner.run(checkpoint())
            self.until(lambda: not engine.checkpoints.under_way and not engine.runtime.jobs)

    # -- What tests ask most ---------------------------------------------------------------------

    def chunk(self, name: str, offset: int = START, **bounds: int) -> Chunk:
        """Read, where a read must succeed."""
        found = self.read(name, offset, **bounds)
        assert isinstance(found, Chunk), found
        return found

    def content(self, name: str) -> bytes:
        """Read a whole stream."""
        found = self.chunk(name)
        assert found.up_to_date
        return found.data

    def stream(self, name: str) -> Stream:
        """Describe a stream that must be there."""
        found = self.head(name)
        assert isinstance(found, Stream), found
        return found

    def staged(self, name: str) -> list[str]:
        """Give the parts that a stream has staged, which a description of it need not have."""
        stream = self.stream(name)
        if isinstance(self.store, PostgresStore):
            sql = "SELECT part FROM parts WHERE stream_id = $1 ORDER BY number"
            asked = self.store._database.ask(lambda connection: connection.fetch(sql, stream.id))
            return [part for (part,) in self._runner.run(asked)]
        return list(stream.staged.parts) if stream.staged is not None else []

    def names(self, prefix: str = "") -> list[str]:
        return [stream.name for stream in self.listing(prefix).streams]


def _raised(decision: T) -> T:
    """Raise a refusal of what is malformed, which an engine that decides later can only return."""
    if isinstance(decision, MalformedError):
        raise decision
    return decision


def created(decision: Created) -> Stream:
    """Give the stream that a creation must have made."""
    assert isinstance(decision, Create), decision
    return msgspec.structs.replace(decision.stream)


def _condition(expected: int | None) -> Condition | None:
    return Condition(expected, None) if expected is not None else None
