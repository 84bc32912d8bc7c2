"""A folder of Parquet files as a table: rows are staged beside it, committed, and moved to their places."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from millstream.spark.sink.columns import OFFSET, STREAM
from millstream.spark.tables.formats import COMPACTED_BYTES, SMALL_BYTES, ArchiveTable, Change, Kept
from millstream.spark.tables.parquet_files import Commit, Table, small_groups, targets


class ParquetArchive(ArchiveTable):
    """A table without a catalog, that anything which reads Parquet can read."""

    def __init__(self, location: str) -> None:
        self._table = Table(location)
        self.location = self._table.location

    def kept(self, spark: SparkSession) -> Kept | None:
        """Return the last commit; tables of former versions have no columns there."""
        last = self._table.last_commit()
        if last is None:
            return None
        columns = None
        if last.columns is not None:
            columns = StructType.fromJson(last.columns)
        elif files := self._table.files():
            paths = [self._table.path(file.path) for file in files]
            columns = spark.read.option("basePath", self.location).parquet(*paths).schema
        return Kept(last.query, last.batch, columns, last.partition_by)

    def finish(self) -> None:
        """Move the last commit's files to their places."""
        last = self._table.last_commit()
        if last is not None:
            self._table.finish(last)

    def clear(self, batch: int) -> None:
        """Remove what is staged."""
        self._table.clear_staged()

    def stage(self, rows: DataFrame, change: Change) -> None:
        """Write rows to the staging folder, one file for each partition."""
        write_files(gathered(rows, change), self._table.staged_path(str(change.batch)), change.partition_by)

    def commit(self, change: Change) -> None:
        """Move the batch's files to their places."""
        below = str(change.batch)
        self._apply(change, targets(self._table.staged_files(below), below, change.batch), [])

    def compact(self, spark: SparkSession, change: Change, at_least: int) -> None:
        """Merge small files, folder by folder, each an atomic change of the table."""
        inside = StructType([one for one in change.columns.fields if one.name not in change.partition_by])
        groups = small_groups(
            self._table.files(), at_least=at_least, below_bytes=SMALL_BYTES, group_bytes=COMPACTED_BYTES
        )
        for index, group in enumerate(groups):
            below = f"{change.batch}-{index}"
            rows = spark.read.schema(inside).parquet(*(self._table.path(file.path) for file in group))
            write_files(rows.coalesce(1), self._table.staged_path(f"{below}/{group[0].folder}"), ())
            adds = targets(self._table.staged_files(below), below, change.batch, f"c{index}-")
            self._apply(change, adds, [file.path for file in group])

    def _apply(self, change: Change, adds: list[tuple[str, str]], removes: list[str]) -> None:
        columns, partition_by = change.columns.jsonValue(), list(change.partition_by)
        self._table.apply(Commit(change.query, change.batch, adds, removes, columns, partition_by))


def gathered(rows: DataFrame, change: Change) -> DataFrame:
    """Give rows the table's columns, and bring those of a partition together."""
    columns = change.columns.fields
    kept = rows.select(
        *(
            f.col(f"`{field.name}`").cast(field.dataType).alias(field.name)
            if field.name in rows.columns
            else f.lit(None).cast(field.dataType).alias(field.name)
            for field in columns
        )
    )
    return kept.repartition(*(f.col(f"`{name}`") for name in change.partition_by or [columns[0].name]))


def write_files(rows: DataFrame, path: str, partition_by: Sequence[str]) -> None:
    """Write rows as Parquet files, in folders that hold the values of these columns."""
    writer = rows.sortWithinPartitions(*partition_by, STREAM, OFFSET).write.mode("overwrite")
    (writer.partitionBy(*partition_by) if partition_by else writer).parquet(path)
