"""Data files: what executors write inside a table, before the table's commit names it.

    table/data/000000012-3f6c.../date=2026-11-18/part-....parquet

A batch has a folder of its own. A folder that was never committed is removed before its batch is repeated;
until then no reader knows of it, because Delta and Iceberg tables consist of the files that they name.
"""

import uuid
from urllib.parse import unquote

import msgspec
from pyarrow import fs, parquet
from pyspark.sql import SparkSession

from millstream.spark.tables.locations import located, opened

DATA = "data"
_SUFFIX = ".parquet"
_NULL = "__HIVE_DEFAULT_PARTITION__"
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


class DataFile(msgspec.Struct, frozen=True):
    """A file that was written: its path below the table, and what its footer says."""

    path: str
    size: int
    rows: int
    modified_ms: int
    partition: dict[str, str | None]
    """The values in the names of its folders, as text."""


class DataFolder:
    """The data files of one table."""

    def __init__(self, location: str) -> None:
        self.location = located(location).rstrip("/")
        self._files, self._root = opened(location)

    def new(self, batch: int) -> str:
        """Return the name of a folder for a batch, or for files merged after it."""
        return f"{DATA}/{batch:09}-{uuid.uuid4().hex}"

    def path(self, below: str) -> str:
        """Return a path in Spark's form."""
        return f"{self.location}/{below}"

    def clear(self, batch: int) -> None:
        """Remove the folders of a batch that is not committed."""
        selector = fs.FileSelector(f"{self._root}/{DATA}", allow_not_found=True)
        for info in self._files.get_file_info(selector):
            if info.base_name.startswith(f"{batch:09}-") and info.type is fs.FileType.Directory:
                self._files.delete_dir(info.path)

    def written(self, below: str) -> list[DataFile]:
        """List the files with rows in them below a folder."""
        selector = fs.FileSelector(f"{self._root}/{below}", recursive=True, allow_not_found=True)
        found = []
        for info in sorted(self._files.get_file_info(selector), key=lambda info: info.path):
            if info.type is not fs.FileType.File or not info.path.endswith(_SUFFIX):
                continue
            with self._files.open_input_file(info.path) as file:
                rows = parquet.read_metadata(file).num_rows
            if rows:
                path = info.path.removeprefix(self._root).lstrip("/")
                modified_ms = (info.mtime_ns or 0) // 10**6
                found.append(DataFile(path, info.size, rows, modified_ms, partition_of(path)))
        return found

    def delete(self, path: str) -> None:
        """Delete a file below the table, if it is there."""
        [info] = self._files.get_file_info([f"{self._root}/{path}"])
        if info.type is fs.FileType.File:
            self._files.delete_file(info.path)


def partition_of(path: str) -> dict[str, str | None]:
    """Return the values of partition columns that Spark has written into the names of folders."""
    pairs = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}


def with_exact_times(spark: SparkSession) -> None:
    """Let Spark write times in microseconds, which the formats prescribe; its default is older.

    A query has settings of its own, so nobody else's files change.
    """
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
