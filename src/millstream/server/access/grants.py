"""Grants: what a token allows, as data.

A scope is an action on the streams that a glob matches. In a token they are words of one string:

        "read:/chat/** write:/chat/42 admin"

A word without a glob means every stream. `admin` allows everything.
"""

import enum
import math
from collections.abc import Iterable

import msgspec

from millstream.protocol.globs import path_matches


class Action(enum.Enum):
    """What somebody wants to do with a stream."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class Scope(msgspec.Struct, frozen=True):
    """An action, and the streams on which it is allowed."""

    action: Action
    glob: str = "**"
    exact: bool = False
    """Whether the glob is a stream's name, whatever characters it has."""

    def covers(self, action: Action, name: str) -> bool:
        """Tell whether this scope allows an action on a stream."""
        if self.action not in (action, Action.ADMIN):
            return False
        return self.glob == name if self.exact else path_matches(self.glob, name)


class Grant(msgspec.Struct, frozen=True):
    """Everything that the bearer of a token may do, until it expires."""

    scopes: tuple[Scope, ...]
    expires_s: float | None = None

    def lasts_s(self, now_s: float) -> float:
        """For how much longer the grant holds."""
        return math.inf if self.expires_s is None else max(0.0, self.expires_s - now_s)

    def allows(self, action: Action, name: str) -> bool:
        """Tell whether an action on a stream is allowed."""
        return any(scope.covers(action, name) for scope in self.scopes)


_ACTIONS = frozenset(action.value for action in Action)

EVERYTHING = Grant((Scope(Action.ADMIN),))
"""What anybody may do on a server without tokens."""


def parse_scopes(words: str | Iterable[str]) -> tuple[Scope, ...]:
    """Read scopes; words that are not ours grant nothing."""
    listed = words.split() if isinstance(words, str) else list(words)
    scopes = []
    for word in listed:
        action, colon, glob = word.partition(":")
        if action in _ACTIONS and (glob or not colon):
            scopes.append(Scope(Action(action), glob or "**"))
    return tuple(scopes)
