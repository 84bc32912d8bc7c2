"""The log on disk: segments that are filled one after the other, and reused.

The life of a segment:

        spare.tmp --header written and synced, renamed--> 00000000000000000042.wal
            ^                                                   |
            |                                                   | filled by frames
            |                                                   v
            +--- renamed when a checkpoint covers it --- full, kept for recovery

A segment that is synced is filled with zeros first, if there is room: once it has its blocks a sync
writes data only, which on most file systems is faster than growing a file (ext4: 120 us against 240 us
for 8 KiB). A reused segment has them anyway; its old frames do not parse under the new salt.

A log begins with a small segment, so that a server that does little takes little room. Segments get larger,
each twice the one before up to a limit, when they are filled faster than checkpoints cover them.

What is on the disk at each step of a commit, and what a power cut there leaves of the log:

        ... frame 7 | 0 0 0 0 0 0 0      before: frame 7 is synced, and was reported
        ... frame 7 | fr~~e ~ 0 0 0      written: frame 8 is there whole, in part or not at all. It was not
                                         reported. A whole one counts; the next start cuts off any other
        ... frame 7 | frame 8 0 0 0      synced: it stays, so it is reported: answers go out, readers wake

and of the beginning of a segment, when the last one is full:

        ...40.wal   spare.tmp            its header written, with the number that comes next, and synced.
                                         A spare is not part of the log; the next start removes it
        ...40.wal   ~...42.wal~          renamed: it is there, and empty, or it is not there yet
        ...40.wal   ...42.wal            the folder synced: it is there, and may have its first frame

A valid log: its segments follow each other without a gap from the one that holds the first record
after the last checkpoint (older ones are leftovers, and ignored), and each is whole up to the next one.
Only the end of the last segment may be torn.
"""

import os
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import PurePath

import msgspec

from millstream.store.base import StoreError
from millstream.store.log.disk import Disk, File, is_full, nonfatal_when_full
from millstream.store.log.failpoints import reach
from millstream.store.log.wal import format
from millstream.store.measures import Measures

FOLDER = "wal"
_SPARE = f"{FOLDER}/spare.tmp"
_SUFFIX = ".wal"
_FILL_BYTES = 2**20
FIRST_SEGMENT_BYTES = 4 * 2**20


