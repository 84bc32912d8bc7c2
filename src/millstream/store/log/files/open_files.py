"""The files that are read, with a bound on how many are open."""

import errno
from collections.abc import Iterable

from millstream.store.base import FilePart
from millstream.store.log.disk import Disk, File
from millstream.store.log.wal.segments import DamagedError

_MAX_OPEN = 256


class StreamFiles:
    """The files of all streams; those that were used last are open."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._open: dict[str, File] = {}

    def read_file(self, name: str, size: int, position: int) -> bytes:
        """Read a range of a file, which must be there."""
        try:
            data = self._file(name).read(size, position)
        except FileNotFoundError:
            raise DamagedError(f"{name}: is missing.") from None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise DamagedError(f"{name}: cannot be read at byte {position}: {error.strerror}.") from error
        if len(data) != size:
            raise DamagedError(f"{name}: ends at byte {position + len(data)}, before {position + size}.")
        return data

    def read_some(self, name: str, size: int, position: int) -> bytes:
        """Read a range of a file as far as the file goes."""
        return self._file(name).read(size, position)

    def locate(self, name: str, size: int, position: int) -> FilePart | None:
        """Give the place of a range of a file, if the file has a descriptor."""
        descriptor = self._file(name).descriptor()
        return FilePart(descriptor, position, size) if descriptor is not None else None

    def close_some(self, names: Iterable[str]) -> None:
        """Close files, if they are open."""
        for name in names:
            if name in self._open:
                self._open.pop(name).close()

    def close(self) -> None:
        """Close all files."""
        self.close_some(list(self._open))

    def _file(self, name: str) -> File:
        file = self._open.pop(name, None)
        if file is None:
            file = self.disk.open(name)
            if len(self._open) >= _MAX_OPEN:
                self._open.pop(next(iter(self._open))).close()
        self._open[name] = file  # the last one is the most recently used
        return file
