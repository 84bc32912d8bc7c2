"""Streams held back: what becomes of a stream that a checkpoint cannot save.

Something may be wrong with one stream alone: its file cannot be opened or is too large for the file
system, the file of a part is damaged, a row is too big. The checkpoint saves all others, and copies the
records of this one from the log to the catalog, in the transaction that stands for its log position:

        log           1a 2b 3a 4b | 5a 6b          a checkpoint covers 4, and cannot save a
        catalog       b as of 4, a as it was before, held: 1a 3a

A start takes the catalog, replays the records that are held, each on its own stream only, then the log.
So the log is released as ever, and a change is neither lost nor applied twice: a stream's row and its held
records change in one transaction, and the row says nothing of what the records say. The next checkpoints
try again; once the stream is saved, or deleted, its records go.

A record may be about two streams: a fork, and the source that counts it. Each is held or not by itself.

What a stream that is held back has in memory stays there. When its records pass a bound its changes are
refused, those of no other stream, and never its deletion.
"""

import logging

from millstream.protocol.streams import NotSaved
from millstream.store.log.cache.stream_cache import StreamCache
from millstream.store.log.catalog.rows import HeldRecord
from millstream.store.log.disk import Disk
from millstream.store.log.wal.format import (
    SHARED_TYPES,
    CreateMeta,
    EndMeta,
    Record,
    encode_record,
    records_of,
)
from millstream.store.log.wal.segments import read_frames

_log = logging.getLogger("millstream")


def find_records(disk: Disk, after_lsn: int, until_lsn: int, ids: set[int]) -> list[HeldRecord]:
    """Find what the log says about some streams, in a range of records that are durable."""
    found: list[HeldRecord] = []
    for frame in read_frames(disk, after_lsn, until_lsn):
        for record in records_of(frame, lambda type, id: id in ids or type in SHARED_TYPES):
            if after_lsn < record.lsn <= until_lsn:
                found += _held(record, ids)
    return found


def _held(record: Record, ids: set[int]) -> list[HeldRecord]:
    held = []
    if record.stream_id in ids:
        data = encode_record(record.stream_id, record.meta, record.payload)
        held.append(HeldRecord(record.stream_id, record.lsn, data))
    if (source := source_of(record)) in ids:  # which does not need the fork's bytes
        held.append(HeldRecord(source, record.lsn, encode_record(record.stream_id, record.meta)))
    return held


def source_of(record: Record) -> int:
    """Give the id of the source whose forks a record counts; 0 when it counts none."""
    meta = record.meta
    if isinstance(meta, CreateMeta):
        return meta.stream.fork.source_id if meta.stream.fork is not None else 0
    return meta.source_id if isinstance(meta, EndMeta) else 0


def refuse_large(cache: StreamCache, max_bytes: int) -> None:
    """Refuse the changes of each stream that holds back more than may be, and of no other."""
    for id, size in cache.held_back.items():
        entry = cache.by_id[id]  # it is dirty, so it stays in memory
        if size > max_bytes and entry.refusal is None:
            _log.error(
                "changes of %s are refused: %d bytes of it could not be saved", entry.stream.name, size
            )
            entry.refusal = NotSaved(entry.stream.name)
