"""A Parquet table that gains files atomically, and is compacted, without a catalog service.

    table/date=2026-11-15/000000012-0000.parquet      what readers see
    table/_archive/commit.json                         the last change: files added and removed; the columns
    table/_checkpoint/                                 Spark's, unless another place is given
    .table.staged/                                     files not committed yet
    .table.reading/                                    files that a reader has opened, as hard links

Spark and pandas skip names that begin with an underscore; DuckDB's `**/*.parquet` does not, so files that
are no part of the table are beside it. A batch is written to `.table.staged`;
replacing `commit.json` commits it; then its files are moved to their places, and only then the files that
they replace are removed (compaction). A crash before the commit leaves nothing; after it, the next run
finishes the change. A repeated batch finds its own number in the commit and changes nothing.
"""

import os
import shutil
import time
import uuid
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from pyarrow import fs

from millstream.spark.tables.locations import is_there, located, opened

HIDDEN = "_archive"
_COMMIT = f"{HIDDEN}/commit.json"
_FORMER_STAGED = f"{HIDDEN}/staged"
_SUFFIX = ".parquet"
_READING_S = 24 * 3600
"""For how long a reader may use what it has opened."""


class Commit(msgspec.Struct, frozen=True):
    """One change of a table. Paths are below the table; those of `adds` are pairs, from and to.

    What is added comes from the staging folder. `columns` is the table's schema in Spark's JSON; None in
    tables of former versions.
    """

    query: str
    batch: int
    adds: list[tuple[str, str]]
    removes: list[str] = []
    columns: dict[str, Any] | None = None
    partition_by: list[str] | None = None


class File(msgspec.Struct, frozen=True):
    """A file of a table."""

    path: str
    size: int

    @property
    def folder(self) -> str:
        """Its folder, which encodes the values of its partition columns."""
        return str(PurePosixPath(self.path).parent)


class Table:
    """The files of a table, as the driver uses them."""

    def __init__(self, location: str) -> None:
        self.location = located(location)
        self._files, self._root = opened(location)
        self._is_local = isinstance(self._files, fs.LocalFileSystem)
        self._staging = _beside(self._root, "staged") or f"{self._root}/{_FORMER_STAGED}"
        self._staging_location = _beside(self.location.rstrip("/"), "staged") or self.path(_FORMER_STAGED)

    def staged_path(self, below: str) -> str:
        """Return a path in the staging folder, in Spark's form."""
        return f"{self._staging_location}/{below}"

    def staged_files(self, below: str) -> list[File]:
        """List the Parquet files that are staged below a path; their paths are below the staging folder."""
        return self._list(self._staging, below)

    def path(self, below: str) -> str:
        """Return a path in Spark's form."""
        return f"{self.location.rstrip('/')}/{below}"

    def last_commit(self) -> Commit | None:
        """Read the last change."""
        if not self._exists(_COMMIT):
            return None
        with self._files.open_input_stream(f"{self._root}/{_COMMIT}") as file:
            return msgspec.json.decode(file.readall(), type=Commit)

    def apply(self, commit: Commit) -> None:
        """Commit a change, and carry it out."""
        self._files.create_dir(f"{self._root}/{HIDDEN}", recursive=True)
        written = f"{self._root}/{_COMMIT}.new"
        with self._files.open_output_stream(written) as file:
            file.write(msgspec.json.encode(commit))
        self._files.move(written, f"{self._root}/{_COMMIT}")
        self.finish(commit)

    def finish(self, commit: Commit) -> None:
        """Carry out the rest of a change; idempotent."""
        for source, target in commit.adds:
            staging = self._root if source.startswith(f"{_FORMER_STAGED}/") else self._staging
            if self._is_there(f"{staging}/{source}"):
                self._files.create_dir(f"{self._root}/{PurePosixPath(target).parent}", recursive=True)
                self._files.move(f"{staging}/{source}", f"{self._root}/{target}")
        for path in commit.removes:
            if self._exists(path):
                self._files.delete_file(f"{self._root}/{path}")

    def clear_staged(self) -> None:
        """Remove staged files that were never committed."""
        for staging in {self._staging, f"{self._root}/{_FORMER_STAGED}"}:
            if self._is_there(staging):
                self._files.delete_dir(staging)

    def files(self) -> list[File]:
        """List the table's Parquet files."""
        return self._list(self._root, "")

    def opened(self) -> tuple[str, list[str]]:
        """Open a snapshot: a base folder, and files below it that stay there though the table changes.

        Where files cannot be linked (object stores, or a reader that may not write beside the table) they are
        those of the table, and compaction may remove them.
        """
        beside = _beside(self._root, "reading") if self._is_local else None
        while beside is not None:
            _remove_old(Path(beside))
            base = f"{beside}/{int(time.time())}-{uuid.uuid4().hex}"
            files = self.snapshot()
            try:
                for file in files:
                    Path(f"{base}/{file.path}").parent.mkdir(parents=True, exist_ok=True)
                    os.link(f"{self._root}/{file.path}", f"{base}/{file.path}")
                return base, [f"{base}/{file.path}" for file in files]
            except FileNotFoundError:  # compacted meanwhile
                shutil.rmtree(base, ignore_errors=True)
            except OSError:
                shutil.rmtree(base, ignore_errors=True)
                break
        return self.location, [self.path(file.path) for file in self.snapshot()]

    def _list(self, root: str, below: str) -> list[File]:
        base = f"{root}/{below}".rstrip("/")
        selector = fs.FileSelector(base, recursive=True, allow_not_found=True)
        found = []
        for info in self._files.get_file_info(selector):
            path = info.path.removeprefix(root).lstrip("/")
            inside = path.removeprefix(below).lstrip("/").split("/")
            is_hidden = any(part.startswith(("_", ".")) and "=" not in part for part in inside)
            if info.type is fs.FileType.File and path.endswith(_SUFFIX) and not is_hidden:
                found.append(File(path, info.size))
        return sorted(found, key=lambda file: file.path)

    def snapshot(self) -> list[File]:
        """List the files of one consistent state of the table, even while it changes."""
        while True:
            before = self.last_commit()
            found = self.files()
            if self.last_commit() == before:
                return found if before is None else _as_of(found, before)

    def _exists(self, below: str) -> bool:
        return self._is_there(f"{self._root}/{below}")

    def _is_there(self, path: str) -> bool:
        return is_there(self._files, path)


