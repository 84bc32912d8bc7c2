"""Globs that are followed: which feeds must hear of a stream that is created.

A creation is compared with every glob. So feeds that have the same glob share it, the number of globs is
limited, and creations wait for a turn of the event loop each. When too many wait, the feeds end: their
clients come back and are told of the new streams then.

Rule X9.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from millstream.protocol.globs import path_matcher
from millstream.store.slices import Slices

MAX_GLOBS: Final = 1000
"""Most different globs that all feeds of a server follow together."""

_MAX_WAITING: Final = 10_000


class GlobFollower(Protocol):
    """A feed that follows globs."""

    def created(self, name: str, id: int) -> None:
        """Hear of a stream that was created, and that a glob matches."""
        ...

    def end(self) -> None:
        """End cleanly; the client comes back."""
        ...


class _Followed:
    """A glob, and who follows it."""

    __slots__ = ("feeds", "matches")

    def __init__(self, matches: Callable[[str], bool]) -> None:
        self.matches = matches
        self.feeds: set[GlobFollower] = set()


class FollowedGlobs:
    """The globs of all feeds of a server."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._by_glob: dict[str, _Followed] = {}
        self._waiting: deque[tuple[str, int]] = deque()
        self._is_queued = False

    def have_room_for(self, globs: tuple[str, ...]) -> bool:
        """Tell whether globs can be followed in addition to those that are."""
        return len(self._by_glob) + sum(glob not in self._by_glob for glob in globs) <= MAX_GLOBS

    def watch(self, glob: str, feed: GlobFollower) -> None:
        """Report streams that are created and match, until the feed stops watching."""
        followed = self._by_glob.get(glob)
        if followed is None:
            followed = self._by_glob[glob] = _Followed(path_matcher(glob))
        followed.feeds.add(feed)

    def unwatch(self, glob: str, feed: GlobFollower) -> None:
        """Stop reporting to a feed."""
        followed = self._by_glob.get(glob)
        if followed is not None:
            followed.feeds.discard(feed)
            if not followed.feeds:
                del self._by_glob[glob]

    def created(self, name: str, id: int) -> None:
        """Report a new stream, soon."""
        if not self._by_glob:
            return
        self._waiting.append((name, id))
        if len(self._waiting) > _MAX_WAITING:
            self._waiting.clear()
            for feed in {feed for followed in self._by_glob.values() for feed in followed.feeds}:
                feed.end()
        elif not self._is_queued:
            self._queue()

    def _queue(self) -> None:
        self._is_queued = True
        self._slices.add(self._report_one)

    def _report_one(self) -> None:
        self._is_queued = False
        if not self._waiting:
            return
        name, id = self._waiting.popleft()
        feeds = {
            feed for followed in self._by_glob.values() if followed.matches(name) for feed in followed.feeds
        }
        for feed in feeds:
            feed.created(name, id)
        if self._waiting:
            self._queue()
