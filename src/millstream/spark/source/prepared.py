"""Prepared ranges: columns that were read before, in files on the executor's disk (`cacheDirectory`).

What one incarnation of a stream holds between two offsets never changes. So its messages are parsed once, and
the record batches are kept for whoever reads the same range with the same schema:

        <cacheDirectory>/<digest of server, stream, incarnation, offsets, schema, version>.arrow

        | Arrow IPC stream | magic | length | CRC-32 |

A file is written under a name of its own and renamed when it is complete. Two tasks that prepare the same
range both do, and the later one replaces the same bytes. A task that is killed leaves a file that is removed
an hour later. A file that is damaged, or cut by a power failure, is removed and made again. Nothing is
synced: losing a file costs time, not data. When files hold more than `cacheBytes`, those that were not used
for the longest time go.
"""

import contextlib
import hashlib
import logging
import os
import stat
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow

import millstream
from millstream.spark.json.fields import Fields
from millstream.spark.options import OptionError
from millstream.spark.source.planning import Range

LEAST_BYTES = 256 * 2**10
"""Smaller ranges are not kept: a file costs as much as reading them."""

_FORMAT = 1
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"  # Arrow's
_END = struct.Struct("<8sQI")
_MAGIC = b"prepared"
_SUFFIX, _UNFINISHED = ".arrow", ".part"
_UNFINISHED_S = 3600
_log = logging.getLogger(__name__)

Batches = Generator[pyarrow.RecordBatch, None, None]


def can_be_kept(one: Range) -> bool:
    """Return whether a range is known by its incarnation and offsets, and worth a file."""
    return one.start.incarnation is not None and (one.size or 0) >= LEAST_BYTES


def key_of(url: str, one: Range, schema: pyarrow.Schema, fields: Fields | None) -> str:
    """Name what a range gives; `fields` are how its messages are parsed."""
    known = (url, one.stream, one.start.incarnation, one.start.offset, one.end.offset)
    how = (str(schema), fields, millstream.__version__, _FORMAT)
    return hashlib.sha256(repr((known, how)).encode()).hexdigest()


class PreparedRanges:
    """The files of one directory, which all tasks of a user on a machine share."""

    def __init__(self, directory: str, max_bytes: int) -> None:
        self._folder = Path(directory)
        self._max_bytes = max_bytes
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self._folder.stat()
        if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OptionError(
                "cacheDirectory",
                f"names {directory}, to which other users can write, so that they could change what is read; "
                "name a directory that only the user of the executors can write to",
            )

    def batches(self, key: str, read: Callable[[], Iterator[pyarrow.RecordBatch]]) -> Batches:
        """Return the batches of a key, or those of `read`, which are then kept."""
        kept = self._open(key)
        if kept is not None:
            yield from pyarrow.ipc.open_stream(kept)
            return
        writing = _Writing(self._folder, self._max_bytes)
        try:
            for batch in read():
                writing.add(batch)
                yield batch
            if writing.finish(self._path(key)):
                self._make_room()
        finally:
            writing.abandon()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{_SUFFIX}"

    def _open(self, key: str) -> pyarrow.Buffer | None:
        """Return the content of a file if its checksum is right; it stays when the file is removed."""
        path = self._path(key)
        try:
            with pyarrow.memory_map(str(path)) as file:
                content = file.read_buffer()
        except FileNotFoundError:
            return None
        except (OSError, pyarrow.ArrowInvalid) as error:
            _log.warning("%s cannot be read, and is not used: %s", path, error)
            return None
        length = content.size - _END.size
        if length >= 0:
            end = _END.unpack(content.slice(length).to_pybytes())
            if end == (_MAGIC, length, zlib.crc32(content.slice(0, length))):
                with contextlib.suppress(OSError):
                    os.utime(path)  # the files that are not used are removed first
                return content.slice(0, length)
        _log.warning("%s is damaged, and made again", path)
        _remove(path)
        return None

    def _make_room(self) -> None:
        """Remove the files that were not used for the longest time, and what killed tasks have left."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    state = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(_SUFFIX):
                        found.append((state.st_mtime, state.st_size, entry.path))
                    elif entry.name.endswith(_UNFINISHED) and state.st_mtime < time.time() - _UNFINISHED_S:
                        _remove(Path(entry.path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._max_bytes:
                break
            _remove(Path(path))
            total -= size


class _Writing:
    """A file that is being written. If the disk fails, the query goes on without it."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._left = max_bytes - _END.size - len(_END_OF_STREAM)
        self._length = self._sum = 0
        self._file: BinaryIO | None = None
        self._path = Path()
        try:
            descriptor, path = tempfile.mkstemp(_UNFINISHED, dir=folder)
            self._file, self._path = os.fdopen(descriptor, "wb"), Path(path)
        except OSError as error:
            self._fail(error)

    def add(self, batch: pyarrow.RecordBatch) -> None:
        """Write a batch."""
        if self._file is None:
            return
        if batch.nbytes > self._left:
            self.abandon()
            return
        if not self._length:
            self._write(batch.schema.serialize())
        self._write(batch.serialize())

    def _write(self, data: pyarrow.Buffer | bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.write(data)
        except OSError as error:
            self._fail(error)
            return
        self._length += len(data)
        self._left -= len(data)
        self._sum = zlib.crc32(data, self._sum)

    def finish(self, path: Path) -> bool:
        """Give the file its name; False if there is none."""
        if not self._length:
            return False
        self._write(_END_OF_STREAM)
        if self._file is None:
            return False
        try:
            self._file.write(_END.pack(_MAGIC, self._length, self._sum))
            self._file.close()
            self._path.replace(path)
        except OSError as error:
            self._fail(error)
            return False
        self._file = None
        return True

    def abandon(self) -> None:
        """Remove what was written, unless it is finished."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
            _remove(self._path)

    def _fail(self, error: OSError) -> None:
        _log.warning("a prepared range cannot be kept: %s", error)
        self.abandon()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
