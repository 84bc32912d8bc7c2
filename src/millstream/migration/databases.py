"""PostgreSQL as one end of a migration.

As a source, everything is read in one transaction, so it is the state of one moment, even if servers write
meanwhile. As a destination, streams are written with the state that they are to have, some of them in one
transaction; a kill leaves those that were committed. Rows of content are those that servers write
(`store.postgres.encoding`).
"""

from array import array
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg

from millstream.migration import records
from millstream.migration.records import Batch
from millstream.protocol.producers import ProducerState
from millstream.protocol.streams import Stream
from millstream.store.base import StoreError
from millstream.store.postgres.connections import LOST, Connection
from millstream.store.postgres.encoding import Row, decode_state, due_ms, encode_index, encode_state
from millstream.store.postgres.schema import MIGRATION, apply_schema

_CONNECT_S: Final = 10.0
_PAGE: Final = 500
_ROWS: Final = 8  # each of up to 1 MiB, or one append
FLUSH_BYTES: Final = 16 * 2**20
FLUSH_STREAMS: Final = 500

_STREAMS = "SELECT id, state FROM streams WHERE id > $1 ORDER BY id LIMIT $2"
_PRODUCERS = """
    SELECT stream_id, producer, epoch, seq, used_ms FROM producers
    WHERE stream_id = ANY($1) ORDER BY stream_id, used_order, producer
"""
_CONTENT = """
    SELECT start, "end", first, index, data FROM stream_rows
    WHERE stream_id = $1 AND "end" > $2 AND start < $3
    AND start >= coalesce((SELECT max(start) FROM stream_rows WHERE stream_id = $1 AND start <= $2), 0)
    ORDER BY start LIMIT $4
"""
_ADD_ROW = """
    INSERT INTO stream_rows (stream_id, start, "end", first, last_ms, index, data)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
_ADD_STREAM = """
    INSERT INTO streams (id, name, version, appends, parts_next, state) VALUES ($1, $2, 1, $3, 0, $4)
"""
_SET_STREAM = """
    UPDATE streams SET version = version + 1, due_ms = $2, appends = $3, state = $4 WHERE id = $1
"""
_ADD_PRODUCERS = """
    INSERT INTO producers (stream_id, producer, epoch, seq, used_ms, used_order)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (stream_id, producer) DO UPDATE SET epoch = EXCLUDED.epoch, seq = EXCLUDED.seq,
        used_ms = EXCLUDED.used_ms, used_order = EXCLUDED.used_order
"""
_IS_TAKEN = """
    SELECT EXISTS (SELECT FROM streams WHERE id = $1)
        OR EXISTS (SELECT FROM ended_streams WHERE stream_id = $1)
