"""Who watches a stream: asked by every append, so the answer is remembered for each stream.

        name --> remembered? --> the subscriptions, mostly none
                     | no
                     v
                 explicit members, and the tree of globs (`protocol.subscriptions.glob_index`)

A change of who watches what forgets all answers; they are found again, one by one.
"""

from typing import Final

from millstream.protocol.globs import path_matches
from millstream.protocol.subscriptions.glob_index import GlobIndex
from millstream.protocol.subscriptions.states import Subscription

_REMEMBERED: Final = 65_536
_NOBODY: Final[tuple[str, ...]] = ()


class Watching:
    """Subscriptions by what they watch."""

    def __init__(self) -> None:
        self._globs = GlobIndex()
        self._explicit: dict[str, set[str]] = {}
        self._own: dict[str, str] = {}  # wake streams by subscription
        self._remembered: dict[str, tuple[str, ...]] = {}

    def watch(self, subscription: Subscription) -> None:
        """Let a subscription watch what its pattern matches."""
        configuration, key = subscription.configuration, subscription.key
        if configuration.pattern is not None:
            self._globs.add(configuration.pattern, key)
        if configuration.wake_stream is not None:
            self._own[key] = configuration.wake_stream
        self._remembered.clear()

    def unwatch(self, subscription: Subscription, names: list[str]) -> None:
        """Let a subscription watch nothing any more."""
        configuration, key = subscription.configuration, subscription.key
        if configuration.pattern is not None:
            self._globs.remove(configuration.pattern, key)
        self._own.pop(key, None)
        for name in names:
            self.unwatch_stream(key, name)
        self._remembered.clear()

    def watch_stream(self, key: str, name: str) -> None:
        """Let a subscription watch a stream that it names."""
        self._explicit.setdefault(name, set()).add(key)
        self._remembered.pop(name, None)

    def unwatch_stream(self, key: str, name: str) -> None:
        """Let a subscription no longer watch a stream that it named."""
        keys = self._explicit.get(name)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._explicit[name]
        self._remembered.pop(name, None)

    def of(self, name: str) -> tuple[str, ...]:
        """Give the subscriptions that watch a stream."""
        found = self._remembered.get(name)
        return found if found is not None else self._find(name)

    def _find(self, name: str) -> tuple[str, ...]:
        keys = {key for key in self._globs.owners(name) if self._own.get(key) != name}
        keys |= self._explicit.get(name, set())
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        found = self._remembered[name] = tuple(sorted(keys)) if keys else _NOBODY
        return found


def is_matched(subscription: Subscription, name: str) -> bool:
    """Tell whether a subscription's glob matches a stream; its own wake stream is none of them."""
    configuration = subscription.configuration
    pattern = configuration.pattern
    return pattern is not None and name != configuration.wake_stream and path_matches(pattern, name)