class DamagedError(StoreError):
    """The log or another file is damaged; nothing was changed or deleted."""

    def __init__(self, message: str, name: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.name = name  # the damaged segment, if it is one, and from which byte on
        self.position = position


class Segment(msgspec.Struct):
    """A file of the log, and where its last whole frame begins and ends, as far as it was read."""

    name: str
    first_lsn: int
    salt: bytes = b""
    last_frame: int = 0
    end: int = 0
    next_lsn: int = 0


def segment_name(first_lsn: int) -> str:
    """Name a segment by its first lsn."""
    return f"{FOLDER}/{first_lsn:020d}{_SUFFIX}"


class Log:
    """The log: written at its end, read from its beginning."""

    def __init__(
        self,
        disk: Disk,
        segment_bytes: int,
        new_salt: Callable[[], bytes] = lambda: os.urandom(8),
        *,
        first_segment_bytes: int = FIRST_SEGMENT_BYTES,
        fills: bool = False,
    ) -> None:
        self._disk = disk
        self._max_segment_bytes = segment_bytes
        self._segment_bytes = min(segment_bytes, first_segment_bytes)  # when the current one is full
        self._new_salt = new_salt
        self._fills = fills
        self._segments: list[Segment] = []
        self._file: File | None = None
        self._position = 0
        self._spare = False
        self.next_lsn = 1
        self.measures = Measures()

    # -- Reading, which changes nothing on the disk ----------------------------------------------

    def recover(self, applied_lsn: int) -> Iterator[format.Record]:
        """Read all records after one, in order, and find the end."""
        self._segments = find_segments(self._disk, applied_lsn)
        self.next_lsn = 1
        needed = self._segments[first_needed(self._segments, applied_lsn) :]
        for segment, following in zip_longest(needed, needed[1:]):
            for record in read_segment(self._disk, segment, following):
                if record.lsn > applied_lsn:
                    yield record
            self.next_lsn = segment.next_lsn
        if self.next_lsn <= applied_lsn:
            end = f"{needed[-1].name}: ends at byte {needed[-1].end}" if needed else f"{FOLDER}: is empty"
            raise DamagedError(f"{end}, but record {applied_lsn} is known to have been in the log.")

    # -- Writing ---------------------------------------------------------------------------------

    def open_end(self) -> None:
        """Make the log ready to be written; call after `recover` has been read to its end."""
        reach("recovery.read")
        self._disk.make_folder(FOLDER)
        self._disk.remove(_SPARE)
        self._spare = False
        if not self._segments:
            self._begin_segment()
            return
        segment = self._segments[-1]
        self._file = file = self._disk.open(segment.name)
        self._position = segment.end
        while self._segment_bytes < min(file.size(), self._max_segment_bytes):
            self._grow_segments()
        # What was read may be in the page cache only: of a process that was killed before it synced, or
        # whose sync failed, after which the cache calls pages clean that never reached the disk. Writing
        # the last frame again makes sure that it does; all before it were synced before it was written.
        with nonfatal_when_full():  # file systems that never write in place need room even for this
            file.write([file.read(segment.end - segment.last_frame, segment.last_frame)], segment.last_frame)
        # Whatever follows the end is torn. A later recovery must not take it for records.
        file.truncate(segment.end)
        self._fill(file, segment.end)
        reach("recovery.rewritten")
        file.sync()
        self._disk.sync_folder(FOLDER)

    def write(self, records: list[bytes]) -> None:
        """Write records as one frame and sync: when this returns they are durable."""
        if self._position >= self._segment_bytes:
            self._begin_segment()
        assert self._file is not None  # opened by open_end
        measures = self.measures
        measures.writing_since_s = time.monotonic()
        frame = format.encode_frame(self._segments[-1].salt, self.next_lsn, records)
        self._file.write(frame, self._position)
        reach("log.written")
        written_s = time.monotonic()
        self._file.sync()
        measures.sync_s.observe(time.monotonic() - written_s)
        measures.sync_records.observe(len(records))
        measures.writing_since_s = 0.0
        reach("log.synced")
        self._position += sum(map(len, frame))
        self.next_lsn += len(records)

    def cut(self) -> None:
        """Undo a write that failed: the log then ends, durably, with the last write that succeeded."""
        if self._file is None:  # it was a new segment that failed
            self._file = self._disk.open(self._segments[-1].name)
        self._file.truncate(self._position)
        self._file.sync()

    def free(self, applied_lsn: int) -> None:
        """Remove all that holds nothing after `applied_lsn`, even the end and the spare."""
        if self._position > format.SEGMENT_HEADER_BYTES:
            try:
                self._begin_segment(fills=False)
            except OSError as error:
                if not is_full(error):
                    raise
                self._file = self._disk.open(self._segments[-1].name)  # the log goes on in it
        self._disk.remove(_SPARE)
        self._spare = True  # none is kept
        self.release(applied_lsn)
        self._spare = False

    def release(self, applied_lsn: int) -> None:
        """Reuse or remove the segments that hold nothing after `applied_lsn`."""
        count = first_needed(self._segments, applied_lsn)
        if count == 0:
            return
        for segment in self._segments[:count]:
            if self._spare:
                self._disk.remove(segment.name)
            else:
                self._disk.rename(segment.name, _SPARE)
                self._spare = True
        del self._segments[:count]
        reach("segment.released")
        self._disk.sync_folder(FOLDER)

    @property
    def segments(self) -> list[Segment]:
        """The segments that recovery found."""
        return self._segments

    def close(self) -> None:
        """Close the current segment."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_segment(self, *, fills: bool = True) -> None:
        self.close()
        if len(self._segments) > 1:  # no checkpoint has covered the one before
            self._grow_segments()
        segment = Segment(segment_name(self.next_lsn), self.next_lsn, self._new_salt())
        file = self._disk.open(_SPARE, create=True)
        try:
            file.write([format.encode_segment_header(segment.salt, segment.first_lsn)], 0)
            if fills:
                self._fill(file, max(file.size(), format.SEGMENT_HEADER_BYTES))
            file.sync()
            reach("segment.prepared")
            self._disk.rename(_SPARE, segment.name)
            reach("segment.renamed")
            self._disk.sync_folder(FOLDER)
            reach("segment.begun")
        except BaseException:
            file.close()
            raise
        self._spare = False
        self._file = file
        self._segments.append(segment)
        self._position = format.SEGMENT_HEADER_BYTES

    def _grow_segments(self) -> None:
        self._segment_bytes = min(2 * self._segment_bytes, self._max_segment_bytes)

    def _fill(self, file: File, start: int) -> None:
        """Allocate a segment's blocks from a position on, or none if there is no room for all of them."""
        end = self._segment_bytes if self._fills else start
        try:
            for position in range(start, end, _FILL_BYTES):
                file.write([bytes(min(_FILL_BYTES, end - position))], position)
        except OSError as error:
            if not is_full(error):
                raise
            file.truncate(start)


def find_segments(disk: Disk, applied_lsn: int) -> list[Segment]:
    """List the log's segments, in order; one of them must hold, or be about to hold, the next record."""
    found = []
    for name in disk.names(FOLDER):
        path = PurePath(name)
        if path.suffix == _SUFFIX:
            if not (path.stem.isdecimal() and segment_name(int(path.stem)) == f"{FOLDER}/{name}"):
                raise DamagedError(f"{FOLDER}/{name}: this is not the name of a segment.")
            found.append(Segment(f"{FOLDER}/{name}", int(path.stem)))
    if found and found[0].first_lsn > applied_lsn + 1:
        raise DamagedError(
            f"{found[0].name}: the log begins with record {found[0].first_lsn}, "
            f"but record {applied_lsn + 1} must come next."
        )
    return found


def read_segment(disk: Disk, segment: Segment, following: Segment | None) -> Iterator[format.Record]:
    """Read a segment's records and find its end; only the last segment may be torn there."""
    name = segment.name
    data = _read(disk, name)
    header = format.decode_segment_header(data)
    if header is None or header[1] != segment.first_lsn:
        raise _damaged(name, 0, "the segment's header is not valid")
    segment.salt, segment.next_lsn = header
    segment.last_frame = segment.end = format.SEGMENT_HEADER_BYTES
    while (frame := format.decode_frame(data, segment.end, segment.salt)) is not None:
        if frame.first_lsn != segment.next_lsn:
            raise DamagedError(
                f"{name}: damaged at byte {segment.end}: record {segment.next_lsn} is missing."
            )
        try:
            yield from format.records_of(frame)
        except (ValueError, msgspec.DecodeError) as error:
            raise _damaged(name, segment.end, f"the frame cannot be read: {error}") from None
        segment.next_lsn += frame.count
        segment.last_frame, segment.end = segment.end, frame.end
    if following is not None and following.first_lsn != segment.next_lsn:
        raise _damaged(
            name, segment.end, f"record {segment.next_lsn} must come next, but {following.name} does"
        )
    if following is None and format.find_frame(data, segment.end, segment.salt) is not None:
        raise _damaged(name, segment.end, "whole frames follow a broken one")


def read_frames(disk: Disk, after_lsn: int, until_lsn: int) -> Iterator[format.Frame]:
    """Read the frames that hold a range of durable records, while others may be written behind them."""
    segments = find_segments(disk, after_lsn)
    next_lsn = after_lsn + 1
    for segment in segments[first_needed(segments, after_lsn) :]:
        if next_lsn > until_lsn:
            return
        data = _read(disk, segment.name)
        header = format.decode_segment_header(data)
        if header is None:
            raise _damaged(segment.name, 0, "the segment's header is not valid")
        position = format.SEGMENT_HEADER_BYTES
        while next_lsn <= until_lsn and (frame := format.decode_frame(data, position, header[0])) is not None:
            position = frame.end
            if frame.first_lsn + frame.count > next_lsn:
                next_lsn = frame.first_lsn + frame.count
                yield frame
    if next_lsn <= until_lsn:
        raise DamagedError(f"{FOLDER}: record {next_lsn} is missing.")


def _damaged(name: str, position: int, why: str) -> DamagedError:
    return DamagedError(f"{name}: damaged at byte {position}: {why}.", name, position)


def first_needed(segments: list[Segment], applied_lsn: int) -> int:
    """Find the segment that holds the record after `applied_lsn`, or will."""
    index = 0
    while index + 1 < len(segments) and segments[index + 1].first_lsn <= applied_lsn + 1:
        index += 1
    return index


def _read(disk: Disk, name: str) -> bytes:
    file = disk.open(name)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()
