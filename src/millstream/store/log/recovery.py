"""Recovery: the state of the catalog, as of the last checkpoint, and every change in the log since.

The catalog is the exact state at its log position, so each record must fit what came before it. One
that does not is damage, and is never skipped. Nothing is written before everything was read.

Records of streams that could not be saved come first, from the catalog (`held`).
"""

import contextlib
from collections.abc import Iterator

from millstream.protocol import configuration, forks, parts, retention, streams
from millstream.protocol.staging import Part
from millstream.store.entries import StreamEntry
from millstream.store.log.cache.stream_cache import StreamCache, content_of
from millstream.store.log.catalog.database import APPLIED_LSN, LAST_ID, Catalog
from millstream.store.log.files.content import StreamContent
from millstream.store.log.files.extents import Extent
from millstream.store.log.files.open_files import StreamFiles
from millstream.store.log.wal.format import (
    AppendMeta,
    CommitMeta,
    ConfigureMeta,
    CreateMeta,
    DropMeta,
    EndMeta,
    Record,
    RenewMeta,
    RowsMeta,
    StageMeta,
    TrimMeta,
    decode_record,
)
from millstream.store.log.wal.segments import DamagedError, Log


def recover(catalog: Catalog, log: Log, files: StreamFiles) -> StreamCache:
    """Rebuild the state from the catalog and the log."""
    cache = StreamCache(catalog, files, catalog.fact(LAST_ID))
    cache.rows = dict(catalog.kept())
    for held in catalog.held():
        record = decode_record(held.lsn, held.record)
        with _explained(record):
            _replay_held(cache, files, held.stream_id, record)
        cache.held_back[held.stream_id] = cache.held_back.get(held.stream_id, 0) + len(held.record)
    cache.changed_bytes = 0  # a checkpoint would save none of it
    for record in log.recover(catalog.fact(APPLIED_LSN)):
        with _explained(record):
            _replay(cache, files, record)
    cache.unfinished.update(cache.dirty, cache.removed)  # a crash may have ended a checkpoint of them
    cache.load_staged()
    for entry in cache.by_id.values():
        entry.publish()
        content_of(entry).narrow(Extent.of(entry.stream))
        entry.logged_deadline_ms = entry.stream.deadline_ms or 0
    return cache


class _MisfitError(Exception):
    """A record is about something that does not exist."""


@contextlib.contextmanager
def _explained(record: Record) -> Iterator[None]:
    try:
        yield
    except _MisfitError as error:
        raise DamagedError(f"record {record.lsn} does not fit the state before it: {error}") from None


def _replay_held(cache: StreamCache, files: StreamFiles, stream_id: int, record: Record) -> None:
    """Replay what a record says about one stream; the catalog has what it says about another."""
    meta = record.meta
    if record.stream_id != stream_id:
        source = _get(cache, stream_id)
        if isinstance(meta, CreateMeta):
            _add_fork(cache, source, meta)
        elif isinstance(meta, EndMeta):
            _remove_fork(cache, source, meta)
    elif isinstance(meta, CreateMeta):
        fork = meta.stream.fork
        _add(cache, files, meta, record.payload, _get(cache, fork.source_id) if fork is not None else None)
    else:
        _replay(cache, files, record)


def _replay(cache: StreamCache, files: StreamFiles, record: Record) -> None:
    meta = record.meta
    if isinstance(meta, CreateMeta):
        _create(cache, files, meta, record.payload)
        return
    if isinstance(meta, RowsMeta):
        _keep(cache, meta)
        return
    entry = _get(cache, record.stream_id)
    cache.note_changed(entry)
    cache.changed_bytes += len(record.payload)
    if isinstance(meta, AppendMeta):
        _append(cache, entry, meta, record.payload)
    elif isinstance(meta, StageMeta):
        _stage(entry, meta, record.payload)
    elif isinstance(meta, CommitMeta):
        _commit(cache, entry, meta)
    elif isinstance(meta, DropMeta):
        _check_parts(entry, meta.ids)
        cache.release_parts(record.stream_id, entry.drop_parts(meta.ids))
    elif isinstance(meta, RenewMeta):
        entry.stream.deadline_ms = meta.deadline_ms
    elif isinstance(meta, ConfigureMeta):
        configuration.apply_configuration(entry.stream, meta.configuration)
    elif isinstance(meta, TrimMeta):
        _trim(entry, meta)
    else:
        _end(cache, entry, meta)


def _create(cache: StreamCache, files: StreamFiles, meta: CreateMeta, payload: bytes) -> None:
    fork = meta.stream.fork
    source = _get(cache, fork.source_id) if fork is not None else None
    if source is not None:
        _add_fork(cache, source, meta)
    _add(cache, files, meta, payload, source)


