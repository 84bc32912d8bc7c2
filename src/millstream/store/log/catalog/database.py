"""The catalog: the state of every stream as of the last checkpoint, in SQLite.

Only checkpoints write it, each in one transaction with the log position that it stands for. So it is
always a complete state of the past, and the log has the rest.

Its tables, and how those of older versions become them, are in `versions`. A catalog with a damaged page
answers for what it finds, and for nothing that it does not find, and is not written to.
"""

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote

import msgspec

from millstream.protocol.producers import ProducerState
from millstream.store.log.catalog.known_names import KnownNames
from millstream.store.log.catalog.pages import CatalogPages
from millstream.store.log.catalog.rows import (
    Changes,
    Due,
    HeldRecord,
    PackRow,
    ProducerRow,
    Row,
    packed_bytes,
    sum_of,
    with_sum,
)
from millstream.store.log.catalog.versions import (
    VERSION,
    WITH_HELD,
    WITH_KEPT,
    WITH_PRODUCERS,
    WITH_SUMS,
    upgrade,
    version_of,
)
from millstream.store.log.disk import is_full
from millstream.store.log.files.places import decode_place
from millstream.store.log.pace import Rest
from millstream.store.log.wal.segments import DamagedError

_DUE = "select deadline_ms, id, name from streams"
_ROW = "select id, name, deadline_ms, flushed, appends, state, place, sum from streams"
_FORMER_ROW = "select id, name, deadline_ms, flushed, appends, state, null, null from streams"
_WRITE_ROWS = """
insert into streams (id, name, deadline_ms, flushed, appends, state, place, sum)
values {}
on conflict (id) do update set deadline_ms = excluded.deadline_ms, flushed = excluded.flushed,
    appends = excluded.appends, state = excluded.state, place = excluded.place, sum = excluded.sum
"""

_ROWS_A_STATEMENT = 64
"""How many rows are written with one statement: each one gives up Python's lock, and getting it back beside a
busy event loop takes longer than writing a row."""

_CACHE_KIB = 8 * 2**10  # for each of two connections: inner pages of the indexes of millions of streams fit

_NAMES_A_QUERY = 1000

APPLIED_LSN = "applied_lsn"
LAST_ID = "next_id"  # its name on the disk


