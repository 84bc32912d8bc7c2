"""Checksums of the catalog's pages, in a file beside it: SQLite has none in its database file.

        catalog.db                        | page 1   | page 2   | page 3   | ...
        catalog.sum  | magic 8, page size 4, crc32c 4 of this file | crc32c 4 | crc32c 4 | crc32c 4 | ...

Each begins with the number of the page. If the checksums are damaged themselves they are computed again.

SQLite writes to its WAL first, and later copies pages from there to the database file. That is done here
alone, after every transaction: SQLite takes a damaged WAL for one that ends there, and would silently return
to an older state. The order:

        1  the numbers of the pages in the WAL are noted
        2  SQLite copies them to the database file, and syncs it
        3  the checksums of these pages are computed, written and synced
        4  SQLite empties the WAL

A crash before 4 leaves the WAL, and the next start begins again with 1. So a page that is not in the WAL has
its checksum whenever a catalog is opened, and is verified before SQLite sees it.
"""

import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from millstream.store.log.crc import crc32c, extend
from millstream.store.log.disk import FILE_MODE, SyncError, sync_path

SUMS = "catalog.sum"
PIECE_PAGES = 256
"""How many pages are examined at once."""
_RUN_PAGES = 64
"""How many pages are read at once: each call gives up Python's lock, which costs more than to read a page."""

_MAGIC = b"MSTRSUM1"
_HEADER = struct.Struct("<8sII")
_SUM = struct.Struct("<I")
_PAGE_SIZES = {2**power for power in range(9, 17)}
_WAL_HEADER_BYTES = 32
_FRAME = struct.Struct(">II")
_FRAME_HEADER_BYTES = 24


