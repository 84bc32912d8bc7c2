"""Upkeep: what is due now and then, done by whichever server comes first.

        due        streams whose time is over end, others are trimmed, old parts are dropped
        merging    rows that hold few bytes become one, so that catching up reads few rows
        removing   rows of streams that are gone, some thousand at a time

Each is one transaction under a lock that another server does not wait for.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from millstream.store.postgres.connections import AGAIN, LOST, Connection, Database, UnreachableError
from millstream.store.postgres.encoding import Row, encode_index
from millstream.store.postgres.new_rows import MAX_ROW_BYTES
from millstream.store.postgres.rounds import Rounds

_DUE_AT_ONCE: Final = 64
_REMOVED_AT_ONCE: Final = 2000
_MERGED_ROWS: Final = 500
_FEW_ROWS: Final = 64  # small rows of one stream that are not worth merging
_SMALL_BYTES: Final = 64 * 2**10
_MERGE_INTERVAL_S: Final = 2.0
_MERGE_LOCK: Final = 0x6D73_0003

_DUE = """
    (SELECT name FROM streams WHERE due_ms <= $1 ORDER BY due_ms LIMIT $2)
    UNION (SELECT name FROM streams WHERE parts_due_ms <= $1 ORDER BY parts_due_ms LIMIT $2)
"""
_REMOVE = """
    DELETE FROM {table} WHERE ctid = ANY(ARRAY(
        SELECT r.ctid FROM {table} r
        WHERE r.stream_id IN (SELECT stream_id FROM ended_streams ORDER BY 1 LIMIT 100)
        LIMIT $1 FOR UPDATE SKIP LOCKED))
"""
_REMOVED = """
    DELETE FROM ended_streams e WHERE NOT EXISTS (SELECT FROM stream_rows r WHERE r.stream_id = e.stream_id)
        AND NOT EXISTS (SELECT FROM parts p WHERE p.stream_id = e.stream_id)
        AND NOT EXISTS (SELECT FROM producers p WHERE p.stream_id = e.stream_id)
        AND e.stream_id IN (SELECT stream_id FROM ended_streams ORDER BY 1 LIMIT 100)
"""
_SMALL_ROWS = """
    SELECT start, "end", first, last_ms, index, data FROM stream_rows
    WHERE stream_id = $1 AND start >= $2 AND "end" - start < $3 ORDER BY start LIMIT $4 FOR UPDATE