"""
_HAS_ROWS = "SELECT to_regclass('subscription_rows')"
_KEEP_ROW = """
    INSERT INTO subscription_rows (key, value) VALUES ($1, $2)
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value
"""
_AFTER_IDS = "SELECT setval('stream_ids', greatest($1::bigint, (SELECT last_value FROM stream_ids)))"


class Postgres:
    """A database."""

    is_exact = True

    def __init__(self, url: str, *, is_source: bool) -> None:
        place = urlsplit(url)
        port = f":{place.port}" if place.port else ""
        query = f"?{place.query}" if "password" not in place.query and place.query else ""
        self.name = f"{place.scheme}://{place.hostname or ''}{port}{place.path}{query}"
        self.not_kept: Counter[str] = Counter()
        self._url = url
        self._is_source = is_source
        self._connection: Connection = None
        self._transaction: Any = None
        self._appends = 0  # of the stream that is written
        self._unsaved_bytes = 0
        self._unsaved_streams = 0

    # -- Opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Connect; a source must have the tables, a destination gets them."""
        try:
            self._connection = await asyncpg.connect(self._url, timeout=_CONNECT_S)
            if self._is_source:
                if await self._connection.fetchval("SELECT to_regclass('millstream_schema')") is None:
                    raise StoreError(f"{self.name} has no streams: there are no tables of millstream")
                if await self._connection.fetchval("SELECT to_regclass($1)", MIGRATION) is not None:
                    raise StoreError(f"a migration into {self.name} is not finished; run that one again")
                self._transaction = self._connection.transaction(isolation="repeatable_read", readonly=True)
                await self._transaction.start()
            else:
                await apply_schema(self._connection)
        except LOST as error:
            raise StoreError(f"{self.name} cannot be reached: {error or type(error).__name__}") from None
        except (asyncpg.PostgresError, ValueError) as error:
            raise StoreError(f"{self.name} cannot be used: {error}") from None

    async def close(self) -> None:
        """Disconnect; what is not committed is not there."""
        if self._connection is not None:
            await self._connection.close(timeout=_CONNECT_S)

    # -- Reading ---------------------------------------------------------------------------------

    async def count(self) -> int:
        """Count the streams."""
        found: int = await self._connection.fetchval("SELECT count(*) FROM streams")
        return found

    async def streams(self) -> AsyncIterator[Stream]:
        """Give all streams in the order of their ids, which is that of their creation."""
        after = -1
        while rows := await self._connection.fetch(_STREAMS, after, _PAGE):
            for stream in await self._with_producers([decode_state(state) for _, state in rows]):
                yield stream
            after = rows[-1][0]

    async def _with_producers(self, streams: list[Stream]) -> list[Stream]:
        known: dict[int, dict[bytes, ProducerState]] = {stream.id: {} for stream in streams}
        for id, producer, *state in await self._connection.fetch(_PRODUCERS, list(known)):
            known[id][producer] = ProducerState(*state)
        for stream in streams:
            stream.producers = known[stream.id]
        return streams

    async def batches(self, stream: Stream, position: int) -> AsyncIterator[Batch]:
        """Give the content that is kept."""
        for start, end in records.kept(stream):
            at = max(start, position)
            while at < end:
                rows = await self._connection.fetch(_CONTENT, stream.id, at, end, _ROWS)
                if not rows or rows[0][0] > at:
                    raise StoreError(f"{self.name}: bytes of {stream.name} from {at} on are missing")
                for row in rows:
                    batch = _cut(row, at, end)
                    at = batch.end
                    yield batch

    async def completed(self, stream: Stream) -> Stream:
        """Give the stream: its state was known before it was read."""
        return stream

    async def rows(self) -> Mapping[str, bytes]:
        """Give the rows of subscriptions; a database that no newer version has used has no table for them."""
        if await self._connection.fetchval(_HAS_ROWS) is None:
            return {}
        rows = await self._connection.fetch("SELECT key, value FROM subscription_rows")
        return {key.decode(): value for key, value in rows}

    # -- Writing ---------------------------------------------------------------------------------

    @property
    def is_saved(self) -> bool:
        """Whether all that was written is committed."""
        return self._transaction is None

    async def is_begun(self, source: str) -> bool:
        """Look for the table that says so."""
        if await self._connection.fetchval("SELECT to_regclass($1)", MIGRATION) is None:
            return False
        other = await self._connection.fetchval(f"SELECT source FROM {MIGRATION}")
        if other != source:
            raise StoreError(
                f"{self.name}: a migration from {other} is not finished. Run that one again, or begin "
                "with an empty database."
            )
        return True

    async def begin(self, source: str) -> None:
        """Make that table."""
        async with self._connection.transaction():
            await self._connection.execute(f"CREATE TABLE {MIGRATION} (source text NOT NULL)")
            await self._connection.execute(f"INSERT INTO {MIGRATION} VALUES ($1)", source)

    async def end(self) -> None:
        """Drop that table; ids that servers give from now on are higher than those of all streams."""
        async with self._connection.transaction():
            highest = await self._connection.fetchval("SELECT max(id) FROM streams")
            await self._connection.fetchval(_AFTER_IDS, max(1, highest or 1))
            await self._connection.execute(f"DROP TABLE {MIGRATION}")

    async def find(self, name: str) -> Stream | None:
        """Find a stream of a name."""
        row = await self._connection.fetchrow("SELECT appends, state FROM streams WHERE name = $1", name)
        if row is None:
            return None
        self._appends = row[0]
        (stream,) = await self._with_producers([decode_state(row[1])])
        return stream

    async def free_id(self, wanted: int) -> int:
        """Give an id that no stream has."""
        if wanted and not await self._connection.fetchval(_IS_TAKEN, wanted):
            return wanted
        highest = await self._connection.fetchval("SELECT max(id) FROM streams")
        await self._connection.fetchval(_AFTER_IDS, max(1, highest or 1))
        free: int = await self._connection.fetchval("SELECT nextval('stream_ids')")
        return free

    async def create(self, stream: Stream) -> None:
        """Add a stream without content."""
        await self._begin_transaction()
        self._appends = records.beginning(stream)[1]
        await self._connection.execute(
            _ADD_STREAM, stream.id, stream.name, self._appends, encode_state(stream)
        )

    async def add(self, stream: Stream, batch: Batch) -> None:
        """Add a row of content."""
        await self._begin_transaction()
        first = max(batch.first, self._appends)  # what was cut in the middle is two appends by now
        index = encode_index(batch.sizes, list(batch.times))
        await self._connection.execute(
            _ADD_ROW, stream.id, batch.start, batch.end, first, batch.times[-1], index, batch.data
        )
        self._appends = first + len(batch.ends)
        self._unsaved_bytes += len(batch.data)
        if self._unsaved_bytes > FLUSH_BYTES:
            await self._set(records.unfinished(stream, batch.end))
            await self.flush()

    async def finish(self, stream: Stream) -> None:
        """Give the stream its state."""
        await self._begin_transaction()
        self._appends = max(self._appends, stream.first_append)
        await self._set(stream)
        producers = [
            (stream.id, id, state.epoch, state.seq, state.used_ms, order)
            for order, (id, state) in enumerate((stream.producers or {}).items())
        ]
        if producers:
            await self._connection.executemany(_ADD_PRODUCERS, producers)
        self._unsaved_streams += 1
        if self._unsaved_streams >= FLUSH_STREAMS or self._unsaved_bytes > FLUSH_BYTES:
            await self.flush()

    async def _set(self, stream: Stream) -> None:
        await self._connection.execute(
            _SET_STREAM, stream.id, due_ms(stream), self._appends, encode_state(stream)
        )

    async def _begin_transaction(self) -> None:
        if self._transaction is None:
            self._transaction = self._connection.transaction()
            await self._transaction.start()

    async def flush(self) -> None:
        """Commit."""
        if self._transaction is not None:
            await self._transaction.commit()
            self._transaction = None
        self._unsaved_bytes = self._unsaved_streams = 0

    async def keep(self, rows: Mapping[str, bytes]) -> None:
        """Keep the rows of subscriptions."""
        async with self._connection.transaction():
            await self._connection.executemany(
                _KEEP_ROW, [(key.encode(), value) for key, value in rows.items()]
            )
            await self._connection.execute("UPDATE subscription_state SET version = version + 1")


def _cut(row: Any, at: int, end: int) -> Batch:
    """Give the appends of a row from a position on that begin before an end."""
    start, row_end, first, index, data = row
    decoded = Row(start, row_end, first, index)
    starts = [start, *decoded.ends[:-1]]
    chosen = [number for number, begin in enumerate(starts) if begin < end and decoded.ends[number] > at]
    low, high = chosen[0], chosen[-1] + 1
    ends = array("Q", decoded.ends[low:high])
    return Batch(
        first + low,
        starts[low],
        ends,
        array("Q", decoded.times[low:high]),
        data[starts[low] - start : ends[-1] - start],
    )
