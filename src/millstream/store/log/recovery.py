"""Recovery: the state that the catalog had at the last checkpoint, and every change in the log since.

The catalog is the exact state at its log position, so each record must fit what came before it: one
that does not is damage, never something to be passed over. Nothing is written before all was read.
"""

from millstream.protocol import forks, parts, retention, streams
from millstream.protocol.streams import Part
from millstream.store.log.catalog import Catalog
from millstream.store.log.files.checkpoint import APPLIED_LSN, NEXT_ID
from millstream.store.log.files.content import Extent, StreamContent, StreamFiles
from millstream.store.log.stream_cache import Residents, content_of
from millstream.store.log.wal.format import (
    AppendMeta,
    CommitMeta,
    CreateMeta,
    DropMeta,
    EndMeta,
    Record,
    RenewMeta,
    StageMeta,
    TrimMeta,
)
from millstream.store.log.wal.segments import DamagedError, Log
from millstream.store.parts import append_parts, drop_parts, keep_part
from millstream.store.table import Kept


def recover(catalog: Catalog, log: Log, files: StreamFiles) -> Residents:
    """Rebuild the state from the catalog and the log."""
    residents = Residents(catalog, files, catalog.fact(NEXT_ID))
    for record in log.recover(catalog.fact(APPLIED_LSN)):
        try:
            _replay(residents, files, record)
        except _MisfitError as error:
            raise DamagedError(f"record {record.lsn} does not fit the state before it: {error}") from None
    residents.load_staged()
    for kept in residents.by_id.values():
        kept.tail, kept.closed = kept.stream.tail, kept.stream.closed
        kept.start = kept.stream.start
        content_of(kept).narrow(Extent.of(kept.stream))
        kept.logged_deadline_ms = kept.stream.deadline_ms or 0
    return residents


class _MisfitError(Exception):
    """A record speaks of something that is not there."""


def _replay(residents: Residents, files: StreamFiles, record: Record) -> None:
    meta = record.meta
    if isinstance(meta, CreateMeta):
        _create(residents, files, meta, record.payload)
        return
    kept = _get(residents, record.stream_id)
    residents.dirty[record.stream_id] = kept
    if isinstance(meta, AppendMeta):
        _append(residents, kept, meta, record.payload)
    elif isinstance(meta, StageMeta):
        _stage(kept, meta, record.payload)
    elif isinstance(meta, CommitMeta):
        _commit(residents, kept, meta)
    elif isinstance(meta, DropMeta):
        _check_parts(kept, meta.ids)
        residents.release(record.stream_id, drop_parts(kept, meta.ids))
    elif isinstance(meta, RenewMeta):
        kept.stream.deadline_ms = meta.deadline_ms
    elif isinstance(meta, TrimMeta):
        _trim(kept, meta)
    else:
        _end(residents, kept, meta)


def _create(residents: Residents, files: StreamFiles, meta: CreateMeta, payload: bytes) -> None:
    stream = meta.stream
    residents.next_id = max(residents.next_id, stream.id)
    source = _get(residents, stream.fork.source_id) if stream.fork is not None else None
    if source is not None:
        source.stream.fork_count = meta.source_forks
        forks.share(source.stream, stream.base)
        residents.dirty[source.stream.id] = source
    kept = Kept(stream, source, StreamContent(files, stream, stream.base, 0))
    if payload:
        kept.content.append(payload)
    residents.add(kept)


def _append(residents: Residents, kept: Kept, meta: AppendMeta, payload: bytes) -> None:
    _check_base(kept, meta)
    if payload:
        kept.content.append(payload)
    change = streams.Append(payload, meta.base + len(payload), meta.closes, meta.stamp, meta.seq)
    streams.apply_append(kept.stream, change, meta.now_ms)
    if meta.closes:
        residents.release(kept.stream.id, kept.drop_staged())


def _stage(kept: Kept, meta: StageMeta, payload: bytes) -> None:
    if kept.stream.staged is not None and meta.id in kept.stream.staged.parts:
        raise _MisfitError(f"{kept.stream.name} has a part {meta.id} already.")
    keep_part(kept, parts.Stage(meta.id, payload), meta.now_ms)


def _commit(residents: Residents, kept: Kept, meta: CommitMeta) -> None:
    append = meta.append
    _check_base(kept, append)
    size = sum(part.size for part in _check_parts(kept, meta.ids))
    change = streams.Append(b"", append.base + size, append.closes, append.stamp, append.seq)
    numbers = append_parts(kept, parts.Commit(change, meta.ids, size), append.now_ms)
    residents.release(kept.stream.id, numbers)


def _check_base(kept: Kept, meta: AppendMeta) -> None:
    if meta.base != kept.stream.tail:
        raise _MisfitError(f"{kept.stream.name} ends at {kept.stream.tail}, not at {meta.base}.")


def _check_parts(kept: Kept, ids: list[str]) -> list[Part]:
    staged = kept.stream.staged.parts if kept.stream.staged is not None else {}
    for id in ids:
        if id not in staged:
            raise _MisfitError(f"{kept.stream.name} has no part {id}.")
    return [staged[id] for id in ids]


def _trim(kept: Kept, meta: TrimMeta) -> None:
    stream = kept.stream
    if not stream.start < meta.start <= stream.tail:
        raise _MisfitError(f"{stream.name} is from {stream.start} to {stream.tail}, without {meta.start}.")
    retention.apply_trim(stream, retention.Trim(meta.start, meta.first_append))


def _end(residents: Residents, kept: Kept, meta: EndMeta) -> None:
    residents.release(kept.stream.id, kept.drop_staged())
    if not meta.gone:
        kept.stream.soft_deleted = True
    if meta.source_id:
        source = _get(residents, meta.source_id)
        source.stream.fork_count = meta.source_forks
        forks.unshare(source.stream)
        residents.dirty[meta.source_id] = source
    for id in meta.gone:
        residents.lose(_get(residents, id))


def _get(residents: Residents, stream_id: int) -> Kept:
    kept = residents.get(stream_id)
    if kept is None:
        raise _MisfitError(f"there is no stream {stream_id}.")
    return kept
