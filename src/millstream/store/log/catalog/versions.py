"""The tables of the catalog: what they are, and how those of an older version become them.

Producers have rows of their own, so that a stream with many of them costs no more than those that have
changed. Version 1 kept them in the stream's state; a stream of that version gets its rows when it is
written next. It also had its numbers in `facts`. Since version 2 there is a view of that name, which no
program can read: version 1 does not look at the version, and would accept again what it no longer finds.

Version 3 has `held`: the records of streams that could not be saved (`held.py`). A program that does not
know of them would lose them.

Version 4 has where the bytes of each stream are (`place`; null for a stream whose files are of format 3),
the packs, and checksums: CRC-32C of everything in a row. Rows that version 3 wrote have none (null). The
pages have checksums, too (`pages`), because a bit that is wrong may hide rows that are there.

Version 5 has the times of appends that fill no page of a stream's index yet (`places.Filed.recent`), and a
code for times in packs and files (`deltas`) that version 4 does not know.

Version 6 has `kept`: rows of the table, such as subscriptions, as keys and bytes. A program that does not
know of them would lose what the log says about them.
"""

import sqlite3
from pathlib import Path
from typing import Final

from millstream.store.base import StoreError

VERSION: Final = 6
WITH_PRODUCERS: Final = 2
WITH_HELD: Final = 3
WITH_SUMS: Final = 4
WITH_KEPT: Final = 6

_SCHEMA = """
create table if not exists streams (
    id integer primary key,
    name text not null,
    deadline_ms integer,
    flushed integer not null,
    appends integer not null,
    state blob not null
);
create index if not exists streams_by_name on streams (name);
create index if not exists streams_by_deadline on streams (deadline_ms) where deadline_ms is not null;
create table if not exists producers (
    stream_id integer not null,
    id blob not null,
    epoch integer not null,
    seq integer not null,
    used_ms integer not null,
    primary key (stream_id, id)
) without rowid;
create table if not exists numbers (name text primary key, value integer not null) without rowid;
create table if not exists held (
    stream_id integer not null,
    lsn integer not null,
    record blob not null,
    primary key (stream_id, lsn)
);
"""
_UPGRADE_1 = """
create table if not exists facts (name text primary key, value integer not null) without rowid;
insert into numbers select name, value from facts;
drop table facts;
create view facts as select name, value from "this folder was written by a newer version of millstream";
"""
_UPGRADE_3 = """
alter table streams add column place blob;
alter table streams add column sum integer;
alter table producers add column sum integer;
alter table held add column sum integer;
alter table numbers add column sum integer;
create table packs (
    number integer primary key,
    end integer not null,
    freed integer not null
);
create index streams_of_format_3 on streams (id) where place is null;
"""
_UPGRADE_5 = """
create table kept (key text primary key, value blob not null, sum integer not null) without rowid;
"""


def version_of(connection: sqlite3.Connection, path: Path | str) -> int:
    """Give the version of a catalog, unless it is one that this program does not know."""
    version = int(connection.execute("pragma user_version").fetchone()[0])
    if version > VERSION:
        raise StoreError(f"{path} was written by a newer version of millstream; use that version.")
    return version


def upgrade(connection: sqlite3.Connection, path: Path | str) -> None:
    """Make the tables, or bring those of an older version up to date, in one transaction."""
    version = version_of(connection, path)
    if version == VERSION:
        return
    steps = [_SCHEMA]
    if version < WITH_PRODUCERS:
        steps.append(_UPGRADE_1)
    if version < WITH_SUMS:
        steps.append(_UPGRADE_3)
    if version < WITH_KEPT:
        steps.append(_UPGRADE_5)
    end = f"pragma user_version = {VERSION}; commit;"
    connection.executescript(f"begin immediate; {' '.join(steps)} {end}")
