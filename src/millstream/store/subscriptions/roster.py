"""The roster: all subscriptions of a store, in memory, and the one way in which they change.

A change is a new state, and the rows of cursors that change with it. `put` takes both, gives the rows to the
engine, and sets the timer. Nothing else writes rows of subscriptions.
"""

from collections.abc import Mapping

from millstream.protocol.subscriptions import wakes
from millstream.protocol.subscriptions.answers import MAX_LISTED, LinkedStream, Shown
from millstream.protocol.subscriptions.keys import Keys
from millstream.protocol.subscriptions.states import Subscription
from millstream.store.subscriptions.entries import Entry
from millstream.store.subscriptions.host import Host
from millstream.store.subscriptions.members import Members
from millstream.store.subscriptions.rows import KEYS, Rows, decode, encode, state_key
from millstream.store.subscriptions.timers import Timers
from millstream.store.subscriptions.watching import Watching


class Roster:
    """All subscriptions."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.entries: dict[str, Entry] = {}
        self.watching = Watching(self.entries)
        self.timers = Timers()
        self.keys: Keys | None = None
        self.failing = 0
        """How many subscriptions had a failed attempt last."""

    def adopt(self, rows: Mapping[str, bytes]) -> None:
        """Continue with what the engine has recovered."""
        found = decode(rows)
        self.keys = found.keys
        self.entries = {}
        self.watching, self.timers = Watching(self.entries), Timers()
        self.failing = 0
        for key, state in found.subscriptions.items():
            links = found.links.get(key, {})
            self.add(Entry(state, Members(key, links)))
            for name, link in links.items():
                if link.is_explicit:
                    self.watching.watch_stream(key, name)

    def add(self, entry: Entry) -> None:
        """Add a subscription."""
        self.entries[entry.state.key] = entry
        self.watching.watch(entry.state)
        self.failing += entry.state.is_failing
        self.set_timer(entry)

    def remove(self, entry: Entry) -> None:
        """Remove a subscription, and all of its rows."""
        key, rows = entry.state.key, Rows()
        rows[state_key(key)] = None
        entry.members.drop_all(rows)
        self.host.keep(rows)
        del self.entries[key]
        explicit = [name for name, link in entry.members.links.items() if link.is_explicit]
        self.watching.unwatch(entry.state, explicit)
        self.timers.set(key, None)
        self.failing -= entry.state.is_failing

    def put(self, entry: Entry, state: Subscription, rows: Rows) -> None:
        """Change a subscription, durably."""
        self.note(entry, state, rows)
        self.host.keep(rows)

    def note(self, entry: Entry, state: Subscription, rows: Rows) -> None:
        """Change a subscription, and add its row to others that are about to be kept."""
        self.failing += state.is_failing - entry.state.is_failing
        entry.state = state
        rows[state_key(state.key)] = encode(state)
        self.set_timer(entry)

    def set_timer(self, entry: Entry) -> None:
        """Note when a subscription has something to do; not while an attempt is being made."""
        state, wake = entry.state, entry.state.wake
        is_attempted = wake is not None and entry.attempted == wake.id
        self.timers.set(state.key, None if is_attempted else state.due_ms)

    def put_keys(self, keys: Keys) -> None:
        """Replace the keys of the store, durably."""
        self.keys = keys
        self.host.keep({KEYS: encode(keys)})

    def is_pending(self, entry: Entry) -> bool:
        """Tell whether a subscription has something that is not processed."""
        entry.members.classify(self.host.tails)
        return bool(entry.members.pending)

    def show(self, entry: Entry) -> Shown:
        """Give a subscription as it is shown to clients and sent to workers."""
        members = entry.members
        members.classify(self.host.tails)
        names = members.listed(MAX_LISTED)
        tails = self.host.tails(names)
        streams = [LinkedStream(name, members.links[name], tails.get(name)) for name in names]
        return Shown(entry.state, streams, len(members.links), len(members.pending))

    def rebase(self, now_ms: int) -> None:
        """Take in that the clock was set back."""
        for entry in self.entries.values():
            state = wakes.rebase(entry.state, now_ms)
            if state is not entry.state:
                self.put(entry, state, Rows())
