"""Writing: the changes of a round, as one statement or, where rows are locked, as a few in one transaction.

        WITH wanted   what the round has decided, with the versions that it was decided on
             locked   the streams that still have these versions, and that nobody is changing: to wait for
                      others, with rows locked, would end in deadlocks
             changed  their rows are updated
             ...      rows of content and producers, of those streams only
             recorded what subscriptions have to hear of, if there are any
        SELECT which were changed, and notify other servers

A stream that another server has changed meanwhile is left out, together with all that belongs to it; the
others are not affected.
"""

from typing import Any, Final

import msgspec

from millstream.protocol.retention import needed
from millstream.protocol.staging import PART_LIFETIME_MS
from millstream.store.pieces import Piece
from millstream.store.postgres.connections import Connection
from millstream.store.postgres.encoding import Row, decode_row, due_ms, encode_index, encode_state
from millstream.store.postgres.loaded.content import StoredPart
from millstream.store.postgres.notices import encode_notice
from millstream.store.postgres.subscribing.changes import encode_changes
from millstream.store.postgres.workspace import Change

MAX_ROW_BYTES: Final = 2**20
"""A row that would be larger is begun anew; one append is never cut."""

_CHANGE = """
WITH wanted AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
            $5::bigint[], $6::bigint[], $7::bytea[])
        AS w(id, version, due_ms, parts_due_ms, appends, parts_next, state)
), locked AS (
    SELECT s.id FROM streams s JOIN wanted w ON s.id = w.id AND s.version = w.version
    FOR UPDATE OF s SKIP LOCKED
), changed AS (
    UPDATE streams s SET version = w.version + 1, due_ms = w.due_ms, appends = w.appends, state = w.state,
        parts_next = w.parts_next, parts_due_ms = CASE WHEN $8 THEN w.parts_due_ms ELSE s.parts_due_ms END
    FROM wanted w WHERE s.id = w.id AND s.version = w.version AND s.id IN (SELECT id FROM locked)
    RETURNING s.id
), written AS (
    INSERT INTO stream_rows (stream_id, start, "end", first, last_ms, index, data)
    SELECT r.* FROM unnest($9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
            $13::bigint[], $14::bytea[], $15::bytea[])
        AS r(id, start, "end", first, last_ms, index, data)
    WHERE r.id IN (SELECT id FROM changed)
), used AS (
    INSERT INTO producers (stream_id, producer, epoch, seq, used_ms, used_order)
    SELECT p.* FROM unnest($16::bigint[], $17::bytea[], $18::bigint[], $19::bigint[],
            $20::bigint[], $21::bigint[])
        AS p(id, producer, epoch, seq, used_ms, used_order)
    WHERE p.id IN (SELECT id FROM changed)
    ON CONFLICT (stream_id, producer) DO UPDATE SET epoch = EXCLUDED.epoch, seq = EXCLUDED.seq,
        used_ms = EXCLUDED.used_ms, used_order = EXCLUDED.used_order
), forgotten AS (
    DELETE FROM producers p USING unnest($22::bigint[], $23::bytea[]) AS f(id, producer)
    WHERE p.stream_id = f.id AND p.producer = f.producer AND f.id IN (SELECT id FROM changed)
), recorded AS (
    INSERT INTO stream_changes (changed, entries)
    SELECT array_agg(id), $27 FROM (SELECT id FROM changed UNION ALL SELECT unnest($26::bigint[])) AS c(id)
    WHERE $27::bytea IS NOT NULL AND EXISTS (SELECT FROM subscription_rows WHERE key >= 's' AND key < 't')
    HAVING count(*) > 0
)
SELECT array_agg(id), pg_notify($24, $25) FROM changed
"""
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


class NewRow(msgspec.Struct, frozen=True):
    """A row of content that a round adds."""

    row: Row
    index: bytes
    data: bytes | StoredPart


def new_rows(change: Change) -> list[NewRow]:
    """Give the rows of what a round has appended to a stream."""
    pieces, ends, times = change.content.new.all()
    rows: list[NewRow] = []
    begun, first = 0, change.content.appends - len(pieces)
    size = 0
    for number, piece in enumerate(pieces):
        is_part = isinstance(piece, StoredPart)
        is_after_part = number > begun and isinstance(pieces[number - 1], StoredPart)
        if number > begun and (is_part or is_after_part or size + len(piece) > MAX_ROW_BYTES):
            rows.append(_row(pieces[begun:number], ends[begun:number], times[begun:number], first + begun))
            begun, size = number, 0
        size += len(piece)
    if begun < len(pieces):
        rows.append(_row(pieces[begun:], ends[begun:], times[begun:], first + begun))
    return rows


def _row(pieces: list[Piece], ends: Any, times: Any, first: int) -> NewRow:
    sizes = [len(piece) for piece in pieces]
    index = encode_index(sizes, list(times))
    row = decode_row(ends[0] - sizes[0], ends[-1], first, index)
    part = pieces[0]
    data = part if isinstance(part, StoredPart) else b"".join([piece[:] for piece in pieces])
    return NewRow(row, index, data)


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
        living.sort(key=lambda change: change.entry.stream.id)
        states: list[tuple[Any, ...]] = []
        rows: list[tuple[Any, ...]] = []
        used: list[tuple[Any, ...]] = []
        forgotten: list[tuple[int, bytes]] = []
        for change in living:
            stream = change.entry.stream
            staged = stream.staged
            parts_due = (
                min((part.staged_ms for part in staged.parts.values()), default=None) if staged else None
            )
            states.append(
                (
                    stream.id,
                    change.version,
                    due_ms(stream),
                    parts_due + PART_LIFETIME_MS if parts_due is not None else None,
                    change.content.appends,
                    staged.count if staged is not None else 0,
                    encode_state(stream),
                )
            )
            for new in new_rows(change):
                row = new.row
                values = (stream.id, row.start, row.end, row.first, row.times[-1], new.index)
                if isinstance(new.data, StoredPart):
                    part = (stream.id, new.data.number, *values[1:])
                    await connection.execute(_COMMIT_PART, *part)
                else:
                    rows.append((*values, new.data))
            known = stream.producers or {}
            for order, id in enumerate(id for id in known if id in change.producers):
                state = known[id]
                turn = (change.version + 1 << 16) + order
                used.append((stream.id, id, state.epoch, state.seq, state.used_ms, turn))
            forgotten += [(stream.id, id) for id in change.producers if id not in known]
        notice = encode_notice(self.sender, [*living, *gone])
        arrays = [
            *_columns(states, 7),
            is_locked,
            *_columns(rows, 7),
            *_columns(used, 6),
            *_columns(forgotten, 2),
        ]
        changes = encode_changes((*living, *gone)) if self._records else None
        ended = [change.entry.stream.id for change in gone]
        found = await connection.fetchrow(_CHANGE, *arrays, self.channel, notice, ended, changes)
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


def _columns(rows: list[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]
