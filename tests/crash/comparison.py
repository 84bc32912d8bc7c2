"""The engine's state beside the model's, after a crash or a full disk."""

import json

from millstream.protocol.content import Kind
from millstream.store.entries import StreamEntry
from millstream.store.subscriptions import rows

from . import model as plain
from .simulated_world import World


def compare(world: World, names: list[str], state: plain.Model, accepted: plain.Model) -> None:
    """Compare every stream with what it must be, of which some may have been accepted later."""
    for name in names:
        entry = world.engine.streams.find(name)
        wanted = state.get(name)
        if wanted is None or entry is None:
            world.check(
                wanted is None and entry is None, f"{name}: {'lost' if entry is None else 'resurrected'}"
            )
            continue
        world.check(entry.stream.id == wanted.id, f"{name}: another stream of that name")
        if entry.stream.producers is None:
            world.engine.streams.load_producers(entry)
        found = _entry_of(entry)
        world.check(found.facts() == wanted.facts(), f"{name}: {_difference(wanted, found)}")
        _compare_deadlines(world, wanted, found, accepted)
        position = 0
        for piece in wanted.pieces:
            if position >= wanted.start:
                bounds = entry.bounds(position)
                right = (position, position + len(piece))
                world.check(bounds == right, f"{name}: an append lies at {bounds}")
            position += len(piece)
        _compare_times(world, wanted, entry)
    _compare_subscriptions(world, state)
    listed: list[str] = []
    after: str | None = ""
    while after is not None:  # a page has a limit of time
        page = world.store.listing("", None, after, 1000, 0)
        listed += [stream.name for stream in page.streams]
        after = page.next_after
    names = sorted(name for name, id in state.names.items() if not state.streams[id].soft_deleted)
    world.check(listed == names, f"listed {listed} instead of {names}")


def _compare_subscriptions(world: World, state: plain.Model) -> None:
    """Every row is as it was; and what has something pending is woken, whatever was lost (rule S1)."""
    subscriptions = world.store.subscriptions
    found = {rows.KEYS: rows.encode(subscriptions.keys)} if subscriptions.keys is not None else {}
    for key, entry in subscriptions.entries.items():
        found[rows.state_key(key)] = rows.encode(entry.state)
        for name, link in entry.members.links.items():
            found[rows.link_key(key, name)] = rows.encode(link)
            stream = world.engine.streams.find(name)
            if stream is not None and not stream.stream.soft_deleted and stream.stream.tail > link.acked:
                world.check(entry.state.wake is not None, f"{key}: {name} is pending, and nobody is woken")
    different = {key for key in found.keys() | state.rows.keys() if found.get(key) != state.rows.get(key)}
    world.check(not different, f"rows of subscriptions differ: {different}")


def _compare_times(world: World, wanted: plain.Entry, entry: StreamEntry) -> None:
    """Every append has the time that it had, and is found by it (rule X7)."""
    kept = wanted.kept_times()
    found = [(position, entry.time_at(position)) for position, _ in kept]
    world.check(found == kept, f"{wanted.name}: the times are {found} instead of {kept}")
    stream = entry.stream
    ends_ms = (stream.first_time_ms, stream.last_time_ms)
    right_ms = (kept[0][1], kept[-1][1]) if kept else (0, 0)
    world.check(ends_ms == right_ms, f"{wanted.name}: is from {ends_ms} instead of {right_ms}")
    for time_ms in {time_ms + change for _, time_ms in kept for change in (0, 1)}:
        first = next((position for position, ms in kept if ms >= time_ms), wanted.tail)
        since = entry.first_since(time_ms)
        world.check(since == first, f"{wanted.name}: since {time_ms} is {since} instead of {first}")


def _compare_deadlines(world: World, entry: plain.Entry, found: plain.Entry, accepted: plain.Model) -> None:
    """Not before what the log says; later only by renewals that were too small to be logged.

    Or the other way round, when the clock was set back in between: a checkpoint may have saved any deadline
    that was accepted since.
    """
    if entry.deadline_ms is not None and found.deadline_ms is not None:
        last = accepted.streams.get(entry.id)
        is_changed = last is None or last.ttl_ms != entry.ttl_ms  # a crash has undone its end, or a PATCH
        latest_ms = (last.deadline_ms or 0) if last is not None else 0
        lowest_ms = min(entry.deadline_ms, latest_ms)
        if last is not None and last.lowered_ms is not None:
            lowest_ms = min(lowest_ms, last.lowered_ms)
        world.check(
            (is_changed and entry.deadline_ms <= found.deadline_ms)
            or lowest_ms <= found.deadline_ms <= max(entry.deadline_ms, latest_ms),
            f"{entry.name}: its deadline is {found.deadline_ms}, not {entry.deadline_ms}",
        )
        entry.deadline_ms = found.deadline_ms


def _entry_of(entry: StreamEntry) -> plain.Entry:
    stream = entry.stream
    stamps = {id: (id, state.epoch, state.seq) for id, state in (stream.producers or {}).items()}
    by = stream.closed_by
    return plain.Entry(
        stream.id,
        stream.name,
        stream.kind is Kind.JSON,
        [bytes(entry.start) + entry.fetch(entry.start, entry.tail)],
        entry.tail,
        entry.closed,
        (by.id, by.epoch, by.seq) if by is not None else None,
        stamps,
        stream.last_seq,
        None,
        stream.deadline_ms,
        stream.fork.source_id if stream.fork is not None else None,
        stream.fork_count,
        stream.soft_deleted,
        parts=_parts_of(entry),
        start=entry.start,
        retention=stream.retention,
        attributes=json.loads(stream.attributes or b"{}"),
    )


def _difference(wanted: plain.Entry, found: plain.Entry) -> str:
    pairs = zip(wanted.facts(), found.facts(), strict=True)
    return "; ".join(f"{got!r} instead of {want!r}" for want, got in pairs if want != got)


def _parts_of(entry: StreamEntry) -> dict[str, tuple[bytes, int]]:
    """The parts of a stream, as the model has them."""
    listed = entry.stream.staged.parts if entry.stream.staged is not None else {}
    return {id: (entry.staged[part.number][:], part.staged_ms) for id, part in listed.items()}
