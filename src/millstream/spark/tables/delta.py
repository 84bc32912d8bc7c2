"""A Delta table: files are added together with an application transaction.

A commit holds the added files and `txn {appId: the query, version: the batch}`, in one atomic step, so a
batch that is repeated finds its number. The table's configuration names the query that writes it.
Small files are merged by `optimize`, and what nobody needs any more is removed by `vacuum`, a week later.
"""

import json
from collections import Counter

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from millstream.spark.options import OptionError
from millstream.spark.tables.data_files import DataFile, DataFolder, with_exact_times
from millstream.spark.tables.formats import (
    COMPACTED_BYTES,
    SMALL_BYTES,
    ArchiveError,
    ArchiveTable,
    Change,
    Kept,
)
from millstream.spark.tables.locations import uri
from millstream.spark.tables.parquet import gathered, write_files

_QUERY = "millstream.query"


class DeltaArchive(ArchiveTable):
    """A Delta table, through delta-rs."""

    def __init__(self, location: str) -> None:
        self._data = DataFolder(location)
        self.location = self._data.location
        self._staged: list[DataFile] = []

    def kept(self, spark: SparkSession) -> Kept | None:
        """Read the table's schema, its configuration and the transaction of its query."""
        table = self._opened()
        if table is None:
            return None
        described = table.metadata()
        query = described.configuration.get(_QUERY)
        if query is None:
            raise ArchiveError(f"{self.location} was not made by archive; archive to another table")
        batch = table.transaction_version(query)
        columns = StructType.fromJson(json.loads(table.schema().to_json()))
        return Kept(query, -1 if batch is None else batch, columns, described.partition_columns)

    def clear(self, batch: int) -> None:
        """Remove files of a batch that were never committed."""
        self._data.clear(batch)

    def fitting(self, columns: StructType) -> StructType:
        """Refuse types that Delta does not have."""
        _schema(columns)
        return columns

    def stage(self, rows: DataFrame, change: Change) -> None:
        """Write files, one for each partition; partition columns are in the names of folders only."""
        with_exact_times(rows.sparkSession)
        below = self._data.new(change.batch)
        write_files(gathered(rows, change), self._data.path(below), change.partition_by)
        self._staged = self._data.written(below)

    def commit(self, change: Change) -> None:
        """Add the files and the transaction; make the table, or add columns to it, before."""
        table = self._opened()
        schema = _schema(change.columns)
        partition_by = list(change.partition_by)
        if table is None:
            table = DeltaTable.create(
                uri(self.location),
                schema,
                mode="ignore",
                partition_by=partition_by,
                configuration={_QUERY: change.query},
                raise_if_key_not_exists=False,  # the query's key is ours
            )
        known = {field.name for field in table.schema().fields}
        added = [field for field in schema.fields if field.name not in known]
        if added:
            table.alter.add_columns(added)
        if not self._staged:
            return
        names: list[AddAction | RemoveAction] = [
            AddAction(
                path=file.path,
                size=file.size,
                partition_values={name: file.partition[name] for name in partition_by},
                modification_time=file.modified_ms,
                data_change=True,
                stats=json.dumps({"numRecords": file.rows}),
            )
            for file in self._staged
        ]
        done = CommitProperties(app_transactions=[Transaction(change.query, change.batch)])
        table.create_write_transaction(names, "append", schema, partition_by, commit_properties=done)

    def compact(self, spark: SparkSession, change: Change, at_least: int) -> None:
        """Merge small files by `optimize`, one partition after the other, and remove what is a week old."""
        table = self._opened()
        if table is None or (change.batch + 1) % at_least:  # each batch adds one file to a partition
            return
        adds = table.get_add_actions(flatten=False)
        sizes, partitions = adds.column("size_bytes"), adds.column("partition")
        small = Counter(
            str(values)
            for size, values in zip(sizes.to_pylist(), partitions.to_pylist(), strict=True)
            if size < SMALL_BYTES
        )
        if max(small.values(), default=0) >= at_least:
            table.optimize.compact(target_size=COMPACTED_BYTES, max_concurrent_tasks=1)
            table.vacuum(dry_run=False)

    def _opened(self) -> DeltaTable | None:
        place = uri(self.location)
        return DeltaTable(place) if DeltaTable.is_deltatable(place) else None


def _schema(columns: StructType) -> Schema:
    """Delta writes schemas as Spark does."""
    try:
        return Schema.from_json(columns.json())
    except (DeltaError, ValueError) as error:
        raise OptionError("schema", f"has a type that Delta tables do not have ({error})") from None