class _Known(msgspec.Struct, frozen=True):
    """What the pages are compared with."""

    page_bytes: int
    sums: bytes
    database_bytes: int
    in_wal: frozenset[int]
    """Pages that SQLite reads from its WAL; what the database file has of them does not matter."""

    @property
    def count(self) -> int:
        return max(self.database_bytes // self.page_bytes, len(self.sums) // _SUM.size)


class CatalogPages:
    """The pages of a catalog, and their checksums."""

    def __init__(self, path: Path) -> None:
        self._wal = path.with_name(f"{path.name}-wal")
        self._sums = path.with_name(SUMS)
        self._name = path.name
        # Open until the end: closing any descriptor of a database ends the locks that SQLite has on it.
        self._database = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def close(self) -> None:
        """Close the database file, which nothing may use any more."""
        os.close(self._database)

    def complaints(self) -> list[str]:
        """Compare all pages with their checksums, except those that the WAL has; gives what is wrong."""
        known = self._known()
        if known is None:
            return []
        if not known.database_bytes and known.sums:
            return [f"{self._name}: is missing."]
        return [text for first in range(0, known.count, PIECE_PAGES) for text in self._compare(known, first)]

    def examine(self, first: int) -> list[str] | None:
        """Compare some pages, the first so many left out; None when there are no more. Nobody may write."""
        known = self._known()
        return self._compare(known, first) if known is not None and first < known.count else None

    def _known(self) -> "_Known | None":
        found = self._read()
        if found is None:
            return None
        page_bytes, sums = found
        return _Known(
            page_bytes, sums, os.fstat(self._database).st_size, frozenset(self._pages_in_wal(page_bytes))
        )

    def _compare(self, known: "_Known", first: int) -> list[str]:
        page_bytes, complaints = known.page_bytes, []
        piece = os.pread(self._database, PIECE_PAGES * page_bytes, first * page_bytes)
        for index in range(min(PIECE_PAGES, known.count - first)):
            number = first + index + 1
            page = piece[index * page_bytes : (index + 1) * page_bytes]
            sum = known.sums[(number - 1) * _SUM.size : number * _SUM.size]
            if _SUM.pack(_sum_of(number, page)) != sum and number not in known.in_wal:
                complaints.append(f"{self._name}: page {number} is damaged.")
        return complaints

    def seal(self, connection: sqlite3.Connection) -> None:
        """Copy what the WAL has to the database file, and keep the checksums."""
        page_bytes = int(connection.execute("pragma page_size").fetchone()[0])
        pages = self._pages_in_wal(page_bytes)
        busy, *_ = connection.execute("pragma wal_checkpoint(full)").fetchone()
        if busy:
            return  # a backup reads it
        try:
            self._write(pages, page_bytes)
        except OSError:
            # The next transaction may begin the WAL anew, and then nobody knows which pages these were.
            self._forget()
            raise
        connection.execute("pragma wal_checkpoint(truncate)")

    def forget_if_behind(self) -> None:
        """Remove the checksums if there is a WAL, whose pages get to the file without them."""
        if self._wal.exists() and self._wal.stat().st_size:
            self._forget()

    def _forget(self) -> None:
        """Remove the checksums, durably; the next seal computes all of them."""
        self._sums.unlink(missing_ok=True)
        sync_path(self._sums.parent)

    def _pages_in_wal(self, page_bytes: int) -> list[int]:
        """Read the numbers of all pages that the WAL may hold; also those of frames that are not valid."""
        try:
            wal = os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        try:
            numbers: set[int] = set()
            size, step = os.fstat(wal).st_size, _FRAME_HEADER_BYTES + page_bytes
            for first in range(_WAL_HEADER_BYTES, size, _RUN_PAGES * step):
                run = os.pread(wal, _RUN_PAGES * step, first)
                heads = range(0, len(run) - _FRAME.size + 1, step)
                numbers.update([_FRAME.unpack_from(run, position)[0] for position in heads])
        finally:
            os.close(wal)
        return sorted(numbers)

    def _read(self) -> tuple[int, bytes] | None:
        """Read the checksums, and the size of a page; None when there are none that can be used."""
        try:
            data = self._sums.read_bytes()
        except FileNotFoundError:
            return None
        if len(data) < _HEADER.size:
            return None
        magic, page_bytes, sum = _HEADER.unpack_from(data)
        sums = data[_HEADER.size :]
        is_right = magic == _MAGIC and page_bytes in _PAGE_SIZES and _sum_of(page_bytes, sums) == sum
        return (page_bytes, sums) if is_right else None

    def _write(self, changed: list[int], page_bytes: int) -> None:
        """Write the checksums of pages as they are in the database file now."""
        count = os.fstat(self._database).st_size // page_bytes
        known = self._read()
        sums = bytearray(known[1] if known is not None else b"")[: count * _SUM.size]
        # A page that is new and was never in the WAL: SQLite made it of what lay behind the last one.
        wanted = {*changed, *range(len(sums) // _SUM.size + 1, count + 1)}
        sums.extend(bytes(count * _SUM.size - len(sums)))
        for first, last in _runs(sorted(wanted), count):
            run = os.pread(self._database, (last - first + 1) * page_bytes, (first - 1) * page_bytes)
            for number in range(first, last + 1):
                page = run[(number - first) * page_bytes : (number - first + 1) * page_bytes]
                _SUM.pack_into(sums, (number - 1) * _SUM.size, _sum_of(number, page))
        header = _HEADER.pack(_MAGIC, page_bytes, _sum_of(page_bytes, bytes(sums)))
        file = os.open(self._sums, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            os.pwrite(file, header + sums, 0)
            os.ftruncate(file, len(header) + len(sums))
            try:
                os.fsync(file)
            except OSError as error:
                raise SyncError(error.errno, error.strerror) from error
        finally:
            os.close(file)


def _runs(numbers: Sequence[int], last: int) -> Iterator[tuple[int, int]]:
    """Give the first and last of numbers that follow each other, up to a last one, some at a time."""
    begin = end = 0
    for number in numbers:
        if not 0 < number <= last:
            continue
        if begin and (number != end + 1 or number - begin == _RUN_PAGES):
            yield begin, end
            begin = 0
        begin, end = begin or number, number
    if begin:
        yield begin, end


def _sum_of(number: int, page: bytes) -> int:
    return extend(crc32c(_SUM.pack(number)), page)
