"""Formats: what `archive` needs of a table, and which format a folder holds.

    kept()                 who writes the table, up to which batch, and its columns
    finish()               carry out the rest of a commit that a crash interrupted
    clear(batch)           remove files of a batch that were never committed
    stage(rows, change)    executors write files that no reader sees
    commit(change)         the files become rows, and the batch's number is kept, in one atomic step
    compact(change)        small files become large ones, also atomically

A batch that is repeated after a crash finds its own number in `kept` and changes nothing.
"""

from abc import ABC, abstractmethod
from importlib.util import find_spec

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from millstream.spark.options import OptionError
from millstream.spark.tables.locations import is_there, opened

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
FORMATS = (PARQUET, DELTA, ICEBERG)
SMALL_BYTES = 32 * 2**20
COMPACTED_BYTES = 128 * 2**20

_MARKS = {PARQUET: "_archive/commit.json", DELTA: "_delta_log", ICEBERG: "metadata/version-hint.text"}
_PACKAGES = {DELTA: "deltalake", ICEBERG: "pyiceberg"}


class ArchiveError(ValueError):
    """This pipeline must not write to the table."""


class MissingPackageError(RuntimeError):
    """The package of a format is not installed; `hint` says what brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{extra} tables need the Python package {package}, which is not installed")
        self.hint = f"pip install 'millstream[{extra}]' brings it"


class Kept(msgspec.Struct, frozen=True):
    """What a table says of itself. `batch` is the last one of `query`, -1 if there is none yet.

    `columns` is None if only the files know them, and `partition_by` if nobody has recorded it.
    """

    query: str
    batch: int
    columns: StructType | None
    partition_by: list[str] | None


class Change(msgspec.Struct, frozen=True):
    """A batch that is added to a table, which then has these columns."""

    query: str
    batch: int
    columns: StructType
    partition_by: tuple[str, ...]


class ArchiveTable(ABC):
    """A table that gains batches."""

    location: str

    @abstractmethod
    def kept(self, spark: SparkSession) -> Kept | None:
        """Return what the table says of itself; None if there is no table yet."""

    def finish(self) -> None:
        """Carry out the rest of the last commit."""
        return  # for most formats a commit is a single step

    @abstractmethod
    def clear(self, batch: int) -> None:
        """Remove files of this batch, which is not committed."""

    @abstractmethod
    def stage(self, rows: DataFrame, change: Change) -> None:
        """Write rows to files that are no part of the table yet."""

    @abstractmethod
    def commit(self, change: Change) -> None:
        """Make what was staged part of the table."""

    @abstractmethod
    def compact(self, spark: SparkSession, change: Change, at_least: int) -> None:
        """Merge small files where a partition has at least this many."""

    def fitting(self, columns: StructType) -> StructType:
        """Return columns with the types that the format stores; refuse those that it does not have."""
        return columns


def archive_table(kind: str, location: str) -> ArchiveTable:
    """Open a table for appending, whether it exists or not; refuse one of another format."""
    check_format(kind)
    found = format_of(location)
    if found is not None and found != kind:
        raise ArchiveError(f"{location} is a table of the format {found}, not {kind}; give --format {found}")
    if kind == DELTA:
        from millstream.spark.tables.delta import DeltaArchive

        return DeltaArchive(location)
    if kind == ICEBERG:
        from millstream.spark.tables.iceberg import IcebergArchive

        return IcebergArchive(location)
    from millstream.spark.tables.parquet import ParquetArchive

    return ParquetArchive(location)


def check_format(kind: str) -> None:
    """Refuse a format that there is not, or whose package is missing."""
    if kind not in FORMATS:
        raise OptionError("format", f"{kind!r} is not one of {', '.join(FORMATS)}")
    package = _PACKAGES.get(kind)
    if package is not None and find_spec(package) is None:
        raise MissingPackageError(package, kind)


def format_of(location: str) -> str | None:
    """Return the format of a table that is there; None if there is none."""
    files, root = opened(location)
    for kind, mark in _MARKS.items():
        if is_there(files, f"{root}/{mark}"):
            return kind
    return None
