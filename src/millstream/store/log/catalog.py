"""The catalog: the state of every stream as of the last checkpoint, in SQLite.

Only checkpoints write it, each in one transaction with the log position that it stands for. So it is
always a complete state of the past, and the log has the rest.

Producers have rows of their own, so that a stream with many of them costs no more than those that have
changed. Version 1 kept them in the stream's state; a stream of that version gets its rows when it is
written next. It also had its numbers in `facts`. Since version 2 there is a view of that name, which no
program can read: version 1 does not look at the version, and would accept again what it no longer finds.

Version 3 has `held`: the records of streams that could not be saved (`held.py`). A program that does not
know of them would lose them.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote

import msgspec

from millstream.protocol.producers import ProducerState
from millstream.protocol.streams import Stream
from millstream.store.base import StoreError

VERSION = 3
_WITH_PRODUCERS = 2

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
_ROW = "select id, name, deadline_ms, flushed, appends, state from streams"

encode_stream = msgspec.msgpack.Encoder().encode
_decode_stream = msgspec.msgpack.Decoder(Stream).decode


class Row(msgspec.Struct, frozen=True):
    """A stream in the catalog: its state, and how much of its content its files hold."""

    stream_id: int
    name: str
    deadline_ms: int | None
    flushed: int
    appends: int
    state: bytes

    def stream(self) -> Stream:
        """Read the stream's state."""
        return _decode_stream(self.state)


class ProducerRow(msgspec.Struct, frozen=True, gc=False):
    """A producer of a stream in the catalog; without a state it is forgotten."""

    stream_id: int
    producer_id: bytes
    state: ProducerState | None


class HeldRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of the log about a stream that could not be saved."""

    stream_id: int
    """The stream that is held back; the record may be about a fork of it."""
    lsn: int
    record: bytes


class Due(msgspec.Struct, frozen=True):
    """A stream that was due; also the place to continue from."""

    deadline_ms: int
    stream_id: int
    name: str


BEGINNING = Due(-1, -1, "")


class Catalog:
    """The catalog's file; a path of `:memory:` keeps it in memory."""

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        if read_only:
            self._writer = self._reader = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
            self._version = _version(self._reader, path)
            return
        self._writer = _connect(path)
        if (version := _version(self._writer, path)) < VERSION:
            former = _UPGRADE_1 if version < _WITH_PRODUCERS else ""
            end = f"pragma user_version = {VERSION}; commit;"
            self._writer.executescript(f"begin immediate; {_SCHEMA} {former} {end}")
        self._version = VERSION
        # A commit whose sync failed, or was cut short by the end of its process, can be read from the page
        # cache though it is not on the disk. This writes all of them again, to another place, and syncs.
        try:
            self._writer.execute("pragma wal_checkpoint(truncate)")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:  # then it stays in the WAL, and can be read
                raise
        # Checkpoints write from another thread; look-ups must not wait for them nor see half of one.
        self._reader = _connect(path) if path != ":memory:" else self._writer

    def by_name(self, name: str) -> Row | None:
        """Find a stream by its name."""
        return self._one(f"{_ROW} where name = ?", name)

    def by_id(self, stream_id: int) -> Row | None:
        """Find a stream by its id."""
        return self._one(f"{_ROW} where id = ?", stream_id)

    def due(self, now_ms: int, after: Due, limit: int) -> list[Due]:
        """Find streams that are due as of the last checkpoint, in order."""
        query = (
            "select deadline_ms, id, name from streams where (deadline_ms, id) > (?, ?) and deadline_ms <= ?"
            " order by deadline_ms, id limit ?"
        )
        values = (after.deadline_ms, after.stream_id, now_ms, limit)
        return [Due(*row) for row in self._reader.execute(query, values)]

    def names(self, prefix: str, after: str) -> Iterator[str]:
        """Give names that begin with a prefix and come after another, in order."""
        query = "select name from streams where name > ? and name >= ? order by name limit 1000"
        while True:
            page = [name for (name,) in self._reader.execute(query, (after, prefix))]
            for name in page:
                if not name.startswith(prefix):
                    return
                yield name
            if not page:
                return
            after = page[-1]

    def count(self) -> int:
        """Count the streams."""
        count: int = self._reader.execute("select count(*) from streams").fetchone()[0]
        return count

    def rows(self) -> Iterator[Row]:
        """Give every stream, by id."""
        for row in self._reader.execute(f"{_ROW} order by id"):
            yield Row(*row)

    def fact(self, name: str) -> int:
        """Give a stored number; 0 when there is none."""
        table = "numbers" if self._version >= _WITH_PRODUCERS else "facts"
        row = self._reader.execute(f"select value from {table} where name = ?", (name,)).fetchone()
        return row[0] if row is not None else 0

    def written_fact(self, name: str) -> int:
        """Give a stored number to the thread that writes checkpoints."""
        row = self._writer.execute("select value from numbers where name = ?", (name,)).fetchone()
        return row[0] if row is not None else 0

    def producers(self, stream_id: int) -> dict[bytes, ProducerState]:
        """Give the producers that have rows, the longest idle first."""
        if self._version < _WITH_PRODUCERS:
            return {}
        query = "select id, epoch, seq, used_ms from producers where stream_id = ?"
        rows = self._reader.execute(query, (stream_id,)).fetchall()
        rows.sort(key=itemgetter(3))  # quicker here than there
        return {id: ProducerState(epoch, seq, used_ms) for id, epoch, seq, used_ms in rows}

    def held(self) -> Iterator[HeldRecord]:
        """Give the records of streams that could not be saved, in the order of the log."""
        if self._version < VERSION:
            return
        places = self._reader.execute("select lsn, stream_id from held order by lsn").fetchall()
        query = "select record from held where stream_id = ? and lsn = ?"
        for lsn, stream_id in places:  # one record in memory at a time
            (record,) = self._reader.execute(query, (stream_id, lsn)).fetchone()
            yield HeldRecord(stream_id, lsn, record)

    def checkpoint(
        self,
        changed: list[Row],
        producers: list[ProducerRow],
        gone: list[int],
        facts: dict[str, int],
        held: Sequence[HeldRecord] = (),
    ) -> None:
        """Replace the state by a newer one, all at once; `held` is of streams whose rows stay as they are."""
        with self._transaction():
            self._release_held([*gone, *(row.stream_id for row in changed)])
            self._writer.executemany("delete from streams where id = ?", [(id,) for id in gone])
            self._writer.executemany("delete from producers where stream_id = ?", [(id,) for id in gone])
            self._write(changed, producers)
            records = [(one.stream_id, one.lsn, one.record) for one in held]
            self._writer.executemany("insert into held values (?, ?, ?)", records)
            self._writer.executemany("replace into numbers values (?, ?)", facts.items())

    def find_unsavable(
        self, changed: Iterable[tuple[Row, list[ProducerRow]]], is_its_own: Callable[[BaseException], bool]
    ) -> dict[int, Exception]:
        """Find the streams whose rows cannot be written, by trying each of them; writes nothing."""
        found: dict[int, Exception] = {}
        for row, producers in changed:
            try:
                with self._transaction(keeps=False):
                    self._write([row], producers)
            except Exception as error:
                if not is_its_own(error):
                    raise
                found[row.stream_id] = error
        return found

    def _release_held(self, saved: list[int]) -> None:
        held = {id for (id,) in self._writer.execute("select distinct stream_id from held")}
        ids = [(id,) for id in held.intersection(saved)]
        self._writer.executemany("delete from held where stream_id = ?", ids)

    def _write(self, changed: list[Row], producers: list[ProducerRow]) -> None:
        self._write_producers(producers)
        rows = [msgspec.structs.astuple(row) for row in changed]
        self._writer.executemany("replace into streams values (?, ?, ?, ?, ?, ?)", rows)

    def _write_producers(self, producers: list[ProducerRow]) -> None:
        states = [
            (row.stream_id, row.producer_id, row.state.epoch, row.state.seq, row.state.used_ms)
            for row in producers
            if row.state is not None
        ]
        forgotten = [(row.stream_id, row.producer_id) for row in producers if row.state is None]
        self._writer.executemany("replace into producers values (?, ?, ?, ?, ?)", states)
        self._writer.executemany("delete from producers where stream_id = ? and id = ?", forgotten)

    def complaints(self) -> list[str]:
        """Check the file from end to end, and give what is wrong with it."""
        found = [text for (text,) in self._writer.execute("pragma integrity_check")]
        return found if found != ["ok"] else []

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
        self._writer.close()

    def _one(self, query: str, value: str | int) -> Row | None:
        row = self._reader.execute(query, (value,)).fetchone()
        return Row(*row) if row is not None else None

    @contextlib.contextmanager
    def _transaction(self, *, keeps: bool = True) -> Iterator[None]:
        self._writer.execute("begin immediate")
        try:
            yield
            if keeps:
                self._writer.execute("commit")
        finally:
            if self._writer.in_transaction:
                self._writer.execute("rollback")


def _version(connection: sqlite3.Connection, path: Path | str) -> int:
    """Give the version of a catalog, unless it is one that this program does not know."""
    version = int(connection.execute("pragma user_version").fetchone()[0])
    if version > VERSION:
        raise StoreError(f"{path} was written by a newer version of millstream; use that version.")
    return version


def _connect(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    return connection
