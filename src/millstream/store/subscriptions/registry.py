"""The registry: subscriptions are created, read, listed and deleted, and streams become members of them.

A subscription watches from the moment of its creation. Streams that its pattern matches and that exist
already are then looked for, some at a time, and linked at their tails; what is written to meanwhile is
linked by that. Not all need be found (`members`), so the search has a bound.

PROTOCOL.md 6; rules S1, S4.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from millstream.protocol.events import literal_prefix
from millstream.protocol.streams import Unstored
from millstream.protocol.subscriptions.answers import Shown
from millstream.protocol.subscriptions.configurations import Configuration
from millstream.protocol.subscriptions.keys import Keys, SigningKey, rotate
from millstream.protocol.subscriptions.problems import Differs, TooMany, Unknown
from millstream.protocol.subscriptions.states import Subscription
from millstream.store.pending import Eventually, when
from millstream.store.subscriptions.entries import Entry
from millstream.store.subscriptions.members import MAX_IDLE, Members
from millstream.store.subscriptions.roster import Roster
from millstream.store.subscriptions.rows import Rows, encode, state_key
from millstream.store.subscriptions.watching import is_matched

_STEP_S: Final = 0.002
MAX_LOOKED_AT: Final = 100_000  # names that a new subscription looks at, at most
_TOGETHER: Final = 64  # streams whose tails are looked up at once
_PAGE_LOOKED_AT: Final = 1_000

MAX_SUBSCRIPTIONS: Final = 10_000

MayRead = Callable[[Subscription], bool]
"""Whether the caller may see a subscription."""


class Registered(msgspec.Struct, frozen=True):
    """A subscription that is there, and whether it is new."""

    shown: Shown
    is_new: bool


class Removed(msgspec.Struct, frozen=True):
    """A subscription or a member is not there, or no longer."""


class RosterPage(msgspec.Struct, frozen=True):
    """Some subscriptions in the order of their keys, and the key to continue after, if there is more."""

    shown: list[Shown]
    next_after: str | None


Registration = Registered | Differs | TooMany | Unstored


class Registry:
    """Creates and deletes subscriptions."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._host = roster.host
        self.max_subscriptions: int = MAX_SUBSCRIPTIONS

    def create(
        self, id: str, root: str, configuration: Configuration, base_url: str, keys: Keys, now_ms: int
    ) -> Eventually[Registration]:
        """Create a subscription, or confirm that it is there; `keys` are for a store that has none."""
        entry = self._roster.entries.get(root + id)
        if entry is not None:
            return self._confirm(entry, configuration, base_url)
        if len(self._roster.entries) >= self.max_subscriptions:
            return self._host.confirm(TooMany(self.max_subscriptions))
        if self._host.refusal is not None:
            return self._host.refusal
        self.provide_keys(keys)
        state = Subscription(id, root, configuration, base_url, now_ms)
        entry = Entry(state, Members(state.key))
        rows: Rows = {state_key(state.key): encode(state)}
        self._roster.add(entry)
        self._link(entry, configuration.streams, rows)
        self._host.keep(rows)
        return when(self._find_streams(entry), lambda _: self._registered(entry, is_new=True))

    def _confirm(self, entry: Entry, configuration: Configuration, base_url: str) -> Eventually[Registration]:
        if entry.state.configuration.hash != configuration.hash:
            return self._host.confirm(Differs())
        if entry.state.base_url != base_url and self._host.refusal is None:
            self._roster.put(entry, msgspec.structs.replace(entry.state, base_url=base_url), {})
        return self._registered(entry, is_new=False)

    def _registered(self, entry: Entry, *, is_new: bool) -> Eventually[Registration]:
        return self._host.confirm(Registered(self._roster.show(entry), is_new))

    def _link(self, entry: Entry, names: tuple[str, ...], rows: Rows) -> None:
        tails = self._host.tails(list(names))
        for name in names:
            entry.members.add(name, tails.get(name, 0), rows)
            self._roster.watching.watch_stream(entry.state.key, name)

    def _find_streams(self, entry: Entry) -> Eventually[None]:
        """Link streams that exist and that the pattern matches."""
        pattern = entry.state.configuration.pattern
        if pattern is None:
            return None
        names = itertools.islice(self._host.names(literal_prefix(pattern)), MAX_LOOKED_AT)
        return self._host.in_slices(lambda: self._find_some(entry, names))

    def _find_some(self, entry: Entry, names: Iterator[str]) -> bool:
        """Link some streams; tells whether that was all."""
        key, rows, ends_s = entry.state.key, Rows(), time.monotonic() + _STEP_S
        is_finished = False
        while not is_finished and time.monotonic() < ends_s:
            looked_at = list(itertools.islice(names, _TOGETHER))
            found = [name for name in looked_at if is_matched(entry.state, name)]
            for name, tail in self._host.tails(found).items():
                entry.members.link(name, tail, rows)
            is_finished = not looked_at or len(entry.members.links) >= MAX_IDLE
        if self._roster.entries.get(key) is not entry or self._host.refusal is not None:
            return True  # it was deleted meanwhile, or nothing can be recorded
        if rows:
            self._host.keep(rows)
        return is_finished

    def read(self, key: str) -> Eventually[Shown | Unknown | Unstored]:
        """Show a subscription."""
        entry = self._roster.entries.get(key)
        return self._host.confirm(self._roster.show(entry) if entry is not None else Unknown())

    def list(self, after: str, limit: int, may_read: MayRead) -> Eventually[RosterPage | Unstored]:
        """List subscriptions in the order of their keys, beginning after one."""
        keys = sorted(key for key in self._roster.entries if key > after)
        shown: list[Shown] = []
        for looked_at, key in enumerate(keys):
            if len(shown) == limit or looked_at == _PAGE_LOOKED_AT:
                return self._host.confirm(RosterPage(shown, after))
            after = key
            entry = self._roster.entries[key]
            if may_read(entry.state):
                shown.append(self._roster.show(entry))
        return self._host.confirm(RosterPage(shown, None))

    def delete(self, key: str) -> Eventually[Removed | Unstored]:
        """Delete a subscription; one that is not there counts as deleted."""
        entry = self._roster.entries.get(key)
        if entry is None:
            return self._host.confirm(Removed())
        if self._host.refusal is not None:
            return self._host.refusal
        self._roster.remove(entry)
        return self._host.confirm(Removed())

    # -- Members ---------------------------------------------------------------------------------

    def add_members(self, key: str, names: tuple[str, ...]) -> Eventually[Removed | Unknown | Unstored]:
        """Link streams explicitly, at their tails."""
        entry = self._roster.entries.get(key)
        if entry is None:
            return self._host.confirm(Unknown())
        if self._host.refusal is not None:
            return self._host.refusal
        rows: Rows = {}
        entry.members.classify(self._host.tails)
        self._link(entry, names, rows)
        if rows:
            self._host.keep(rows)
        return self._host.confirm(Removed())

    def remove_member(self, key: str, name: str) -> Eventually[Removed | Unknown | Unstored]:
        """Remove an explicit link; a stream that the pattern matches stays."""
        entry = self._roster.entries.get(key)
        if entry is None:
            return self._host.confirm(Unknown())
        if self._host.refusal is not None:
            return self._host.refusal
        rows: Rows = {}
        entry.members.classify(self._host.tails)
        entry.members.remove(name, rows, is_matched=is_matched(entry.state, name))
        self._roster.watching.unwatch_stream(key, name)
        if rows:
            self._host.keep(rows)
        return self._host.confirm(Removed())

    # -- Keys ------------------------------------------------------------------------------------

    def provide_keys(self, keys: Keys) -> Keys:
        """Give the keys of the store; those that are offered become them if it has none."""
        if self._roster.keys is None:
            self._roster.put_keys(keys)
        assert self._roster.keys is not None
        return self._roster.keys

    def offer_keys(self, keys: Keys) -> Eventually[Keys | Unstored]:
        """Give the keys of the store durably; those that are offered become them if it has none."""
        if self._roster.keys is None and self._host.refusal is not None:
            return self._host.refusal
        return self._host.confirm(self.provide_keys(keys))

    def rotate_keys(self, new: SigningKey, keys: Keys, now_ms: int) -> Eventually[Keys | Unstored]:
        """Let another key sign."""
        if self._host.refusal is not None:
            return self._host.refusal
        rotated = rotate(self.provide_keys(keys), new, now_ms)
        self._roster.put_keys(rotated)
        return self._host.confirm(rotated)
