"""A Parquet table that gains files atomically, and is compacted, without a catalog service.

    table/date=2026-11-15/000000012-0000.parquet      what readers see
    table/_archive/commit.json                         the last change: files added, files removed
    table/_archive/staged/                             files not committed yet
    table/_checkpoint/                                 Spark's, unless another place is given

Spark, pandas, DuckDB and others skip names that begin with an underscore. A batch is written to `staged`;
replacing `commit.json` commits it; then its files are moved to their places, and only then the files that
they replace are removed (compaction). A crash before the commit leaves nothing; after it, the next run
finishes the change. A repeated batch finds its own number in the commit and changes nothing.
"""

from pathlib import Path, PurePosixPath

import msgspec
from pyarrow import fs

from millstream.spark.options import OptionError

HIDDEN = "_archive"
_COMMIT = f"{HIDDEN}/commit.json"
STAGED = f"{HIDDEN}/staged"
_SUFFIX = ".parquet"


class Commit(msgspec.Struct, frozen=True):
    """One change of a table. Paths are below the table; those of `adds` are pairs, from and to."""

    query: str
    batch: int
    adds: list[tuple[str, str]]
    removes: list[str] = []


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
        try:
            self._files, self._root = fs.FileSystem.from_uri(self.location.replace("s3a://", "s3://", 1))
        except (OSError, ValueError) as error:
            raise OptionError("table", f"{location!r} cannot be opened: {error}") from None

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
            if self._exists(source):
                self._files.create_dir(f"{self._root}/{PurePosixPath(target).parent}", recursive=True)
                self._files.move(f"{self._root}/{source}", f"{self._root}/{target}")
        for path in commit.removes:
            if self._exists(path):
                self._files.delete_file(f"{self._root}/{path}")

    def clear_staged(self) -> None:
        """Remove staged files that were never committed."""
        if self._exists(STAGED):
            self._files.delete_dir(f"{self._root}/{STAGED}")

    def files(self, below: str = "") -> list[File]:
        """List Parquet files: the table's, or those that are staged below a path."""
        base = f"{self._root}/{below}".rstrip("/")
        selector = fs.FileSelector(base, recursive=True, allow_not_found=True)
        found = []
        for info in self._files.get_file_info(selector):
            path = info.path.removeprefix(self._root).lstrip("/")
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
        [info] = self._files.get_file_info([f"{self._root}/{below}"])
        return bool(info.type is not fs.FileType.NotFound)


def located(location: str) -> str:
    """Return a location that means the same in every process."""
    return location if "://" in location else str(Path(location).absolute())


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
