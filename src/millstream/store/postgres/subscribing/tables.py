"""The tables of subscriptions: their rows, their version, and who delivers.

One row is locked by every round. It has the version of all rows together, which says whether what a server
has in memory is still so, and the lease of the server that delivers webhooks. Time is that of the database.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from millstream.protocol.globs import path_matches
from millstream.store.postgres.connections import Connection
from millstream.store.postgres.encoding import decode_state, prefix_range
from millstream.store.subscriptions.rows import Rows

LEASE_S: Final = 5
"""For how long a server delivers without a sign of life."""

_STATE = """
    SELECT version, owner = $1, owned_until < clock_timestamp(),
        EXISTS (SELECT FROM stream_changes) FROM subscription_state
"""
_LEAD = f"""
    UPDATE subscription_state SET version = $2, owner = $1,
        owned_until = clock_timestamp() + interval '{LEASE_S} s'
"""
_PUT = """
    INSERT INTO subscription_rows SELECT * FROM unnest($1::bytea[], $2::bytea[])
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value
"""
_TAILS = "SELECT name, state FROM streams WHERE name = ANY($1)"
_NAMES = """
    SELECT name, state FROM streams
    WHERE name >= $1 AND ($2::text IS NULL OR name < $2) AND name > $3 ORDER BY name LIMIT $4
"""
_PAGE: Final = 1_000


class State(msgspec.Struct, frozen=True):
    """What the one row says to a server."""

    version: int
    is_mine: bool
    """Whether this server was the last to have the lease."""
    is_over: bool
    """Whether the lease has ended."""
    has_changes: bool
    """Whether changes of streams wait to be told."""


async def read_state(connection: Connection, server: str, *, locks: bool = False) -> State:
    """Look who delivers, and what has changed."""
    return State(*await connection.fetchrow(_STATE + (" FOR UPDATE" if locks else ""), server))


async def put_state(connection: Connection, server: str, version: int, *, leads: bool) -> None:
    """Note a version, and renew or take the lease."""
    if leads:
        await connection.execute(_LEAD, server, version)
    else:
        await connection.execute("UPDATE subscription_state SET version = $1", version)


async def release(connection: Connection, server: str) -> None:
    """Give the lease back."""
    await connection.execute("UPDATE subscription_state SET owned_until = 'epoch' WHERE owner = $1", server)


async def record_from_now(connection: Connection) -> None:
    """Wait for changes under way, and hold up others until the transaction has ended: they see its rows."""
    await connection.execute("LOCK TABLE streams IN SHARE MODE")


async def load_rows(connection: Connection) -> dict[str, bytes]:
    """Load all rows."""
    return {key.decode(): value for key, value in await connection.fetch("SELECT * FROM subscription_rows")}


async def put_rows(connection: Connection, rows: Rows) -> None:
    """Keep rows, or remove those without a value."""
    kept = {key.encode(): value for key, value in rows.items() if value is not None}
    if kept:
        await connection.execute(_PUT, list(kept), list(kept.values()))
    removed = [key.encode() for key, value in rows.items() if value is None]
    if removed:
        await connection.execute("DELETE FROM subscription_rows WHERE key = ANY($1)", removed)


async def load_tails(connection: Connection, names: Collection[str]) -> dict[str, int | None]:
    """Look up where streams end; None where there is none."""
    wanted = list(names)
    found: dict[str, int | None] = dict.fromkeys(wanted)
    for at in range(0, len(wanted), _PAGE):
        found |= _tails(await connection.fetch(_TAILS, wanted[at : at + _PAGE]))
    return found


async def find_streams(
    connection: Connection, prefix: str, pattern: str, most: int, most_looked_at: int
) -> dict[str, int | None]:
    """Find the first streams that a pattern matches, and where they end."""
    first, end = prefix_range(prefix)
    found: dict[str, int | None] = {}
    after = ""
    for _ in range(0, most_looked_at, _PAGE):
        rows = await connection.fetch(_NAMES, first, end, after, _PAGE)
        found |= _tails([row for row in rows if path_matches(pattern, row[0])])
        if len(rows) < _PAGE or len(found) >= most:
            break
        after = rows[-1][0]
    return found


def _tails(rows: list[tuple[str, bytes]]) -> Mapping[str, int | None]:
    states = ((name, decode_state(state)) for name, state in rows)
    return {name: None if stream.soft_deleted else stream.tail for name, stream in states}
