"""Writing: the changes of a round, as one statement or, where rows are locked, as a few in one transaction.

        WITH locked   what the round has decided, for the streams that still have the version that it was
                      decided on, and that nobody is changing: to wait for others, with rows locked, would
                      end in deadlocks
             changed  their rows are updated
             written  rows of content, of those streams only
             recorded what subscriptions have to hear of, if there are any
             used     their producers, where appends are stamped, and those that were forgotten for them
        SELECT which were changed, and notify other servers

A stream that another server has changed meanwhile is left out, together with all that belongs to it; the
others are not affected.
"""

from itertools import islice
from typing import Any

from millstream.protocol.producers import ProducerState
from millstream.protocol.retention import needed
from millstream.protocol.staging import PART_LIFETIME_MS
from millstream.protocol.streams import Stream
from millstream.store.postgres.arguments import JoinedBytes, number_columns
from millstream.store.postgres.connections import Connection
from millstream.store.postgres.encoding import due_ms, encode_state
from millstream.store.postgres.loaded.content import StoredPart
from millstream.store.postgres.new_rows import new_rows
from millstream.store.postgres.notices import encode_notice
from millstream.store.postgres.subscribing.changes import encode_changes
from millstream.store.postgres.workspace import Change

_CONTENT = """
WITH locked AS (
    SELECT w.*
    FROM unnest($1::text::bigint[], $2::text::bigint[], $3::text::bigint[], $4::text::bigint[],
            $5::text::bigint[], $6::text::bigint[], $7::text::int[], $8::text::int[])
        AS w(id, version, due_ms, parts_due_ms, appends, parts_next, begins, size)
    JOIN streams s ON s.id = w.id AND s.version = w.version
    FOR UPDATE OF s SKIP LOCKED
), changed AS (
    UPDATE streams s SET version = w.version + 1, due_ms = w.due_ms, appends = w.appends,
        state = substring($9::bytea FROM w.begins FOR w.size), parts_next = w.parts_next,
        parts_due_ms = CASE WHEN $10 THEN w.parts_due_ms ELSE s.parts_due_ms END
    FROM locked w WHERE s.id = w.id
    RETURNING s.id
), written AS (
    INSERT INTO stream_rows (stream_id, start, "end", first, last_ms, index, data)
    SELECT r.id, r.start, r."end", r.first, r.last_ms, substring($9 FROM r.begins FOR r.size),
        substring($9 FROM r.begins + r.size FOR (r."end" - r.start)::int)
    FROM unnest($11::text::bigint[], $12::text::bigint[], $13::text::bigint[], $14::text::bigint[],
            $15::text::bigint[], $16::text::int[], $17::text::int[])
        AS r(id, start, "end", first, last_ms, begins, size)
    WHERE r.id IN (SELECT id FROM changed)
), recorded AS (
    INSERT INTO stream_changes (changed, entries)
    SELECT array_agg(id), $19 FROM (SELECT id FROM changed UNION ALL SELECT unnest($18::bigint[])) AS c(id)
    WHERE $19::bytea IS NOT NULL AND EXISTS (SELECT FROM subscription_rows WHERE key >= 's' AND key < 't')
    HAVING count(*) > 0
"""
_PRODUCERS = """
), used AS (
    INSERT INTO producers (stream_id, producer, epoch, seq, used_ms, used_order)
    SELECT p.id, substring($9 FROM p.begins FOR p.size), p.epoch, p.seq, p.used_ms, p.used_order
    FROM unnest($22::text::bigint[], $23::text::bigint[], $24::text::bigint[], $25::text::bigint[],
            $26::text::bigint[], $27::text::int[], $28::text::int[])
        AS p(id, epoch, seq, used_ms, used_order, begins, size)
    WHERE p.id IN (SELECT id FROM changed)
    ON CONFLICT (stream_id, producer) DO UPDATE SET epoch = EXCLUDED.epoch, seq = EXCLUDED.seq,
        used_ms = EXCLUDED.used_ms, used_order = EXCLUDED.used_order
), forgotten AS (
    DELETE FROM producers p USING unnest($29::bigint[], $30::bytea[]) AS f(id, producer)
    WHERE p.stream_id = f.id AND p.producer = f.producer AND f.id IN (SELECT id FROM changed)
"""
_END = """
)
SELECT array_agg(id), pg_notify($20, $21) FROM changed
"""
_CHANGE = _CONTENT + _END
_CHANGE_STAMPED = _CONTENT + _PRODUCERS + _END
_CREATE = """
    INSERT INTO streams (id, name, version, appends, parts_next, state)
    SELECT id, name, 0, 0, 0, '' FROM unnest($1::bigint[], $2::text[]) AS n(id, name)
"""
_STAGE = """
    INSERT INTO parts (stream_id, number, part, staged_ms, data)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[])
"""
_COMMIT_PART = """
    INSERT INTO stream_rows (stream_id, start, "end", first, last_ms, index, data)
    SELECT stream_id, $3, $4, $5, $6, $7, data FROM parts WHERE stream_id = $1 AND number = $2
"""
_TRIM = """
    DELETE FROM stream_rows WHERE stream_id = $1 AND start < $2
        AND NOT EXISTS (SELECT FROM unnest($3::bigint[], $4::bigint[]) AS k(first, last)
                        WHERE start < k.last AND "end" > k.first)
"""


