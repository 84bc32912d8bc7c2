"""A catalog for one Iceberg table, in the table's own folder, as Hadoop's catalogs lay it out.

    table/metadata/v12.metadata.json     a version of the table
    table/metadata/version-hint.text     12
    table/metadata/*.avro                which files each snapshot has
    table/data/                          the files

The version with the highest number is the table. A version is written beside its place and then moved there:
that is the commit. The hint follows; where a crash came between the two, the next version is looked for.
Every reader that takes a folder (DuckDB, Spark, `StaticTable` of pyiceberg) starts from the hint. Nothing but
files is needed, on a disk or in a bucket, because a table has one writer: the query that its properties
name.
"""

import re
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import update_table_metadata

from millstream.spark.tables.locations import is_there, opened, uri

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_HINT = "metadata/version-hint.text"
_VERSION = re.compile(r"/v(\d+)\.metadata\.json$")


class FolderCatalog(NoopCatalog):
    """Loads and commits the table of one folder."""

    def __init__(self, location: str) -> None:
        super().__init__("folder")
        self.location = uri(location)
        self._files, self._root = opened(location)

    def create(self, metadata: "TableMetadata") -> Table:
        """Write the first version of the table."""
        self._files.create_dir(f"{self._root}/metadata", recursive=True)
        self._put(1, metadata)
        return self._table(1, metadata)

    def load_table(self, identifier: Any = ()) -> Table:
        """Load the last version."""
        version = self._version()
        file = self.io().new_input(self._place(version))
        return self._table(version, FromInputFile.table_metadata(file))

    def table_exists(self, identifier: Any = ()) -> bool:
        """Return whether there is a version."""
        return is_there(self._files, self._path(1)) or is_there(self._files, f"{self._root}/{_HINT}")

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Write the next version; one that another has written meanwhile is not replaced."""
        found = _VERSION.search(table.metadata_location)
        version = int(found[1]) + 1 if found else 1
        for requirement in requirements:
            requirement.validate(table.metadata)
        updated = update_table_metadata(
            table.metadata, updates, enforce_validation=False, metadata_location=table.metadata_location
        )
        if is_there(self._files, self._path(version)):
            raise CommitFailedException(f"{self._place(version)} was written by another query")
        self._put(version, updated)
        self._delete_old_metadata(self.io(), table.metadata, updated)
        return CommitTableResponse(metadata=updated, **{"metadata-location": self._place(version)})

    def io(self) -> FileIO:
        """Return what reads and writes files."""
        return load_file_io({}, self.location)

    def _table(self, version: int, metadata: "TableMetadata") -> Table:
        return Table(("archive", "table"), metadata, self._place(version), self.io(), self)

    def _version(self) -> int:
        """Return the last version: the one of the hint, or one after it."""
        hint = f"{self._root}/{_HINT}"
        version = 1
        if is_there(self._files, hint):
            with self._files.open_input_stream(hint) as file:
                version = int(file.readall())
        elif not is_there(self._files, self._path(version)):
            raise NoSuchTableError(f"there is no table in {self.location}")
        while is_there(self._files, self._path(version + 1)):
            version += 1
        return version

    def _put(self, version: int, metadata: "TableMetadata") -> None:
        """Commit a version, and tell the hint."""
        written = f"metadata/v{version}.metadata.json.new"
        ToOutputFile.table_metadata(
            metadata, self.io().new_output(f"{self.location}/{written}"), overwrite=True
        )
        self._files.move(f"{self._root}/{written}", self._path(version))
        with self._files.open_output_stream(f"{self._root}/{_HINT}.new") as file:
            file.write(str(version).encode())
        self._files.move(f"{self._root}/{_HINT}.new", f"{self._root}/{_HINT}")

    def _path(self, version: int) -> str:
        return f"{self._root}/metadata/v{version}.metadata.json"

    def _place(self, version: int) -> str:
        return f"{self.location}/metadata/v{version}.metadata.json"
