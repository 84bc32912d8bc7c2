"""Grants: what a token allows, as data.

A scope is an action on the streams that a glob matches. A token lists its scopes in one string:

        "read:/chat/** write:/chat/42 admin"

A scope without a glob covers every stream. `admin` allows everything.
"""

import enum
import math
from collections.abc import Iterable

import msgspec

from millstream.protocol.globs import path_matches


class Action(enum.Enum):
    """What a request does with a stream."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class Scope(msgspec.Struct, frozen=True):
    """An action, and the streams on which it is allowed."""

    action: Action
    glob: str = "**"
    exact: bool = False
    """Whether `glob` is a stream's name, compared character by character."""

    def __str__(self) -> str:
        return self.action.value if self.glob == "**" else f"{self.action.value}:{self.glob}"

    def covers(self, action: Action, name: str) -> bool:
        """Tell whether this scope allows an action on a stream."""
        if self.action not in (action, Action.ADMIN):
            return False
        return self.glob == name if self.exact else path_matches(self.glob, name)


class Grant(msgspec.Struct, frozen=True):
    """All that a token allows, until it expires."""

    scopes: tuple[Scope, ...]
    expires_s: float | None = None

    def lasts_s(self, now_s: float) -> float:
        """Give the time until the grant expires."""
        return math.inf if self.expires_s is None else max(0.0, self.expires_s - now_s)

    def allows(self, action: Action, name: str) -> bool:
        """Tell whether an action on a stream is allowed."""
        return any(scope.covers(action, name) for scope in self.scopes)

    def allows_some(self, action: Action) -> bool:
        """Tell whether an action is allowed on any stream at all."""
        return any(scope.action in (action, Action.ADMIN) for scope in self.scopes)

    def allows_all(self, action: Action) -> bool:
        """Tell whether an action is allowed on every stream, by a scope without a glob."""
        return any(scope.action in (action, Action.ADMIN) and scope.glob == "**" for scope in self.scopes)


class Access(msgspec.Struct, frozen=True, rename="camel"):
    """What a grant allows on one stream, or on some stream; and until when."""

    path: str | None
    read: bool
    write: bool
    admin: bool
    expires_ms: int | None


def access_of(grant: Grant, name: str | None) -> Access:
    """Tell what a grant allows on a stream; without a name, what it allows on some stream."""

    def may(action: Action) -> bool:
        return grant.allows_some(action) if name is None else grant.allows(action, name)

    expires_ms = None if grant.expires_s is None else round(grant.expires_s * 1000)
    # Admin rights on the server are those on every stream: the metrics ask for them at the root.
    is_admin = grant.allows(Action.ADMIN, "/")
    return Access(name, may(Action.READ), may(Action.WRITE), is_admin, expires_ms)


_ACTIONS = frozenset(action.value for action in Action)

EVERYTHING = Grant((Scope(Action.ADMIN),))
"""The grant of every request on a server without tokens."""


def parse_scopes(words: str | Iterable[str]) -> tuple[Scope, ...]:
    """Read scopes; unknown ones grant nothing."""
    listed = words.split() if isinstance(words, str) else list(words)
    scopes = []
    for word in listed:
        action, colon, glob = word.partition(":")
        if action in _ACTIONS and (glob or not colon):
            scopes.append(Scope(Action(action), glob or "**"))
    return tuple(scopes)