class Catalog:
    """The catalog's file; a path of `:memory:` keeps it in memory."""

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self._path = path
        self._known = KnownNames()
        self._pages = CatalogPages(path) if isinstance(path, Path) else None
        self.damage = self._pages.complaints() if self._pages is not None else []
        """What is wrong with the file; none of it was written since."""
        if self._pages is not None and self.damage and _is_of_all(self.damage[0]):
            self._pages.close()
            raise DamagedError(self.damage[0])
        with self.naming_damage():
            self._open(path, read_only=read_only)

    def _open(self, path: Path | str, *, read_only: bool) -> None:
        if read_only:
            self._writer = self._reader = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
            self._version = version_of(self._reader, path)
            self._row = _ROW if self._version >= WITH_SUMS else _FORMER_ROW
            return
        self._row = _ROW
        self._writer = _connect(path)
        upgrade(self._writer, path)
        self._version = VERSION
        # A commit whose sync failed, or was cut short by the end of its process, can be read from the page
        # cache though it is not on the disk. This writes all of them again, to another place, and syncs.
        self._seal()
        # Checkpoints write from another thread; look-ups must not wait for them nor see half of one.
        self._reader = _connect(path) if path != ":memory:" else self._writer

    @contextlib.contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Let errors name the damaged page, if there is one; what follows may look like damage, too."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if not self.damage:
                raise
            raise DamagedError(self.damage[0]) from error
        except DamagedError as error:
            if not self.damage or str(error).startswith("catalog.db"):
                raise
            raise DamagedError(f"{self.damage[0]} {error}") from error

    def _seal(self) -> None:
        """Copy what SQLite has in its WAL to the file, and keep the checksums of its pages."""
        if self._pages is not None and not self.damage:
            try:
                self._pages.seal(self._writer)
            except (OSError, sqlite3.OperationalError) as error:
                if not _is_full(error):  # then it stays in the WAL, and can be read
                    raise

    def by_name(self, name: str) -> Row | None:
        """Find a stream by its name."""
        if not self._known.may_have(name) and not self.damage:
            return None
        return self._one(f"{self._row} where name = ?", name)

    def by_names(self, names: list[str]) -> list[Row]:
        """Find the streams that there are of some names, with one query."""
        if not self.damage:
            names = [name for name in names if self._known.may_have(name)]
        query = f"{self._row} where name in (select value from json_each(?))"
        values = (msgspec.json.encode(names).decode(),)
        rows = [Row(*row) for row in self._reader.execute(query, values)]
        for row in rows:
            row.verify()
        if len(rows) < len(names):
            self._must_be_whole()
        return rows

    def by_id(self, stream_id: int) -> Row | None:
        """Find a stream by its id."""
        return self._one(f"{self._row} where id = ?", stream_id)

    def due(self, now_ms: int, after: Due, limit: int) -> list[Due]:
        """Find streams that are due as of the last checkpoint, in order."""
        if self.damage:
            return []
        # Two queries: compared as a pair, all rows of the same deadline are scanned for every page of them.
        beside = f"{_DUE} where deadline_ms = ? and id > ? and deadline_ms <= ? order by id limit ?"
        values = (after.deadline_ms, after.stream_id, now_ms, limit)
        found = [Due(*row) for row in self._reader.execute(beside, values)]
        if len(found) < limit:
            later = f"{_DUE} where deadline_ms > ? and deadline_ms <= ? order by deadline_ms, id limit ?"
            rest = (after.deadline_ms, now_ms, limit - len(found))
            found += [Due(*row) for row in self._reader.execute(later, rest)]
        return found

    def names(self, prefix: str, after: str) -> Iterator[str]:
        """Give names that begin with a prefix and come after another, in order."""
        self._must_be_whole()
        while True:
            page = _page_of_names(self._reader, prefix, after)
            for name in page:
                if not name.startswith(prefix):
                    return
                yield name
            if not page:
                return
            after = page[-1]

    def learn_names(self, rest: Rest, is_wanted: Callable[[], bool]) -> None:
        """Note the names of all streams, so that new ones are known to be new; called off the event loop."""
        # Each query is a transaction of its own: a long one would keep checkpoints from emptying the WAL.
        reader = _connect(self._path) if self._reader is not self._writer else self._reader
        try:
            after = ""
            while is_wanted():
                page = _page_of_names(reader, "", after)
                if not page:
                    self._known.is_complete = True
                    return
                for name in page:
                    self._known.add((name,))
                    rest()
                after = page[-1]
        finally:
            if reader is not self._reader:
                reader.close()

    def count(self) -> int:
        """Count the streams."""
        count: int = self._reader.execute("select count(*) from streams").fetchone()[0]
        return count

    def rows(self) -> Iterator[Row]:
        """Give every stream, by id."""
        for row in self._reader.execute(f"{self._row} order by id"):
            yield Row(*row)

    def ids(self, after: int, limit: int) -> list[int]:
        """Give the ids of streams after another, in order."""
        query = "select id from streams where id > ? order by id limit ?"
        self._must_be_whole()
        return [id for (id,) in self._reader.execute(query, (after, limit))]

    def fact(self, name: str) -> int:
        """Give a stored number; 0 when there is none."""
        table = "numbers" if self._version >= WITH_PRODUCERS else "facts"
        sum = "sum" if self._version >= WITH_SUMS else "null"
        row = self._reader.execute(f"select value, {sum} from {table} where name = ?", (name,)).fetchone()
        return _number(name, row)

    def written_fact(self, name: str) -> int:
        """Give a stored number to the thread that writes checkpoints."""
        return _number(
            name, self._writer.execute("select value, sum from numbers where name = ?", (name,)).fetchone()
        )

    def producers(self, stream_id: int) -> dict[bytes, ProducerState]:
        """Give the producers that have rows, the longest idle first."""
        if self._version < WITH_PRODUCERS:
            return {}
        self._must_be_whole()
        sum = "sum" if self._version >= WITH_SUMS else "null"
        query = f"select id, epoch, seq, used_ms, {sum} from producers where stream_id = ?"
        rows = self._reader.execute(query, (stream_id,)).fetchall()
        rows.sort(key=itemgetter(3))  # quicker here than there
        for id, epoch, seq, used_ms, sum in rows:
            if sum is not None and sum != sum_of((stream_id, id, epoch, seq, used_ms)):
                raise DamagedError(f"catalog.db: the row of a producer of stream {stream_id} is damaged.")
        return {id: ProducerState(epoch, seq, used_ms) for id, epoch, seq, used_ms, _ in rows}

    def held(self) -> Iterator[HeldRecord]:
        """Give the records of streams that could not be saved, in the order of the log."""
        if self._version < WITH_HELD:
            return
        places = self._reader.execute("select lsn, stream_id from held order by lsn").fetchall()
        has_sum = "sum" if self._version >= WITH_SUMS else "null"
        query = f"select record, {has_sum} from held where stream_id = ? and lsn = ?"
        for lsn, stream_id in places:  # one record in memory at a time
            record, sum = self._reader.execute(query, (stream_id, lsn)).fetchone()
            if sum is not None and sum != sum_of((stream_id, lsn, record)):
                raise DamagedError(f"catalog.db: record {lsn}, held for stream {stream_id}, is damaged.")
            yield HeldRecord(stream_id, lsn, record)

    def kept(self) -> Iterator[tuple[str, bytes]]:
        """Give the rows of the table, by key; none of a damaged catalog, which accepts no changes anyway."""
        if self._version < WITH_KEPT or self.damage:
            return
        for key, value, sum in self._reader.execute("select key, value, sum from kept order by key"):
            if sum != sum_of((key, value)):
                raise DamagedError(f"catalog.db: the row {key!r} is damaged.")
            yield key, value

    # -- Packs -----------------------------------------------------------------------------------

    def packs(self) -> list[PackRow]:
        """Give all packs to the thread that writes checkpoints, the last one last."""
        if self._version < WITH_SUMS:
            return []
        rows = self._writer.execute("select number, end, freed from packs order by number")
        return [PackRow(*row) for row in rows]

    def written_row(self, stream_id: int) -> Row | None:
        """Find a stream by its id, for the thread that writes checkpoints."""
        row = self._writer.execute(f"{_ROW} where id = ?", (stream_id,)).fetchone()
        return Row(*row) if row is not None else None

    def move(self, rows: list[Row], ends: dict[int, int], emptied: int | None) -> None:
        """Note that slots are in other packs now, and that nothing is left in one of them."""
        with self._transaction():
            self._write(rows)
            self._write_packs(ends, {})
            self._writer.execute("delete from packs where number = ?", (emptied,))
        self._seal()

    def former_ids(self, after: int, limit: int) -> list[int]:
        """Give the ids of streams whose files are of format 3."""
        query = "select id from streams where place is null and id > ? order by id limit ?"
        return [id for (id,) in self._reader.execute(query, (after, limit))]

    def _write_packs(self, ends: Mapping[int, int], freed: Mapping[int, int]) -> None:
        query = "insert into packs values (?, ?, 0) on conflict (number) do update set end = excluded.end"
        self._writer.executemany(query, ends.items())
        changed = [(size, number) for number, size in freed.items()]
        self._writer.executemany("update packs set freed = freed + ? where number = ?", changed)

    def _packed(self, ids: list[int]) -> Counter[int]:
        """Give how many bytes of each pack some streams have."""
        query = "select place from streams where id = ?"
        rows = [self._writer.execute(query, (id,)).fetchone() for id in ids]
        return packed_bytes([decode_place(row[0]) for row in rows if row is not None and row[0] is not None])

    # -- Checkpoints -----------------------------------------------------------------------------

    def checkpoint(self, changes: Changes) -> None:
        """Replace the state by a newer one, all at once."""
        with self._transaction():
            gone = changes.gone
            self._write_packs(changes.pack_ends, self._packed(gone) + Counter(changes.freed))
            self._writer.executemany("delete from streams where id = ?", [(id,) for id in gone])
            self._writer.executemany("delete from producers where stream_id = ?", [(id,) for id in gone])
            self._write_producers(changes.producers)
            self._release_held([*gone, *self._write(changes.changed)])
            records = [(one.stream_id, one.lsn, one.record) for one in changes.held]
            self._writer.executemany("insert into held values (?, ?, ?, ?)", map(with_sum, records))
            self._write_kept(changes.kept)
            facts = map(with_sum, changes.facts.items())
            self._writer.executemany("replace into numbers values (?, ?, ?)", facts)
        self._seal()

    def examine_pages(self, first: int) -> list[str] | None:
        """Verify some pages after the first so many; None when there are none. While nothing is written."""
        return self._pages.examine(first) if self._pages is not None else None

    def next_row(self, after: int) -> Row | None:
        """Find the stream with the next id, not verified; for a thread, while nothing is written."""
        row = self._writer.execute(f"{_ROW} where id > ? order by id limit 1", (after,)).fetchone()
        return Row(*row) if row is not None else None

    def find_unsavable(
        self, changed: Iterable[tuple[Row, list[ProducerRow]]], is_its_own: Callable[[BaseException], bool]
    ) -> dict[int, Exception]:
        """Find the streams whose rows cannot be written, by trying each of them; writes nothing."""
        found: dict[int, Exception] = {}
        for row, producers in changed:
            try:
                with self._transaction(keeps=False):
                    self._write_producers(producers)
                    self._write([row])
            except Exception as error:
                if not is_its_own(error):
                    raise
                found[row.stream_id] = error
        return found

    def _release_held(self, saved: list[int]) -> None:
        held = {id for (id,) in self._writer.execute("select distinct stream_id from held")}
        ids = [(id,) for id in held.intersection(saved)]
        self._writer.executemany("delete from held where stream_id = ?", ids)

    def _write(self, changed: Iterable[Row]) -> list[int]:
        """Write rows, some with each statement; gives the ids of their streams."""
        ids: list[int] = []
        rows = iter(changed)
        while batch := list(islice(rows, _ROWS_A_STATEMENT)):
            self._known.add([row.name for row in batch])
            self._writer.execute(_write_rows(len(batch)), list(chain.from_iterable(batch)))
            ids += [row.stream_id for row in batch]
        return ids

    def _write_kept(self, rows: Mapping[str, bytes | None]) -> None:
        values = [with_sum((key, value)) for key, value in rows.items() if value is not None]
        gone = [(key,) for key, value in rows.items() if value is None]
        self._writer.executemany("replace into kept values (?, ?, ?)", values)
        self._writer.executemany("delete from kept where key = ?", gone)

    def _write_producers(self, producers: list[ProducerRow]) -> None:
        states = [
            (row.stream_id, row.producer_id, row.state.epoch, row.state.seq, row.state.used_ms)
            for row in producers
            if row.state is not None
        ]
        forgotten = [(row.stream_id, row.producer_id) for row in producers if row.state is None]
        self._writer.executemany("replace into producers values (?, ?, ?, ?, ?, ?)", map(with_sum, states))
        self._writer.executemany("delete from producers where stream_id = ? and id = ?", forgotten)

    def complaints(self) -> list[str]:
        """Check the file from end to end, and give what is wrong with it."""
        found = [text for (text,) in self._writer.execute("pragma integrity_check")]
        return [*self.damage, *(f"catalog.db: {text}" for text in found if found != ["ok"])]

    def close(self) -> None:
        """Close the file."""
        try:
            if self._reader is not self._writer:
                self._seal()
        except (OSError, sqlite3.Error):
            pass  # an end that fails must not keep the rest from ending; the file is as it was
        finally:
            # SQLite copies its WAL to the file when it closes it, and there are no checksums for that.
            if self._pages is not None and self._reader is not self._writer:
                self._pages.forget_if_behind()
            self._reader.close()
            self._writer.close()
            if self._pages is not None:
                self._pages.close()

    def _one(self, query: str, value: str | int) -> Row | None:
        found = self._reader.execute(query, (value,)).fetchone()
        if found is None:
            self._must_be_whole()
            return None
        row = Row(*found)
        row.verify()
        return row

    def _must_be_whole(self) -> None:
        """Raise an error if something may be there that is not found."""
        if self.damage:
            raise DamagedError(self.damage[0])

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


def _page_of_names(reader: sqlite3.Connection, prefix: str, after: str) -> list[str]:
    """Give the next names of at least a prefix, in order."""
    query = "select name from streams where name > ? and name >= ? order by name limit ?"
    return [name for (name,) in reader.execute(query, (after, prefix, _NAMES_A_QUERY))]


@lru_cache
def _write_rows(count: int) -> str:
    """Give the statement that writes so many rows."""
    return _WRITE_ROWS.format(", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * count))


def _number(name: str, row: tuple[int, int | None] | None) -> int:
    if row is None:
        return 0
    value, sum = row
    if sum is not None and sum != sum_of((name, value)):
        raise DamagedError(f"catalog.db: the number {name} is damaged.")
    return value


def _is_full(error: OSError | sqlite3.OperationalError) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode == sqlite3.SQLITE_FULL
    return is_full(error)


def _is_of_all(complaint: str) -> bool:
    """Tell whether a page is damaged without which nothing can be found."""
    return complaint.startswith(("catalog.db: page 1 ", "catalog.db: is missing"))


def _connect(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute("pragma wal_autocheckpoint = 0")  # that is done by `pages`
    connection.execute(f"pragma cache_size = -{_CACHE_KIB}")
    return connection
