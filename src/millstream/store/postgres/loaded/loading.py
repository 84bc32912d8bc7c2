"""Loading: streams, rows, producers and parts, from the database into the cache.

A stream is loaded with the ancestors that hold what it inherited. Under a lock (`for_update`) all of them
are locked, in the order of their ids, until the transaction ends.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from millstream.protocol.producers import ProducerState
from millstream.protocol.staging import Part, Staged
from millstream.protocol.streams import Stream
from millstream.store.postgres.connections import Connection
from millstream.store.postgres.encoding import Row, decode_state
from millstream.store.postgres.loaded.cache import Saved, StreamCache, StreamRow
from millstream.store.postgres.loaded.content import (
    ByNumber,
    Bytes,
    ByTime,
    PartData,
    ProducersOf,
    RowContent,
    StoredPart,
    Wanted,
)

READ_BYTES: Final = 2**20
"""How much content is loaded at once: what most reads ask for, in one query."""
MAX_ROWS: Final = 4096

_STREAMS = "SELECT id, name, version, appends, parts_next, state FROM streams WHERE {} = ANY($1) ORDER BY id"
ROWS = """
    SELECT start, "end", first, index,
        substring(data FROM (greatest($2 - start, 0) + 1)::int
                  FOR greatest(least("end", $3) - greatest(start, $2), 0)::int)
    FROM stream_rows
    WHERE stream_id = $1 AND start < $3 AND start >=
        coalesce((SELECT max(start) FROM stream_rows WHERE stream_id = $1 AND start <= $2), 0)
    ORDER BY start LIMIT $4
"""
_ROW = 'SELECT start, "end", first, index FROM stream_rows WHERE stream_id = $1'
_PRODUCERS = """
    SELECT s.version, p.producer, p.epoch, p.seq, p.used_ms
    FROM streams s LEFT JOIN producers p ON p.stream_id = s.id
    WHERE s.id = $1 ORDER BY p.used_order, p.producer
"""
_PARTS = """
    SELECT stream_id, number, part, length(data), staged_ms FROM parts
    WHERE stream_id = ANY($1) ORDER BY number
