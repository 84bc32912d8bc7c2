"""Globs over stream paths: `*` matches within one segment, `**` any number of segments.

A pattern is compiled to an automaton whose states are the bits of an integer: bit n is set when the first
n segments of the pattern match what was read so far. Every segment of a path is read once and moves all
states at a time, so there is no backtracking, and the time is linear in the path:

        pattern   chat / ** / end          bit   0      1       2 3
                                                 | chat | any ^ | | end
                                                 +----->+-----+>+ +--->  3: matched

PROTOCOL.md 6.2; rules S5, X2.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

MAX_GLOB_BYTES: Final = 1024
"""Longest pattern of a listing: as long as a name."""

_KEPT_GLOBS = 256


def glob_matches(pattern: str, name: str) -> bool:
    """Tell whether a name matches a pattern, without regard to leading slashes."""
    return _compiled(pattern.lstrip("/")).matches(name.lstrip("/"))


def path_matches(pattern: str, path: str) -> bool:
    """Tell whether a path matches a pattern exactly: `//a` is another path than `/a`."""
    return _compiled(pattern if pattern.startswith("/") else "/" + pattern).matches(path)


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Compile a pattern as `path_matches` reads it, for callers that keep it."""
    return _Glob(pattern if pattern.startswith("/") else "/" + pattern).matches


class _Wildcard:
    """A segment with stars: the first and last literal at its ends, the others where each is found first."""

    def __init__(self, pattern: str) -> None:
        self._first, *middle, self._last = pattern.split("*")
        self._middle = [piece for piece in middle if piece]
        self.states = 0

    def matches(self, segment: str) -> bool:
        """Tell whether a segment matches."""
        at, end = len(self._first), len(segment) - len(self._last)
        if at > end or not segment.startswith(self._first) or not segment.endswith(self._last):
            return False
        for piece in self._middle:
            at = segment.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True


class _Glob:
    """A compiled pattern: which states each kind of segment moves on."""

    def __init__(self, pattern: str) -> None:
        self._literal: dict[str, int] = {}
        self._wild: dict[str, _Wildcard] = {}
        self._any = self._stay = 0
        state = 1
        for segment in pattern.split("/"):
            if segment == "**":
                if self._stay & state >> 1:
                    continue  # one after the other is as good as one
                self._stay |= state
            elif segment and not segment.strip("*"):
                self._any |= state
            elif "*" in segment:
                self._wild.setdefault(segment, _Wildcard(segment)).states |= state
            else:
                self._literal[segment] = self._literal.get(segment, 0) | state
            state <<= 1
        self._matched = state

    def matches(self, path: str) -> bool:
        """Tell whether a path matches."""
        stay, wild = self._stay, self._wild.values()
        states = 1 | (stay & 1) << 1
        for segment in path.split("/"):
            moved = states & (self._any | self._literal.get(segment, 0))
            for one in wild:
                if states & one.states and one.matches(segment):
                    moved |= states & one.states
            states = moved << 1 | states & stay
            states |= (states & stay) << 1
            if not states:
                return False
        return states & self._matched != 0


_compiled = lru_cache(_KEPT_GLOBS)(_Glob)
