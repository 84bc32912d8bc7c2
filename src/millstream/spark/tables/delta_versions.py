"""The versions of a Delta table: its log says which files each of them added and removed."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.types import StructType

from millstream.spark.tables.locations import is_there, opened, uri
from millstream.spark.tables.versions import TableReadError, VersionedTable


class DeltaVersions(VersionedTable):
    """A Delta table, through delta-rs. A file is a fragment of a dataset, which workers can read."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._table = DeltaTable(uri(location))
        self._files, self._root = opened(location)

    def identity(self) -> str:
        """Return the table's id."""
        return str(self._table.metadata().id)

    def latest(self) -> str:
        """Return the number of the last version."""
        return str(self._table.version())

    def columns(self) -> StructType:
        """Return the columns, which Delta writes as Spark does."""
        return StructType.fromJson(json.loads(self._table.schema().to_json()))

    def check(self, version: str) -> None:
        """Refuse a version that there is not."""
        self._at(version)

    def after(self, version: str) -> list[str]:
        """Count on from a version."""
        if int(version) > self._table.version():
            raise self.is_gone(version)
        return [str(number) for number in range(int(version) + 1, self._table.version() + 1)]

    def files(self, version: str) -> list[Any]:
        """List the files of a version, oldest first."""
        table = self._at(version)
        try:
            fragments = list(table.to_pyarrow_dataset().get_fragments())
        except (DeltaError, ValueError) as error:
            raise TableReadError(f"{self.location} cannot be read ({error})") from None
        adds = table.get_add_actions(flatten=True)
        paths, times = adds.column("path").to_pylist(), adds.column("modification_time").to_pylist()
        written = dict(zip(map(unquote, paths), times, strict=True)) | dict(zip(paths, times, strict=True))
        first = min(times, default=None)
        return sorted(fragments, key=lambda one: (written.get(one.path, first), str(one.path)))

    def added(self, version: str) -> list[Any]:
        """List the files that a version added, unless it only rewrote rows into other files."""
        changes = self._changes(version)
        if any("remove" in change and change["remove"].get("dataChange", True) for change in changes):
            raise self.cannot_follow(version, "removed files with rows")
        paths = {
            change["add"]["path"]
            for change in changes
            if "add" in change and change["add"].get("dataChange", True)
        }
        if not paths:
            return []
        names = paths | set(map(unquote, paths))
        return [fragment for fragment in self.files(version) if fragment.path in names]

    def batches(self, file: Any) -> Iterator[pyarrow.RecordBatch]:
        """Read a fragment; values of partition columns are in what is known of it."""
        schema = self._table.to_pyarrow_dataset().schema
        try:
            yield from file.to_batches(schema=schema)
        except FileNotFoundError as error:
            raise TableReadError(
                f"{self.location} no longer has the file {file.path}, which the checkpoint needs: it was "
                "overwritten and cleaned (vacuum). Replay it to another stream, with another checkpoint"
            ) from error

    def _at(self, version: str) -> DeltaTable:
        try:
            return DeltaTable(uri(self.location), version=int(version))
        except (DeltaError, ValueError, FileNotFoundError):
            raise self.is_gone(version) from None

    def _changes(self, version: str) -> list[dict[str, Any]]:
        path = f"{self._root}/_delta_log/{int(version):020}.json"
        if not is_there(self._files, path):
            raise self.is_gone(version)
        with self._files.open_input_stream(path) as file:
            return [json.loads(line) for line in file.readall().splitlines() if line.strip()]
