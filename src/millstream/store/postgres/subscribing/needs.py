"""What a request about subscriptions needs, beside the roster: it is prepared before anything is decided."""

from collections.abc import Callable, Iterable

import msgspec

from millstream.protocol.subscriptions.answers import MAX_LISTED
from millstream.store.subscriptions.entries import Entry
from millstream.store.subscriptions.roster import Roster


class Needs(msgspec.Struct, frozen=True):
    """What one request looks at."""

    now_ms: int | None
    """When it came; None is when it is decided."""
    key: str | None = None
    """Its subscription."""
    may_wake: bool = False
    """Whether its subscription may be woken again by it."""
    names: tuple[str, ...] = ()
    """Streams that it names."""
    pattern: str | None = None
    """What a new subscription watches."""
    adds: bool = False
    """Whether it may be a new subscription."""
    listed: Callable[[Roster], Iterable[str]] | None = None
    """Further subscriptions that it shows."""
    does_due: bool = False
    """Whether it does what is due by time."""
    delivers: bool = False
    """Whether it is for the server that delivers only."""


def keys_of(needs: Needs, roster: Roster, now_ms: int) -> list[str]:
    """Give the subscriptions that a request looks at."""
    keys = [needs.key] if needs.key is not None else []
    if needs.listed is not None:
        keys += needs.listed(roster)
    if needs.does_due:
        keys += roster.timers.due(now_ms)
    return keys


def woken_keys(needs: Needs, roster: Roster, now_ms: int) -> list[str]:
    """Give the subscriptions that a request may wake."""
    keys = [needs.key] if needs.key is not None and needs.may_wake else []
    return keys + roster.timers.due(now_ms) if needs.does_due else keys


def tails_of(entry: Entry) -> Iterable[str]:
    """Give the streams of a subscription whose tails may be asked for."""
    return entry.members.to_classify or entry.members.listed(MAX_LISTED)


def wake_streams(roster: Roster, names: Iterable[str], keys: Iterable[str]) -> set[str]:
    """Give the wake streams that may get an event, after changes of streams or of subscriptions.

    An event is an append, too, and may wake others.
    """
    found: set[str] = set()
    changed = list(names)

    def add(entry: Entry) -> None:
        name = entry.state.configuration.wake_stream
        if name is not None and name not in found:
            found.add(name)
            changed.append(name)

    for key in keys:
        if key in roster.entries:
            add(roster.entries[key])
    while changed:
        for entry in roster.watching.of(changed.pop()):
            if entry.state.wake is None:
                add(entry)
    return found