def _beside(path: str, what: str) -> str | None:
    """Return the path of a hidden folder beside a table; None for one that has nothing beside it."""
    parent, slash, name = path.rstrip("/").rpartition("/")
    is_root = not slash or not name or not parent or parent.endswith(":/")
    return None if is_root else f"{parent}/.{name}.{what}"


def _remove_old(reading: Path) -> None:
    """Remove what readers have opened long ago."""
    for folder in reading.glob("*-*"):
        began = folder.name.partition("-")[0]
        if began.isdecimal() and int(began) < time.time() - _READING_S:
            shutil.rmtree(folder, ignore_errors=True)


def targets(staged: list[File], below: str, batch: int, kind: str = "") -> list[tuple[str, str]]:
    """Map staged files to their places: the same folders, with names that contain the batch."""
    pairs = []
    for number, file in enumerate(staged):
        folder = PurePosixPath(file.folder).relative_to(below)
        pairs.append((file.path, str(folder / f"{batch:09}-{kind}{number:04}{_SUFFIX}")))
    return pairs


def small_groups(files: list[File], *, at_least: int, below_bytes: int, group_bytes: int) -> list[list[File]]:
    """Choose groups of small files, each in one folder, to merge."""
    by_folder: dict[str, list[File]] = {}
    for file in files:
        if file.size < below_bytes:
            by_folder.setdefault(file.folder, []).append(file)
    groups = []
    for small in by_folder.values():
        group: list[File] = []
        for file in small:
            if group and sum(one.size for one in group) + file.size > group_bytes:
                break
            group.append(file)
        if len(small) >= at_least and len(group) > 1:
            groups.append(group)
    return groups


def _as_of(found: list[File], commit: Commit) -> list[File]:
    """Apply an unfinished change: all of its files are listed, or none."""
    there = {file.path for file in found}
    added = {target for _, target in commit.adds}
    gone = set(commit.removes) if added <= there else added
    return [file for file in found if file.path not in gone]
