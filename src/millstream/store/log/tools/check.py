"""Checks a data folder that no server uses: what is in it, and is it complete?

`verify` reads everything and changes nothing. It does what a start would do, and more: the catalog page
by page, every record of the log since the last checkpoint, the sizes and indexes of all stream files, the
sizes of staged parts, and that forks and their sources agree.

`repair` does one thing only: it cuts the log where it is damaged. What it cuts off is kept beside the log,
in `wal/cut-...`; but the changes in it are lost to the streams, so its caller asks first.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from os import close
from pathlib import Path

import msgspec

from millstream.protocol.streams import Stream
from millstream.store.log.cache.stream_cache import StreamCache
from millstream.store.log.catalog.database import APPLIED_LSN, Catalog
from millstream.store.log.catalog.rows import Row
from millstream.store.log.disk import RealDisk
from millstream.store.log.files.content import StreamContent
from millstream.store.log.files.examining import complaint_of
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.files.staged import examine_parts
from millstream.store.log.opening import CATALOG, CannotOpenError, explained, lock
from millstream.store.log.recovery import recover
from millstream.store.log.wal.segments import FOLDER, DamagedError, Log, find_segments, read_segment
from millstream.store.subscriptions import rows


class Cut(msgspec.Struct, frozen=True):
    """Where a log would have to be cut, and what that costs."""

    name: str
    position: int
    lost_bytes: int
    following: list[str]
    last_lsn: int
    """The last record that would be left."""
    is_torn_tail: bool
    """Nothing after it was acknowledged, as far as can be known: a start cuts it off by itself."""


class Report(msgspec.Struct):
    """What was found."""

    folder: Path
    streams: int = 0
    parts: int = 0
    """Those that have files."""
    segments: int = 0
    applied_lsn: int = 0
    last_lsn: int = 0
    complaints: list[str] = []
    cut: Cut | None = None

    @property
    def is_sound(self) -> bool:
        """Whether a server would start on the folder and find everything."""
        return not self.complaints

    @property
    def can_be_cut(self) -> bool:
        """Whether cutting the log leaves a folder that a server would start on."""
        return self.cut is not None and self.cut.last_lsn >= self.applied_lsn


def verify(folder: Path) -> Report:
    """Look at everything in a folder that no server uses."""
    with ExitStack() as undo, explained(folder):
        if not (folder / "LOCK").exists():
            raise CannotOpenError(f"{folder} is not a data folder.")
        undo.callback(close, lock(folder))
        return examine(folder)


def examine(folder: Path) -> Report:
    """Look at everything in a folder that nobody else changes."""
    report = Report(folder)
    with ExitStack() as undo:
        disk = RealDisk(folder)
        undo.callback(disk.close)
        path = folder / CATALOG
        catalog = Catalog(path, read_only=True) if path.exists() else Catalog(":memory:")
        undo.callback(catalog.close)
        try:
            with catalog.naming_damage():
                _examine(report, disk, catalog)
        except DamagedError as damage:
            report.complaints.append(str(damage))
            report.cut = _cut(disk, damage, report.applied_lsn)
    return report


def _examine(report: Report, disk: RealDisk, catalog: Catalog) -> None:
    report.complaints += catalog.complaints()
    report.applied_lsn = catalog.fact(APPLIED_LSN)
    log, files = Log(disk, 0), StreamFiles(disk)
    try:
        cache = recover(catalog, log, files)
        report.complaints += rows.complaints(cache.rows.items())
        report.segments, report.last_lsn = len(log.segments), log.next_lsn - 1
        report.cut = _torn_tail(report.folder, log)
        saved_rows: dict[int, Row] = {}
        for row in catalog.rows():
            if (complaint := complaint_of(row.verify) or complaint_of(row.stream)) is not None:
                report.complaints.append(complaint)
            elif row.stream_id not in cache.removed:
                saved_rows[row.stream_id] = row
        streams = {id: row.stream() for id, row in saved_rows.items()} | _streams(cache)
        report.streams = len(streams)
        for row in saved_rows.values():
            # Files of what the log says is gone may be removed before the catalog knows.
            saved = row.stream()
            content = StreamContent.of(files, streams[row.stream_id], row.flushed, row.appends, row.where())
            steps = chain(content.examine(), examine_parts(files, saved))
            found = dict.fromkeys(one for one in steps if one is not None)  # some are found twice
            report.complaints += [f"{one} ({row.name})" for one in found]
            report.parts += len(saved.staged.parts) if saved.staged is not None else 0
        report.complaints += _check_forks(streams)
    finally:
        files.close()


def repair(report: Report) -> Path | None:
    """Cut the log where `verify` found it damaged; gives where the rest was put, if there was any."""
    cut = report.cut
    if cut is None or not report.can_be_cut:
        raise CannotOpenError(f"{report.folder}: cutting the log would not help.")
    with ExitStack() as undo, explained(report.folder):
        undo.callback(close, lock(report.folder))
        disk = RealDisk(report.folder)
        undo.callback(disk.close)
        aside = f"{FOLDER}/cut-{Path(cut.name).stem}-{cut.position}"
        disk.make_folder(aside)
        file = disk.open(cut.name)
        undo.callback(file.close)
        copy = disk.open(f"{aside}/{Path(cut.name).name}", create=True)
        undo.callback(copy.close)
        copy.write([file.read(file.size() - cut.position, cut.position)], 0)
        copy.sync()
        # From the end backwards, so that a crash in between leaves a log without gaps.
        for name in reversed(cut.following):
            disk.rename(name, f"{aside}/{Path(name).name}")
        if cut.position:
            file.truncate(cut.position)
            file.sync()
        else:
            disk.remove(cut.name)  # its copy is whole
        disk.sync_folder(aside)
        disk.sync_folder(FOLDER)
        return report.folder / aside


def _cut(disk: RealDisk, damage: DamagedError, applied_lsn: int) -> Cut | None:
    """Find out what cutting at the damage would leave; None when it is not the log that is damaged."""
    if not damage.name:
        return None
    segments = find_segments(disk, applied_lsn)
    index = [segment.name for segment in segments].index(damage.name)
    segment = segments[index]
    if damage.position:
        try:
            for _ in read_segment(disk, segment, None):
                pass
        except DamagedError:
            pass  # expected; the records before it were counted
    last_lsn = segment.next_lsn - 1 if damage.position else segment.first_lsn - 1
    size = (disk.folder / segment.name).stat().st_size
    following = [later.name for later in segments[index + 1 :]]
    return Cut(segment.name, damage.position, size - damage.position, following, last_lsn, False)


def _torn_tail(folder: Path, log: Log) -> Cut | None:
    if not log.segments:
        return None
    last = log.segments[-1]
    with (folder / last.name).open("rb") as file:
        file.seek(last.end)
        rest = file.read()
    if not rest.strip(b"\0"):
        return None
    return Cut(last.name, last.end, len(rest), [], log.next_lsn - 1, is_torn_tail=True)


def _streams(cache: StreamCache) -> dict[int, Stream]:
    return {id: entry.stream for id, entry in cache.by_id.items()}


def _check_forks(streams: dict[int, Stream]) -> Iterator[str]:
    """Compare forks with their sources, and names with each other."""
    forks = Counter(stream.fork.source_id for stream in streams.values() if stream.fork is not None)
    names = Counter(stream.name for stream in streams.values())
    for stream in streams.values():
        if stream.fork is not None and stream.fork.source_id not in streams:
            yield f"{stream.name}: its source {stream.fork.source_name} is missing."
        if stream.fork_count != forks[stream.id]:
            yield f"{stream.name}: counts {stream.fork_count} forks, but has {forks[stream.id]}."
        if stream.soft_deleted and not stream.fork_count:
            yield f"{stream.name}: is deleted, and no fork needs it."
        if names[stream.name] > 1:
            yield f"{stream.name}: is the name of {names[stream.name]} streams."
