"""The catalog: the state of every stream as of the last checkpoint, in SQLite.

Only checkpoints write it, each in one transaction with the log position that it stands for. So it is
always a complete state of the past, and the log has the rest.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec

from millstream.protocol.streams import Stream

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
create table if not exists facts (name text primary key, value integer not null) without rowid;
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
            return
        self._writer = _connect(path)
        self._writer.executescript(_SCHEMA)
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
        row = self._reader.execute("select value from facts where name = ?", (name,)).fetchone()
        return row[0] if row is not None else 0

    def checkpoint(self, changed: list[Row], gone: list[int], facts: dict[str, int]) -> None:
        """Replace the state by a newer one, all at once."""
        with self._transaction():
            self._writer.executemany("delete from streams where id = ?", [(id,) for id in gone])
            rows = [msgspec.structs.astuple(row) for row in changed]
            self._writer.executemany("replace into streams values (?, ?, ?, ?, ?, ?)", rows)
            self._writer.executemany("replace into facts values (?, ?)", facts.items())

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
    def _transaction(self) -> Iterator[None]:
        self._writer.execute("begin immediate")
        try:
            yield
            self._writer.execute("commit")
        finally:
            if self._writer.in_transaction:
                self._writer.execute("rollback")


def _connect(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    return connection
