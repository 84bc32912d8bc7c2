"""The versions of an Iceberg table: its snapshots, each of which follows its parent."""

from collections.abc import Iterator
from typing import Any

import pyarrow
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table import StaticTable
from pyiceberg.table.snapshots import Operation, Snapshot
from pyspark.sql.types import StructType

from millstream.spark.tables.iceberg import MERGED
from millstream.spark.tables.iceberg_types import from_iceberg
from millstream.spark.tables.locations import uri
from millstream.spark.tables.versions import TableReadError, VersionedTable

EMPTY = "0"
"""The version of a table that has no snapshot yet."""


class IcebergVersions(VersionedTable):
    """An Iceberg table in a folder, or by the path of its metadata."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._table = StaticTable.from_metadata(uri(location))

    def identity(self) -> str:
        """Return the table's id."""
        return str(self._table.metadata.table_uuid)

    def latest(self) -> str:
        """Return the id of the current snapshot."""
        current = self._table.current_snapshot()
        return EMPTY if current is None else str(current.snapshot_id)

    def columns(self) -> StructType:
        """Return the columns as Spark's."""
        return from_iceberg(self._table.schema())

    def check(self, version: str) -> None:
        """Refuse a snapshot that there is not."""
        if version != EMPTY:
            self._snapshot(version)

    def after(self, version: str) -> list[str]:
        """Walk back from the current snapshot."""
        found: list[str] = []
        at = self._table.current_snapshot()
        while at is not None and str(at.snapshot_id) != version:
            found.append(str(at.snapshot_id))
            if at.parent_snapshot_id is None:
                at = None
                break
            at = self._table.snapshot_by_id(at.parent_snapshot_id)
        if at is None and version != EMPTY:
            raise self.is_gone(version)
        return found[::-1]

    def files(self, version: str) -> list[Any]:
        """List what a snapshot has, oldest first: each file with the deletions that belong to it."""
        if version == EMPTY:
            return []
        numbers = {
            entry.data_file.file_path: entry.sequence_number or 0
            for manifest in self._snapshot(version).manifests(self._table.io)
            for entry in manifest.fetch_manifest_entry(self._table.io)
        }
        tasks = self._table.scan(snapshot_id=int(version)).plan_files()
        return sorted(tasks, key=lambda one: (numbers.get(one.file.file_path, 0), one.file.file_path))

    def added(self, version: str) -> list[Any]:
        """List the files that a snapshot added, unless it only rewrote rows into other files."""
        snapshot = self._snapshot(version)
        summary = snapshot.summary
        operation = None if summary is None else summary.operation
        if operation is Operation.REPLACE or (summary is not None and summary.get(MERGED) == "true"):
            return []
        if operation is not Operation.APPEND:
            raise self.cannot_follow(version, f"is of the kind {operation.value if operation else 'unknown'}")
        paths = {
            entry.data_file.file_path
            for manifest in snapshot.manifests(self._table.io)
            if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(self._table.io)
            if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
        }
        return [task for task in self.files(version) if task.file.file_path in paths]

    def batches(self, file: Any) -> Iterator[pyarrow.RecordBatch]:
        """Read one file."""
        metadata, schema = self._table.metadata, self._table.schema()
        scan = ArrowScan(metadata, self._table.io, schema, AlwaysTrue())
        try:
            yield from scan.to_record_batches([file])
        except FileNotFoundError as error:
            raise TableReadError(
                f"{self.location} no longer has the file {file.file.file_path}, which the checkpoint needs: "
                "its snapshot has expired. Replay it to another stream, with another checkpoint"
            ) from error

    def _snapshot(self, version: str) -> Snapshot:
        found = self._table.snapshot_by_id(int(version)) if version.isdecimal() else None
        if found is None:
            raise self.is_gone(version)
        return found