"""

T = TypeVar("T")

Ask = Callable[[Callable[[Connection], Awaitable[Any]]], Awaitable[Any]]
"""Asks a question, on any connection or on that of a transaction."""


class LostContentError(Exception):
    """Content that a stream should have is not there: it was trimmed or deleted meanwhile."""


class Loader:
    """Reads from the database into the cache."""

    def __init__(self, cache: StreamCache) -> None:
        self._cache = cache

    # -- Streams ---------------------------------------------------------------------------------

    async def refresh(self, ask: Ask, names: Iterable[str], *, for_update: bool = False) -> None:
        """Look streams up as they are now."""
        wanted = sorted(set(names))
        for _ in range(3):  # an ancestor may go between two queries, together with what needed it
            rows = await self._stream_rows(ask, "name", wanted, for_update)
            by_id = {row.id: row for row in rows}
            if await self._add_ancestors(ask, by_id, for_update):
                break
        else:
            rows = []
        for row in by_id.values() if rows else ():
            self._adopt(row, by_id)
        for name in set(wanted).difference(row.name for row in rows):
            self._cache.missing(name)

    async def _add_ancestors(self, ask: Ask, rows: dict[int, StreamRow], for_update: bool) -> bool:
        newest = list(rows.values())
        while sources := self._unknown_sources(newest, rows, for_update):
            newest = await self._stream_rows(ask, "id", sorted(sources), for_update)
            rows.update((row.id, row) for row in newest)
            if len(newest) < len(sources):
                return False
        return True

    def _unknown_sources(
        self, newest: list[StreamRow], rows: dict[int, StreamRow], for_update: bool
    ) -> set[int]:
        forks = (decode_state(row.state).fork for row in newest if for_update or not self._cache.knows(row))
        sources = {fork.source_id for fork in forks if fork is not None}.difference(rows)
        return sources if for_update else sources.difference(self._cache.by_id)

    def _adopt(self, row: StreamRow, rows: dict[int, StreamRow]) -> Saved:
        if self._cache.knows(row):
            return self._cache.touch(self._cache.by_id[row.id])
        stream = decode_state(row.state)
        source = self._source_of(stream, rows)
        return self._cache.adopt(row, stream, source.entry if source is not None else None)

    def _source_of(self, stream: Stream, rows: dict[int, StreamRow]) -> Saved | None:
        if stream.fork is None:
            return None
        row = rows.get(stream.fork.source_id)
        return self._adopt(row, rows) if row is not None else self._cache.by_id[stream.fork.source_id]

    async def _stream_rows(self, ask: Ask, key: str, values: list[Any], for_update: bool) -> list[StreamRow]:
        sql = _STREAMS.format(key) + (" FOR UPDATE" if for_update else "")
        return [StreamRow(*row) for row in await ask(lambda connection: connection.fetch(sql, values))]

    # -- What a decision has asked for -----------------------------------------------------------

    async def load(self, ask: Ask, wanted: Wanted) -> None:
        """Load something that a decision needs."""
        match wanted:
            case Bytes(content, start, end):
                await self._load_bytes(ask, content, start, max(end, start + READ_BYTES) + 1)
            case ByNumber(content, append):
                await self._load_by_number(ask, content, append)
            case ByTime(content, time_ms):
                await self._load_by_time(ask, content, time_ms)
            case ProducersOf(stream_id):
                await self._load_producers(ask, stream_id)
            case PartData(part):
                await self._load_part(ask, part)

    async def _load_bytes(self, ask: Ask, content: RowContent, start: int, end: int) -> None:
        question = partial(_fetch, sql=ROWS, values=(content.stream_id, start, end, MAX_ROWS))
        if not self.add_rows(content, start, await ask(question)):
            raise LostContentError

    def add_rows(self, content: RowContent, start: int, rows: list[Any]) -> bool:
        """Hold rows with their data from a position on, and tell whether that position is among them."""
        covered = False
        for row_start, row_end, first, index, data in rows:
            row = Row(row_start, row_end, first, index)
            if data:
                content.add(row, max(row_start, start), data)
            else:
                content.add_row(row)
            covered |= row_start <= start < row_end
        return covered

    async def _load_by_number(self, ask: Ask, content: RowContent, append: int) -> None:
        sql = f"{_ROW} AND first <= $2 ORDER BY start DESC LIMIT 1"
        rows = await ask(partial(_fetch, sql=sql, values=(content.stream_id, append)))
        if not rows:
            earliest = f"{_ROW} ORDER BY start LIMIT 1"
            rows = await ask(partial(_fetch, sql=earliest, values=(content.stream_id,)))
            if not rows:
                raise LostContentError
            content.add_earliest(Row(*rows[0]))
        content.add_row(Row(*rows[0]))

    async def _load_by_time(self, ask: Ask, content: RowContent, time_ms: int) -> None:
        sql = f"{_ROW} AND last_ms >= $2 ORDER BY start LIMIT 1"
        count = content.appends
        rows = await ask(partial(_fetch, sql=sql, values=(content.stream_id, time_ms)))
        if rows:
            row = Row(*rows[0])
            content.add_row(row)
            count = row.first + bisect_left(row.times, time_ms)
        content.add_count(time_ms, count)

    async def _load_producers(self, ask: Ask, stream_id: int) -> None:
        rows = await ask(partial(_fetch, sql=_PRODUCERS, values=(stream_id,)))
        saved = self._cache.by_id.get(stream_id)
        if saved is None:
            return
        if not rows or rows[0][0] != saved.version:
            saved.is_stale = True  # they are of another version than the stream
            return
        saved.entry.stream.producers = {
            id: ProducerState(epoch, seq, used_ms) for _, id, epoch, seq, used_ms in rows if id is not None
        }

    async def _load_part(self, ask: Ask, part: StoredPart) -> None:
        sql = "SELECT data FROM parts WHERE stream_id = $1 AND number = $2"
        rows = await ask(partial(_fetch, sql=sql, values=(part.stream_id, part.number)))
        if not rows:
            raise LostContentError
        part.data = rows[0][0]

    async def parts(self, ask: Ask, ids: list[int]) -> "dict[int, LoadedParts]":
        """Load which parts streams have staged, without their bytes."""
        found: dict[int, LoadedParts] = {}
        for stream_id, number, id, size, staged_ms in await ask(partial(_fetch, sql=_PARTS, values=(ids,))):
            loaded = found.setdefault(stream_id, LoadedParts())
            loaded.staged.parts[id] = Part(number, size, staged_ms)
            loaded.staged.size += size
            loaded.pieces[number] = StoredPart(stream_id, number, size)
        return found


class LoadedParts(msgspec.Struct):
    """The parts of one stream, and where their bytes are."""

    staged: Staged = msgspec.field(default_factory=Staged)
    pieces: dict[int, StoredPart] = msgspec.field(default_factory=dict)


async def _fetch(connection: Connection, sql: str, values: tuple[Any, ...]) -> list[Any]:
    return list(await connection.fetch(sql, *values))
