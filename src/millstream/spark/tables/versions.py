"""Versions: a table as Spark reads it once, version after version, a few files in each batch.

    {"table": "9b24b221-...", "base": "4", "version": "6", "files": 3}

An offset of the query says which table it is, which version it began with, and how many files were read of
the version that it is at. Of the first version all files are read, of a later one those that it added. So
the checkpoint fixes what a batch holds, whatever is written to the table meanwhile. A version that took rows
away, or changed them, cannot be followed: streams only grow. Neither can one that the table no longer has.
Merging small files changes no row.

Files are read by executors, with the packages of the formats (`delta_versions`, `iceberg_versions`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from millstream.spark.options import OptionError
from millstream.spark.sessions import register
from millstream.spark.tables.formats import DELTA, ArchiveError, check_format, format_of

FILES_PER_BATCH = 16
_ANEW = "Replay it to another stream, with another checkpoint"
_OPTIONS = ("maxFilesPerTrigger", "version")


class TableReadError(ArchiveError):
    """The table is not what the checkpoint says, or has versions that streams cannot follow."""


class Place(msgspec.Struct, frozen=True):
    """How far a table was read."""

    table: str
    base: str
    version: str
    files: int


class VersionedTable(ABC):
    """A table with versions, each of which is known by its name."""

    location: str

    @abstractmethod
    def identity(self) -> str:
        """Return what tells this table from another one at the same place."""

    @abstractmethod
    def latest(self) -> str:
        """Return the last version."""

    @abstractmethod
    def columns(self) -> StructType:
        """Return the columns of the last version."""

    @abstractmethod
    def check(self, version: str) -> None:
        """Refuse a version that there is not, or no longer."""

    @abstractmethod
    def after(self, version: str) -> list[str]:
        """List the versions after one, oldest first."""

    @abstractmethod
    def files(self, version: str) -> list[Any]:
        """List all files of a version, in a fixed order; a worker reads them by `batches`."""

    @abstractmethod
    def added(self, version: str) -> list[Any]:
        """List the files that a version added; refuse one that took rows away."""

    @abstractmethod
    def batches(self, file: Any) -> Iterator[pyarrow.RecordBatch]:
        """Read one file, with the columns of the last version."""

    def cannot_follow(self, version: str, why: str) -> TableReadError:
        """Say that a version cannot become part of a stream."""
        return TableReadError(
            f"{self.location} was overwritten, or rows of it were deleted or changed: its version {version} "
            f"{why}. Streams only grow; what was read before it stays. {_ANEW}"
        )

    def is_gone(self, version: str) -> TableReadError:
        """Say that a version is no longer there."""
        return TableReadError(
            f"{self.location} no longer has its version {version}, which the checkpoint needs: it was "
            f"overwritten, or its old versions were removed. {_ANEW}"
        )


def versioned_table(kind: str, location: str) -> VersionedTable:
    """Open a table; refuse one that is not there."""
    check_format(kind)
    found = format_of(location)
    if found != kind and not location.endswith(".json"):
        there = "there is no table" if found is None else f"it is a table of the format {found}"
        raise OptionError("path", f"{location!r} is not a table of the format {kind}: {there}")
    if kind == DELTA:
        from millstream.spark.tables.delta_versions import DeltaVersions

        return DeltaVersions(location)
    from millstream.spark.tables.iceberg_versions import IcebergVersions

    return IcebergVersions(location)


def following_table(spark: SparkSession, kind: str, location: str, options: dict[str, str]) -> DataFrame:
    """Read a table as a streaming table."""
    for name in options:
        if name not in _OPTIONS:
            raise OptionError(name, f"is not known for {kind}; there are {' and '.join(_OPTIONS)}")
    reader = spark.readStream.format(register(spark, TableSource)).options(
        kind=kind, location=location, **options
    )
    return reader.schema(versioned_table(kind, location).columns()).load()


class TableSource(DataSource):
    """The rows of a table with versions."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "millstream-table"

    def streamReader(self, schema: StructType) -> "_Reader":
        """Make the reader of a streaming query."""
        most = int(self.options.get("maxFilesPerTrigger", FILES_PER_BATCH))
        return _Reader(
            self.options["kind"], self.options["location"], schema, most, self.options.get("version")
        )


class _Files(InputPartition):
    def __init__(self, file: Any) -> None:
        self.file = file


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, kind: str, location: str, schema: StructType, most: int, base: str | None) -> None:
        self._kind, self._location, self._schema = kind, location, schema
        self._most = max(1, most)
        self._base = base
        self._target: str | None = None

    def initialOffset(self) -> dict[str, Any]:
        table = self._table()
        base = table.latest() if self._base is None else self._base
        table.check(base)
        return _written(Place(table.identity(), base, base, 0))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._table().latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        place = msgspec.convert(start, Place)
        table = self._checked(place)
        left = self._most
        versions = [place.version, *_until(table.after(place.version), self._target)]
        for version in versions:
            done = place.files if version == place.version else 0
            there = len(_files(table, place, version))
            taken = min(left, there - done)
            left -= taken
            place = Place(place.table, place.base, version, done + taken)
            if place.files < there:
                break
        return _written(place)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = msgspec.convert(start, Place), msgspec.convert(end, Place)
        if first == last:
            return []
        table = self._checked(last)
        found: list[Any] = []
        for version in [first.version, *_until(table.after(first.version), last.version)]:
            begin = first.files if version == first.version else 0
            files = _files(table, last, version)
            found += files[begin : last.files if version == last.version else len(files)]
            if version == last.version:
                break
        return [_Files(file) for file in found]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if not isinstance(partition, _Files):
            return
        table = self._table()
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        for batch in table.batches(partition.file):
            if batch.num_rows:
                columns = [batch.column(field.name).cast(field.type) for field in wanted]
                yield pyarrow.RecordBatch.from_arrays(columns, schema=wanted)

    def _table(self) -> VersionedTable:
        return versioned_table(self._kind, self._location)

    def _checked(self, place: Place) -> VersionedTable:
        table = self._table()
        if table.identity() != place.table:
            raise TableReadError(
                f"{self._location} is another table than the one that the checkpoint began with: it was made "
                f"anew. {_ANEW}"
            )
        return table


def _files(table: VersionedTable, place: Place, version: str) -> list[Any]:
    return table.files(version) if version == place.base else table.added(version)


def _until(versions: list[str], last: str | None) -> list[str]:
    """Keep the versions up to one; none of them if it is not there, because it is older than all."""
    if last is None:
        return versions
    return versions[: versions.index(last) + 1] if last in versions else []


def _written(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(place)
    return found
