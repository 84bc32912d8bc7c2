"""An Iceberg table: files are added together with the batch's number.

The number is a property of the snapshot, and, in the same commit, of the table, where it outlives the
snapshot and what other engines do. A batch that is repeated finds it there. The table's properties also name
the query that writes it.

Files hold their partition columns, because Iceberg takes the values from the files' statistics; the folders
that Spark needs to write one file for each partition are named after copies. Small files are merged by
executors, and replaced in one snapshot. Snapshots live for six hours: after that, at the next merge, the
files that only they had are deleted.
"""

import datetime
from collections.abc import Iterable

from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from millstream.spark.tables.data_files import DataFolder, with_exact_times
from millstream.spark.tables.formats import (
    COMPACTED_BYTES,
    SMALL_BYTES,
    ArchiveError,
    ArchiveTable,
    Change,
    Kept,
)
from millstream.spark.tables.iceberg_folder import FolderCatalog
from millstream.spark.tables.iceberg_types import from_iceberg, to_iceberg, widened
from millstream.spark.tables.locations import uri
from millstream.spark.tables.parquet import gathered, write_files

SNAPSHOT_HOURS = 6
MERGED = "millstream.merged"
"""Marks snapshots whose rows are those of the one before, in other files."""

_QUERY, _BATCH = "millstream.query", "millstream.batch"
_FIRST_PARTITION_ID = 1000
_PROPERTIES = {
    "format-version": "2",
    "commit.manifest-merge.enabled": "true",  # else each batch would leave a manifest of its own
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class IcebergArchive(ArchiveTable):
    """An Iceberg table in a folder, through pyiceberg."""

    def __init__(self, location: str) -> None:
        self._data = DataFolder(location)
        self.location = self._data.location
        self._catalog = FolderCatalog(location)
        self._staged: list[str] = []

    def kept(self, spark: SparkSession) -> Kept | None:
        """Read the table's schema and properties."""
        table = self._opened()
        if table is None:
            return None
        query = table.properties.get(_QUERY)
        if query is None:
            raise ArchiveError(f"{self.location} was not made by archive; archive to another table")
        partition_by = [field.name for field in table.spec().fields]
        batch = int(table.properties.get(_BATCH, "-1"))
        return Kept(query, batch, from_iceberg(table.schema()), partition_by)

    def clear(self, batch: int) -> None:
        """Remove files of a batch that were never committed."""
        self._data.clear(batch)

    def fitting(self, columns: StructType) -> StructType:
        """Widen small integers, and refuse types that Iceberg does not have."""
        fitting = widened(columns)
        assert isinstance(fitting, StructType)  # a struct stays one
        to_iceberg(fitting)
        return fitting

    def stage(self, rows: DataFrame, change: Change) -> None:
        """Write files, one for each partition."""
        with_exact_times(rows.sparkSession)
        self._staged = self._written(gathered(rows, change), change)

    def commit(self, change: Change) -> None:
        """Add the files and the batch's number; make the table, or add columns to it, before."""
        table = self._opened() or self._created(change)
        wanted = to_iceberg(change.columns)
        if from_iceberg(table.schema()) != change.columns:
            with table.update_schema() as update:
                update.union_by_name(wanted)
        if self._staged:
            with table.transaction() as transaction:
                transaction.set_properties({_BATCH: str(change.batch)})
                transaction.add_files(
                    self._staged, snapshot_properties=_provenance(change), check_duplicate_files=False
                )

    def compact(self, spark: SparkSession, change: Change, at_least: int) -> None:
        """Replace the small files of a partition by one, in one snapshot."""
        table = self._opened()
        if table is None or (change.batch + 1) % at_least:  # each batch adds one file to a partition
            return
        merged = False
        for group in _small_groups((task.file for task in table.scan().plan_files()), at_least):
            rows = spark.read.schema(change.columns).parquet(*(file.file_path for file in group))
            written = self._written(rows.coalesce(1), change)
            with table.transaction() as transaction:
                properties = {**_provenance(change), MERGED: "true"}
                update = transaction.update_snapshot(snapshot_properties=properties)
                with update.overwrite() as replacing:
                    for file in group:
                        replacing.delete_data_file(file)
                    for path in written:
                        replacing.append_data_file(
                            parquet_file_to_data_file(table.io, transaction.table_metadata, path)
                        )
            merged = True
        if merged:
            self._expire(table)

    def _written(self, rows: DataFrame, change: Change) -> list[str]:
        """Write rows in folders that are named after copies of the partition columns."""
        copies = {f"_partition_{number}": name for number, name in enumerate(change.partition_by)}
        below = self._data.new(change.batch)
        marked = rows.withColumns({copy: f.col(f"`{name}`") for copy, name in copies.items()})
        write_files(marked, self._data.path(below), list(copies))
        return [f"{uri(self.location)}/{file.path}" for file in self._data.written(below)]

    def _created(self, change: Change) -> Table:
        schema = to_iceberg(change.columns)
        fields = [
            PartitionField(
                schema.find_field(name).field_id, _FIRST_PARTITION_ID + number, IdentityTransform(), name
            )
            for number, name in enumerate(change.partition_by)
        ]
        properties = {**_PROPERTIES, _QUERY: change.query}
        place = uri(self.location)
        metadata = new_table_metadata(schema, PartitionSpec(*fields), UNSORTED_SORT_ORDER, place, properties)
        return self._catalog.create(metadata)

    def _expire(self, table: Table) -> None:
        """Forget old snapshots, and delete the files that only they had."""
        before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=SNAPSHOT_HOURS)
        snapshots = list(table.snapshots())
        table.maintenance.expire_snapshots().older_than(before).commit()
        left = {snapshot.snapshot_id for snapshot in table.snapshots()}
        expired = [snapshot for snapshot in snapshots if snapshot.snapshot_id not in left]
        if not expired:
            return
        needed = _files(table, table.snapshots())
        for path in _files(table, expired) - needed:
            self._data.delete(path.removeprefix(uri(self.location)).lstrip("/"))

    def _opened(self) -> Table | None:
        return self._catalog.load_table() if self._catalog.table_exists() else None


def _provenance(change: Change) -> dict[str, str]:
    return {_QUERY: change.query, _BATCH: str(change.batch)}


def _small_groups(files: Iterable[DataFile], at_least: int) -> list[list[DataFile]]:
    """Choose groups of small files, each in one partition, to merge."""
    by_partition: dict[str, list[DataFile]] = {}
    for file in files:
        if file.file_size_in_bytes < SMALL_BYTES:
            by_partition.setdefault(repr(file.partition), []).append(file)
    groups = []
    for small in by_partition.values():
        size = 0
        group: list[DataFile] = []
        for file in small:
            size += file.file_size_in_bytes
            if group and size > COMPACTED_BYTES:
                break
            group.append(file)
        if len(small) >= at_least and len(group) > 1:
            groups.append(group)
    return groups


def _files(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return every file that some snapshots have: lists, manifests and data."""
    found: set[str] = set()
    for snapshot in snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in found:
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io)
                found.update(entry.data_file.file_path for entry in entries)
    return found