def _keep(cache: StreamCache, meta: RowsMeta) -> None:
    cache.changed_rows.update(meta.rows)
    for key, value in meta.rows.items():
        if value is not None:
            cache.rows[key] = value
        else:
            cache.rows.pop(key, None)


def _add_fork(cache: StreamCache, source: StreamEntry, meta: CreateMeta) -> None:
    source.stream.fork_count = meta.source_forks
    forks.share(source.stream, meta.stream.base)
    cache.note_changed(source)


def _remove_fork(cache: StreamCache, source: StreamEntry, meta: EndMeta) -> None:
    source.stream.fork_count = meta.source_forks
    forks.unshare(source.stream)
    cache.note_changed(source)


def _add(
    cache: StreamCache, files: StreamFiles, meta: CreateMeta, payload: bytes, source: StreamEntry | None
) -> None:
    stream = meta.stream
    cache.last_id = max(cache.last_id, stream.id)
    entry = StreamEntry(stream, source, StreamContent.of(files, stream, stream.base, 0))
    if payload:
        entry.content.append(payload, stream.last_time_ms)
    cache.add(entry)


def _append(cache: StreamCache, entry: StreamEntry, meta: AppendMeta, payload: bytes) -> None:
    _check_base(entry, meta)
    if payload:
        entry.content.append(payload, entry.stream.arrival_ms(meta.now_ms))
    _load_producers(cache, entry, meta)
    change = streams.Append(
        payload,
        meta.base + len(payload),
        meta.closes,
        meta.stamp,
        meta.seq,
        meta.forgets,
        meta.fingerprint,
    )
    streams.apply_append(entry.stream, change, meta.now_ms)
    if meta.closes:
        cache.release_parts(entry.stream.id, entry.drop_all_parts())


def _stage(entry: StreamEntry, meta: StageMeta, payload: bytes) -> None:
    if entry.stream.staged is not None and meta.id in entry.stream.staged.parts:
        raise _MisfitError(f"{entry.stream.name} has a part {meta.id} already.")
    entry.stage(parts.Stage(meta.id, payload), meta.now_ms)


def _commit(cache: StreamCache, entry: StreamEntry, meta: CommitMeta) -> None:
    append = meta.append
    _check_base(entry, append)
    size = sum(part.size for part in _check_parts(entry, meta.ids))
    _load_producers(cache, entry, append)
    change = streams.Append(
        b"",
        append.base + size,
        append.closes,
        append.stamp,
        append.seq,
        append.forgets,
        append.fingerprint,
    )
    numbers = entry.commit(parts.Commit(change, meta.ids, size), append.now_ms)
    cache.release_parts(entry.stream.id, numbers)


def _load_producers(cache: StreamCache, entry: StreamEntry, meta: AppendMeta) -> None:
    """Have the producers of a stream there before a stamped append, and note which ones it changes."""
    if meta.stamp is None:
        return
    if entry.stream.producers is None:
        cache.load_producers(entry)
    for id in meta.forgets:
        if id not in (entry.stream.producers or {}):
            raise _MisfitError(f"{entry.stream.name} knows no producer {id!r}.")
    cache.note_producers(entry.stream.id, meta.stamp.id, meta.forgets)


def _check_base(entry: StreamEntry, meta: AppendMeta) -> None:
    if meta.base != entry.stream.tail:
        raise _MisfitError(f"{entry.stream.name} ends at {entry.stream.tail}, not at {meta.base}.")


def _check_parts(entry: StreamEntry, ids: list[str]) -> list[Part]:
    staged = entry.stream.staged.parts if entry.stream.staged is not None else {}
    for id in ids:
        if id not in staged:
            raise _MisfitError(f"{entry.stream.name} has no part {id}.")
    return [staged[id] for id in ids]


def _trim(entry: StreamEntry, meta: TrimMeta) -> None:
    stream = entry.stream
    if not stream.start < meta.start <= stream.tail:
        raise _MisfitError(f"{stream.name} is from {stream.start} to {stream.tail}, without {meta.start}.")
    retention.apply_trim(stream, retention.Trim(meta.start, meta.first_append, meta.first_ms))


def _end(cache: StreamCache, entry: StreamEntry, meta: EndMeta) -> None:
    cache.release_parts(entry.stream.id, entry.drop_all_parts())
    if not meta.gone:
        entry.stream.soft_deleted = True
    if meta.source_id:
        _remove_fork(cache, _get(cache, meta.source_id), meta)
    for id in meta.gone:
        cache.remove(_get(cache, id))


def _get(cache: StreamCache, stream_id: int) -> StreamEntry:
    entry = cache.get(stream_id)
    if entry is None:
        raise _MisfitError(f"there is no stream {stream_id}.")
    return entry
