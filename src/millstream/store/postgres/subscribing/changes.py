"""Changes that subscriptions hear of: which streams were created, have got more, or have ended.

They are recorded with the transaction that makes them, in one row, if there are subscriptions at that time.
A round of appends may leave out streams that another server was faster with; so the row says beside its
entries which streams were really changed.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from millstream.store.postgres.connections import Connection
from millstream.store.postgres.workspace import Change
from millstream.store.subscriptions.waking import Waking

CREATED: Final = 0
GREW: Final = 1
ENDED: Final = 2

_TOGETHER: Final = 500
_TAKE = """
    DELETE FROM stream_changes WHERE id IN (SELECT id FROM stream_changes ORDER BY id LIMIT $1)
    RETURNING id, changed, entries
"""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What happened to a stream."""

    id: int
    kind: int
    name: str
    tail: int
    """Where it ended before, or where a new one begins."""
    end: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Entry]).decode


def encode_changes(changes: Iterable[Change]) -> bytes | None:
    """Encode what subscriptions have to hear of; None if there is nothing."""
    entries: list[tuple[int, int, str, int, int]] = []  # as `Entry`, which takes longer to make
    for change in changes:
        stream, began = change.entry.stream, change.content.new.base
        if change.is_new:
            entries.append((stream.id, CREATED, stream.name, began, stream.tail))
        elif stream.tail > began:
            entries.append((stream.id, GREW, stream.name, began, stream.tail))
        if change.is_ended:
            entries.append((stream.id, ENDED, stream.name, stream.tail, stream.tail))
    return _encode(entries) if entries else None


async def take_changes(connection: Connection) -> list[Entry]:
    """Take what is recorded, in order: for each stream that is the order in which it happened."""
    found: list[Entry] = []
    while True:
        rows = sorted(await connection.fetch(_TAKE, _TOGETHER), key=lambda row: row[0])
        for _, changed, entries in rows:
            ids = set(changed)
            found += [entry for entry in _decode(entries) if entry.id in ids]
        if len(rows) < _TOGETHER:
            return found


def tell(waking: Waking, entry: Entry, now_ms: int) -> None:
    """Let subscriptions hear of a change."""
    if entry.kind == ENDED:
        waking.after_ending(entry.name)
        return
    if entry.kind == CREATED:
        waking.before_create(entry.name, entry.tail, has_data=False, now_ms=now_ms)
    if entry.end > entry.tail:
        # Not by the short way of an append: what is pending may be known before it is told.
        waking.note_append(entry.name, entry.tail, entry.end, now_ms)
    waking.after_append(now_ms)