"""
_LOCK = "SELECT pg_try_advisory_xact_lock($1, hashtext(current_schema()))"

_log = logging.getLogger("millstream")


class Upkeep:
    """Does what is due."""

    def __init__(self, database: Database, rounds: Rounds) -> None:
        self._database = database
        self._rounds = rounds
        self._running: asyncio.Task[None] | None = None
        self._to_merge: dict[int, tuple[int, int]] = {}  # by stream: small rows written here, from where on
        self._merged_s = 0.0
        self._may_have_ended = True

    # -- What rounds tell --------------------------------------------------------------------------

    def note_written(self, stream_id: int, start: int, size: int) -> None:
        """Note that a small row was written; some of them are worth merging."""
        if size < _SMALL_BYTES:
            count, first = self._to_merge.get(stream_id, (0, start))
            self._to_merge[stream_id] = count + 1, first

    def note_ended(self) -> None:
        """Note that rows of streams that are gone can be removed."""
        self._may_have_ended = True

    # -- Now and then ------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """Do what is due, unless it is being done."""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run(now_ms))

    async def finish(self) -> None:
        """Wait for what is under way."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self, now_ms: int) -> None:
        try:
            await self.look_after_due(now_ms)
            now_s = asyncio.get_running_loop().time()
            if now_s - self._merged_s > _MERGE_INTERVAL_S:
                self._merged_s = now_s
                await self.merge()
            if self._may_have_ended:
                await self.remove_ended()
        except (UnreachableError, *LOST, *AGAIN) as error:
            self._database.note_lost(error)
        except Exception:
            _log.exception("upkeep failed; it will run again")

    async def look_after_due(self, now_ms: int) -> None:
        """End, trim, and drop what has waited too long."""
        before: set[str] = set()
        while True:
            rows = await self._database.ask(lambda connection: connection.fetch(_DUE, now_ms, _DUE_AT_ONCE))
            names = [row[0] for row in rows]
            if not names or before.issuperset(names):  # what stays due is tried again at the next tick
                return
            before = set(names)
            await self._rounds.submit(
                names, partial(_look_after, names, now_ms), is_exclusive=True, is_upkeep=True
            )

    async def remove_ended(self) -> None:
        """Remove the rows of streams that are gone."""

        async def remove(connection: Connection) -> int:
            removed = 0
            for table in ("stream_rows", "parts", "producers"):
                status = await connection.execute(_REMOVE.format(table=table), _REMOVED_AT_ONCE)
                removed += int(status.rpartition(" ")[2])
            if not removed:
                status = await connection.execute(_REMOVED)
                removed = int(status.rpartition(" ")[2])
            return removed

        while await self._database.ask(remove):
            pass
        self._may_have_ended = False

    async def merge(self, at_least: int = _FEW_ROWS) -> None:
        """Merge small rows of streams that this server has written to."""
        for stream_id, (count, start) in list(self._to_merge.items()):
            if count < at_least:
                continue
            del self._to_merge[stream_id]
            left = await self._database.ask(partial(self._merge_some, stream_id=stream_id, start=start))
            while left is not None:
                left = await self._database.ask(partial(self._merge_some, stream_id=stream_id, start=left))

    async def _merge_some(self, connection: Connection, stream_id: int, start: int) -> int | None:
        """Merge rows from a position on, and give where to go on; None when there are no more."""
        async with connection.transaction():
            if not await connection.fetchval(_LOCK, _MERGE_LOCK):
                return None
            rows = await connection.fetch(_SMALL_ROWS, stream_id, start, _SMALL_BYTES, _MERGED_ROWS)
            joined = _adjacent(rows)
            if len(joined) > 1:
                index, data = _merged(joined)
                first, last = joined[0], joined[-1]
                starts = [row[0] for row in joined[1:]]
                sql = "DELETE FROM stream_rows WHERE stream_id = $1 AND start = ANY($2)"
                await connection.execute(sql, stream_id, starts)
                sql = (
                    'UPDATE stream_rows SET "end" = $3, last_ms = $4, index = $5, data = $6 '
                    "WHERE stream_id = $1 AND start = $2"
                )
                await connection.execute(sql, stream_id, first[0], last[1], last[3], index, data)
            is_last = not joined or joined[-1][0] == rows[-1][0]
            return None if is_last and len(rows) < _MERGED_ROWS else joined[-1][1]


def _look_after(names: list[str], now_ms: int, table: "Callable[..., None]") -> None:
    table.look_after(names, now_ms)  # type: ignore[attr-defined]  # a `Deciding`


def _adjacent(
    rows: list[tuple[int, int, int, int, bytes, bytes]],
) -> list[tuple[int, int, int, int, bytes, bytes]]:
    """Give the first rows that follow each other without a gap, and are not too large together."""
    joined: list[tuple[int, int, int, int, bytes, bytes]] = []
    size = 0
    for row in rows:
        size += row[1] - row[0]
        if joined and (joined[-1][1] != row[0] or size > MAX_ROW_BYTES):
            break
        joined.append(row)
    return joined


def _merged(rows: list[tuple[int, int, int, int, bytes, bytes]]) -> tuple[bytes, bytes]:
    sizes: list[int] = []
    times: list[int] = []
    for start, end, first, _, index, _ in rows:
        row = Row(start, end, first, index)
        sizes += [stop - begin for begin, stop in zip([start, *row.ends], row.ends, strict=False)]
        times += row.times
    return encode_index(sizes, times), b"".join([row[5] for row in rows])
