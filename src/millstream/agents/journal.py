"""A journal: a JSON stream whose records are numbered, written by any number of processes.

    {"n": 1, "id": "5f...", ...}   {"n": 2, "id": "c0...", ...}   {"n": 3, ...}

A writer reads up to record n, decides on that state, and appends record n + 1 with its number as
`Stream-Seq`. The server accepts each number once. Of two writers that decided on the same state one is
refused, reads what the other wrote, and decides again. That is a compare-and-set, without a lock and without
a limit on the number of writers.

It also makes retries safe. When the connection breaks, the writer looks for its record's id; if it is not
there it sends the record again with the same number, which the server cannot accept twice. A call that
failed is remembered until the next one: if that has the same content, it is a retry of the first, and is
stored once.

PROTOCOL.md 5.2 (`Stream-Seq`); rule A2.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from millstream.agents.backwards import BEGINNING, Message, Steps, backwards, read_from
from millstream.agents.opening import create
from millstream.client.aio.streams import DurableStream
from millstream.client.core.errors import (
    MillstreamError,
    SequenceConflictError,
    StreamNotFoundError,
    TransportError,
    UnexpectedStatusError,
)

_ATTEMPTS: Final = 5
_IN_DOUBT: Final = (None, 500, 502, 503, 504)
"""Statuses after which a record may have been stored; None where there was no response."""

_MAX_UNCHANGED: Final = 30
_PAUSE_S: Final = 0.01
_FOREIGN = "The stream has records that no journal wrote; give each session a stream of its own"


class MovedError(Exception):
    """The journal has further records: decide again on them."""


class _Draft(msgspec.Struct, frozen=True):
    """A record that is being appended, and which may have been stored."""

    id: str
    since: str
    content: bytes


class Journal:
    """Numbered records in one stream. `number` is the last record that was seen, 0 if there is none."""

    def __init__(self, stream: DurableStream, *, ttl_seconds: int | None = None) -> None:
        self.stream = stream
        self.number = 0
        self._offset = BEGINNING
        self._ttl_seconds = ttl_seconds
        self._steps = Steps()
        self._draft: _Draft | None = None
        self._unchanged = 0
        self._writing = asyncio.Lock()

    @property
    def offset(self) -> str:
        """Where the stream went on after the last record that was seen."""
        return self._offset

    async def read(self) -> AsyncGenerator[Message, None]:
        """Iterate over all records, from the first."""
        self._forget()
        async with contextlib.aclosing(self.read_after(BEGINNING)) as batches:
            async for records, _ in batches:
                for record in records:
                    yield record

    async def read_after(self, offset: str) -> AsyncGenerator[tuple[list[Message], str], None]:
        """Iterate over the records after an offset, some at a time, with the offset after them."""
        with contextlib.suppress(StreamNotFoundError):
            async with self.stream.stream(offset=offset, live=False) as response:
                async for batch in response.iter_json_batches():
                    self._saw(batch.items, batch.offset)
                    yield batch.items, batch.offset

    async def backwards(self) -> AsyncGenerator[list[Message], None]:
        """Iterate over lists of records, the last list first; each is in order."""
        is_last = True
        async for records, offset in backwards(self.stream, self._steps):
            if is_last:
                self._forget()
                self._saw(records, offset)
            is_last = False
            yield records
        if is_last:
            self._forget()

    async def last(self) -> Message | None:
        """Return the last record."""
        async with contextlib.aclosing(self.backwards()) as steps:
            async for records in steps:
                if records:
                    return records[-1]
        return None

    async def append(self, content: Message) -> int:
        """Append a record, after whatever others have written; return its number."""
        async with self._writing:
            draft = await self._begin(content)
            while True:
                with contextlib.suppress(MovedError):
                    return await self._store(draft, content, self.number)

    async def append_after(self, number: int, content: Message) -> int:
        """Append record `number + 1`; raise `MovedError` if there is one."""
        async with self._writing:
            try:
                return await self._store(await self._begin(content), content, number)
            except MovedError:
                self._draft = None  # it never will be stored: its number is taken
                raise

    async def settle(self, content: Message) -> bool:
        """Tell whether a call with this content, which failed, was stored all the same."""
        async with self._writing:
            draft = self._draft
            if draft is None or draft.content != msgspec.json.encode(content):
                return False
            stored = await self._find(draft)
            self._draft = None
            return stored is not None

    async def _begin(self, content: Message) -> _Draft:
        encoded = msgspec.json.encode(content)  # its lists may be changed before the next call
        if self._draft is None or self._draft.content != encoded:
            if self._offset == BEGINNING:
                await self.last()
            self._draft = _Draft(uuid.uuid4().hex, self._offset, encoded)
        return self._draft

    async def _store(self, draft: _Draft, content: Message, after: int) -> int:
        record = {"n": after + 1, "id": draft.id, **content}
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                stored: int | None = await self._send(record)
            except SequenceConflictError:
                stored = await self._find(draft)
                if stored is None:
                    await self._moved(after)
                    raise MovedError from None
            except (TransportError, UnexpectedStatusError) as error:
                stored = await self._find(draft)
                if stored is None and (attempt == _ATTEMPTS or error.status not in _IN_DOUBT):
                    raise
            if stored is not None:
                self._draft = None
                return stored
        raise AssertionError("unreachable")

    async def _send(self, record: Message) -> int:
        number: int = record["n"]
        seq = f"{number:016d}"
        try:
            result = await self.stream.append(record, seq=seq)
        except StreamNotFoundError:
            await create(self.stream, self._ttl_seconds)
            result = await self.stream.append(record, seq=seq)
        self._saw([record], result.next_offset)
        return number

    async def _moved(self, after: int) -> None:
        """Wait if nothing new is to be seen: another's record may be accepted, but not durable yet."""
        self._unchanged = 0 if self.number > after else self._unchanged + 1
        if self._unchanged > _MAX_UNCHANGED:
            self._unchanged = 0
            raise MillstreamError(_FOREIGN, url=self.stream.url)
        await asyncio.sleep(self._unchanged * _PAUSE_S)

    async def _find(self, draft: _Draft) -> int | None:
        """Read what was written since a draft was made; return the number under which it was stored."""
        records, offset = await read_from(self.stream, draft.since)
        if not records:  # or the stream was deleted and created again
            self._forget()
            await self.last()
        self._saw(records, offset)
        return next((record["n"] for record in records if record["id"] == draft.id), None)

    def _saw(self, records: list[Message], offset: str) -> None:
        for record in records:
            if not isinstance(record, dict) or "n" not in record:
                raise MillstreamError(_FOREIGN, url=self.stream.url)
        if records and offset > self._offset:
            self.number, self._offset = records[-1]["n"], offset

    def _forget(self) -> None:
        self.number, self._offset = 0, BEGINNING
