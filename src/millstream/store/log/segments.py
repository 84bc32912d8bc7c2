"""The log on disk: segments that are filled one after the other and used again.

The life of a segment:

        spare.tmp --header written and synced, renamed--> 00000000000000000042.wal
            ^                                                   |
            |                                                   | filled by frames
            |                                                   v
            +--- renamed when a checkpoint covers it --- full, kept for recovery

A segment that is used again has its blocks already: syncing it writes data only, which on most file
systems is faster than growing a file. Its old frames do not parse under the new salt.
"""

import os
from collections.abc import Callable, Iterator

import msgspec

from millstream.store.base import StoreError
from millstream.store.log import format
from millstream.store.log.disk import Disk, File

FOLDER = "wal"
_SPARE = f"{FOLDER}/spare.tmp"


class DamagedError(StoreError):
    """The log or a file beside it is not what it must be; nothing was changed or deleted."""


class Segment(msgspec.Struct):
    """A file of the log."""

    name: str
    first_lsn: int
    salt: bytes


def segment_name(first_lsn: int) -> str:
    """Name a segment by its first lsn."""
    return f"{FOLDER}/{first_lsn:020d}.wal"


class Log:
    """The log: written at its end, read from its beginning."""

    def __init__(
        self, disk: Disk, segment_bytes: int, new_salt: Callable[[], bytes] = lambda: os.urandom(8)
    ) -> None:
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._new_salt = new_salt
        self._segments: list[Segment] = []
        self._file: File | None = None
        self._position = 0
        self._spare = False
        self.next_lsn = 1

    def recover(self) -> Iterator[format.Record]:
        """Read all records, in order, and find the end; what is torn there is cut off."""
        self._disk.make_folder(FOLDER)
        names = [f"{FOLDER}/{name}" for name in self._disk.names(FOLDER) if name.endswith(".wal")]
        self._disk.remove(_SPARE)
        self._segments.clear()
        for name in names:
            yield from self._recover_segment(name, last=name == names[-1])

    def _recover_segment(self, name: str, *, last: bool) -> Iterator[format.Record]:
        file = self._disk.open(name)
        try:
            data = file.read(file.size(), 0)
        finally:
            file.close()
        header = format.decode_segment_header(data)
        if header is None or segment_name(header[1]) != name:
            raise DamagedError(f"{name}: damaged at byte 0: the segment's header is not valid.")
        salt, first_lsn = header
        if self._segments and first_lsn != self.next_lsn:
            raise DamagedError(f"{name}: begins with record {first_lsn}, but {self.next_lsn} must come next.")
        self.next_lsn = first_lsn
        position = format.SEGMENT_HEADER_BYTES
        while (frame := format.decode_frame(data, position, salt)) is not None:
            if frame.first_lsn != self.next_lsn:
                raise DamagedError(f"{name}: damaged at byte {position}: record {self.next_lsn} is missing.")
            yield from format.records_of(frame)
            self.next_lsn += frame.count
            position = frame.end
        if format.find_frame(data, position, salt) is not None:
            raise DamagedError(f"{name}: damaged at byte {position}: whole frames follow a broken one.")
        self._segments.append(Segment(name, first_lsn, salt))
        if last:
            self._position = position

    def open_end(self) -> None:
        """Make the log ready to be written; call after `recover` has been read to its end."""
        if not self._segments:
            self._begin_segment()
            return
        # Whatever lies behind the end is torn. It must not be mistaken for the future's past.
        self._file = self._disk.open(self._segments[-1].name)
        if any(self._file.read(format.FRAME_HEADER_BYTES, self._position)):
            self._file.truncate(self._position)
            self._file.sync()

    def write(self, records: list[bytes]) -> None:
        """Write records as one frame and sync: when this returns they are durable."""
        if self._position >= self._segment_bytes:
            self._begin_segment()
        assert self._file is not None  # opened by open_end
        frame = format.encode_frame(self._segments[-1].salt, self.next_lsn, records)
        self._file.write([frame], self._position)
        self._file.sync()
        self._position += len(frame)
        self.next_lsn += len(records)

    def release(self, applied_lsn: int) -> None:
        """Use again or remove the segments that hold nothing after `applied_lsn`."""
        while len(self._segments) > 1 and self._segments[1].first_lsn <= applied_lsn + 1:
            oldest = self._segments.pop(0)
            if self._spare:
                self._disk.remove(oldest.name)
            else:
                self._disk.rename(oldest.name, _SPARE)
                self._spare = True
        self._disk.sync_folder(FOLDER)

    def close(self) -> None:
        """Let go of the current segment."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_segment(self) -> None:
        self.close()
        segment = Segment(segment_name(self.next_lsn), self.next_lsn, self._new_salt())
        file = self._disk.open(_SPARE, create=True)
        file.write([format.encode_segment_header(segment.salt, segment.first_lsn)], 0)
        file.sync()
        self._disk.rename(_SPARE, segment.name)
        self._disk.sync_folder(FOLDER)
        self._spare = False
        self._file = file
        self._segments.append(segment)
        self._position = format.SEGMENT_HEADER_BYTES
