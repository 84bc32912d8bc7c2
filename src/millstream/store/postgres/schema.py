"""The tables, and how they come into being: versions, applied one after the other under a lock.

        streams         one row for each: its version rises with every change, `state` is what decides
        stream_rows     content; each row has the appends of one stream that one transaction brought together
        producers       the last stamp of each producer
        parts           staged parts
        ended_streams   streams that are gone, whose rows are still to be removed

        subscription_rows    subscriptions and their cursors, as keys and bytes (`store.subscriptions.rows`)
        subscription_state   one row: its version rises with them; which server delivers webhooks, until when
        stream_changes       what subscriptions have to hear of, while there are any: written with the
                             changes of streams, removed with what was made of them

Tables are made where the connection's search path says, so that several stores fit into one database.
"""

from typing import Any

from millstream.store.base import StoreError

MIGRATION = "unfinished_migration"
"""A table of this name says that a migration into the database is not finished."""

_LOCK = 0x6D696C6C  # any number that others do not use

_VERSIONS = (
    """
    CREATE SEQUENCE stream_ids;
    CREATE TABLE streams (
        id bigint PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE,
        version bigint NOT NULL,
        due_ms bigint,
        parts_due_ms bigint,
        appends bigint NOT NULL,
        parts_next bigint NOT NULL,
        state bytea NOT NULL
    ) WITH (fillfactor = 50);
    CREATE INDEX streams_due ON streams (due_ms) WHERE due_ms IS NOT NULL;
    CREATE INDEX streams_parts_due ON streams (parts_due_ms) WHERE parts_due_ms IS NOT NULL;
    ALTER TABLE streams ALTER state SET STORAGE EXTERNAL;
    CREATE TABLE stream_rows (
        stream_id bigint NOT NULL,
        start bigint NOT NULL,
        "end" bigint NOT NULL,
        first bigint NOT NULL,
        last_ms bigint NOT NULL,
        index bytea NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (stream_id, start)
    );
    ALTER TABLE stream_rows ALTER data SET STORAGE EXTERNAL;
    CREATE TABLE producers (
        stream_id bigint NOT NULL,
        producer bytea NOT NULL,
        epoch bigint NOT NULL,
        seq bigint NOT NULL,
        used_ms bigint NOT NULL,
        used_order bigint NOT NULL,
        PRIMARY KEY (stream_id, producer)
    ) WITH (fillfactor = 50);
    CREATE TABLE parts (
        stream_id bigint NOT NULL,
        number bigint NOT NULL,
        part text COLLATE "C" NOT NULL,
        staged_ms bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (stream_id, number)
    );
    ALTER TABLE parts ALTER data SET STORAGE EXTERNAL;
    CREATE TABLE ended_streams (stream_id bigint PRIMARY KEY);
    """,
    """
    CREATE TABLE subscription_state (
        version bigint NOT NULL,
        owner text NOT NULL,
        owned_until timestamptz NOT NULL
    );
    INSERT INTO subscription_state VALUES (0, '', 'epoch');
    CREATE TABLE subscription_rows (key bytea PRIMARY KEY, value bytea NOT NULL);
    CREATE TABLE stream_changes (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        changed bigint[] NOT NULL,
        entries bytea NOT NULL
    );
    """,
)


async def apply_schema(connection: Any) -> None:
    """Bring the tables to the newest version, while no other server does."""
    if await connection.fetchval("SHOW server_encoding") != "UTF8":
        raise StoreError("the database is not in UTF-8; create one with: createdb --encoding UTF8 NAME")
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute("CREATE TABLE IF NOT EXISTS millstream_schema (version int NOT NULL)")
        found = await connection.fetchval("SELECT version FROM millstream_schema")
        if found is None:
            await connection.execute("INSERT INTO millstream_schema VALUES (0)")
        elif found > len(_VERSIONS):
            raise StoreError(
                f"the tables are of version {found}, which this millstream does not know; use a newer one"
            )
        for sql in _VERSIONS[found or 0 :]:
            await connection.execute(sql)
        await connection.execute("UPDATE millstream_schema SET version = $1", len(_VERSIONS))


async def refuse_unfinished(connection: Any) -> None:
    """Refuse a database into which a migration is not finished: some of its streams are not whole."""
    if await connection.fetchval("SELECT to_regclass($1)", MIGRATION) is not None:
        raise StoreError(
            "a migration into the database is not finished. Run it again: `millstream migrate` goes on."
        )