class Writer:
    """Writes the changes of rounds, and records them for subscriptions."""

    def __init__(self, *, records: bool = True) -> None:
        self.channel = ""
        self.sender = ""
        self._records = records

    async def write(self, connection: Connection, changes: list[Change], *, is_locked: bool) -> set[int]:
        """Write changes, and give the ids of the streams that were changed."""
        living = [change for change in changes if not change.is_gone]
        gone = [change for change in changes if change.is_gone and not change.is_new]
        if is_locked:
            await self._remove(connection, gone)
            await self._create(connection, [change for change in living if change.is_new])
            await self._stage(connection, living)
        changed = await self._change(connection, living, gone, is_locked=is_locked)
        if is_locked:
            await self._release(connection, living)
            await self._trim(connection, living)
        return changed

    async def _change(
        self, connection: Connection, living: list[Change], gone: list[Change], *, is_locked: bool
    ) -> set[int]:
        living.sort(key=_id)
        joined = JoinedBytes()
        states: list[tuple[int | None, ...]] = []
        rows: list[tuple[int, ...]] = []
        used: list[tuple[int, ...]] = []
        forgotten: list[tuple[int, bytes]] = []
        for change in living:
            stream, content = change.entry.stream, change.content
            state = encode_state(stream)
            states.append(
                (
                    stream.id,
                    change.version,
                    due_ms(stream),
                    _parts_due_ms(stream),
                    content.appends,
                    stream.staged.count if stream.staged is not None else 0,
                    joined.add(state),
                    len(state),
                )
            )
            change.rows = new_rows(content)
            for new in change.rows:
                row, index = new.row, new.row.index
                values = (stream.id, row.start, row.end, row.first, new.last_ms)
                if isinstance(new.data, StoredPart):
                    part = (stream.id, new.data.number, *values[1:], index)
                    await connection.execute(_COMMIT_PART, *part)
                else:
                    rows.append((*values, joined.add(index), len(index)))
                    joined.add(new.data)
            if change.producers:
                known = stream.producers or {}
                for order, id in enumerate(_last_used(known, change.producers)):
                    turn = (change.version + 1 << 16) + order
                    last = known[id]
                    used.append(
                        (stream.id, last.epoch, last.seq, last.used_ms, turn, joined.add(id), len(id))
                    )
                forgotten += [(stream.id, id) for id in change.producers if id not in known]
        arguments = (
            *number_columns(states, 8),
            joined.join(),
            is_locked,
            *number_columns(rows, 7),
            [change.entry.stream.id for change in gone],
            encode_changes((*living, *gone)) if self._records else None,
            self.channel,
            encode_notice(self.sender, [*living, *gone]),
        )
        if used or forgotten:
            producers = (*number_columns(used, 7), *_columns(forgotten, 2))
            found = await connection.fetchrow(_CHANGE_STAMPED, *arguments, *producers)
        else:
            found = await connection.fetchrow(_CHANGE, *arguments)
        return set(found[0] or ())

    async def _create(self, connection: Connection, new: list[Change]) -> None:
        if new:
            ids = [change.entry.stream.id for change in new]
            await connection.execute(_CREATE, ids, [change.entry.stream.name for change in new])

    async def _remove(self, connection: Connection, gone: list[Change]) -> None:
        if gone:
            ids = [change.entry.stream.id for change in gone]
            await connection.execute("DELETE FROM streams WHERE id = ANY($1)", ids)
            await connection.execute("INSERT INTO ended_streams SELECT * FROM unnest($1::bigint[])", ids)

    async def _stage(self, connection: Connection, living: list[Change]) -> None:
        rows = []
        for change in living:
            stream = change.entry.stream
            for stage in change.staged:
                part = stream.staged.parts.get(stage.id) if stream.staged is not None else None
                if part is not None:  # else it was dropped again
                    rows.append((stream.id, part.number, stage.id, part.staged_ms, stage.data))
        if rows:
            await connection.execute(_STAGE, *_columns(rows, 5))

    async def _release(self, connection: Connection, living: list[Change]) -> None:
        for change in living:
            id = change.entry.stream.id
            if change.drops_parts:
                await connection.execute("DELETE FROM parts WHERE stream_id = $1", id)
            elif change.released:
                sql = "DELETE FROM parts WHERE stream_id = $1 AND number = ANY($2)"
                await connection.execute(sql, id, change.released)

    async def _trim(self, connection: Connection, living: list[Change]) -> None:
        for change in living:
            if change.is_trimmed:
                stream = change.entry.stream
                kept = list(needed(stream.start, stream.tail, stream.shared))
                await connection.execute(_TRIM, stream.id, stream.start, *_columns(kept, 2))


def _id(change: Change) -> int:
    return change.entry.stream.id


def _parts_due_ms(stream: Stream) -> int | None:
    if stream.staged is None or not stream.staged.parts:
        return None
    return min(part.staged_ms for part in stream.staged.parts.values()) + PART_LIFETIME_MS


def _last_used(known: dict[bytes, ProducerState], used: set[bytes]) -> list[bytes]:
    """Give the producers of a round in the order of their last use: they come after all others."""
    found = [id for id in islice(reversed(known), len(used)) if id in used]
    return found[::-1]


def _columns(rows: list[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]
