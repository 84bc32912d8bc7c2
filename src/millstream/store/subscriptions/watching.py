"""Who watches a stream: asked by every append, so the answer is remembered for each stream.

        name --> remembered? --> the subscriptions, mostly none
                     | no
                     v
                 explicit members, and the tree of globs (`protocol.subscriptions.glob_index`)

A change of who watches what forgets all answers; they are found again, one by one.
"""

from collections.abc import Mapping
from typing import Final

from millstream.protocol.globs import path_matches
from millstream.protocol.subscriptions.glob_index import GlobIndex
from millstream.protocol.subscriptions.states import Subscription
from millstream.store.subscriptions.entries import Entry

_REMEMBERED: Final = 65_536
_NOBODY: Final[tuple[Entry, ...]] = ()


class Watching:
    """Subscriptions by what they watch."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._globs = GlobIndex()
        self._explicit: dict[str, set[str]] = {}
        self._own: dict[str, str] = {}  # wake streams by subscription
        self._remembered: dict[str, tuple[Entry, ...]] = {}
        self.pending: dict[str, tuple[dict[str, None], ...]] = {}
        """The same as what the subscriptions have pending, which is all that most appends need to look at."""

    def watch(self, subscription: Subscription) -> None:
        """Let a subscription watch what its pattern matches."""
        configuration, key = subscription.configuration, subscription.key
        if configuration.pattern is not None:
            self._globs.add(configuration.pattern, key)
        if configuration.wake_stream is not None:
            self._own[key] = configuration.wake_stream
        self._forget_all()

    def unwatch(self, subscription: Subscription, names: list[str]) -> None:
        """Let a subscription watch nothing any more."""
        configuration, key = subscription.configuration, subscription.key
        if configuration.pattern is not None:
            self._globs.remove(configuration.pattern, key)
        self._own.pop(key, None)
        for name in names:
            self.unwatch_stream(key, name)
        self._forget_all()

    def watch_stream(self, key: str, name: str) -> None:
        """Let a subscription watch a stream that it names."""
        self._explicit.setdefault(name, set()).add(key)
        self._forget(name)

    def unwatch_stream(self, key: str, name: str) -> None:
        """Let a subscription no longer watch a stream that it named."""
        keys = self._explicit.get(name)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._explicit[name]
        self._forget(name)

    def of(self, name: str) -> tuple[Entry, ...]:
        """Give the subscriptions that watch a stream."""
        found = self._remembered.get(name)
        return found if found is not None else self._find(name)

    def _find(self, name: str) -> tuple[Entry, ...]:
        keys = {key for key in self._globs.owners(name) if self._own.get(key) != name}
        keys |= self._explicit.get(name, set())
        if len(self._remembered) >= _REMEMBERED:
            self._forget_all()
        found = tuple(self._entries[key] for key in sorted(keys)) if keys else _NOBODY
        self._remembered[name] = found
        self.pending[name] = tuple(entry.members.pending for entry in found)
        return found

    def _forget_all(self) -> None:
        self._remembered.clear()
        self.pending.clear()

    def _forget(self, name: str) -> None:
        self._remembered.pop(name, None)
        self.pending.pop(name, None)


def is_matched(subscription: Subscription, name: str) -> bool:
    """Tell whether a subscription's glob matches a stream; its own wake stream is none of them."""
    configuration = subscription.configuration
    pattern = configuration.pattern
    return pattern is not None and name != configuration.wake_stream and path_matches(pattern, name)
