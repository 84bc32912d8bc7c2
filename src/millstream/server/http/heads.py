"""The head of a request, and heads that came before.

A client that stays connected sends the same head again and again, to the byte. Such a head is parsed
twice, then it is known: finding it costs a look into a table instead of a run of the parser. What is
known is what the parser said of exactly these bytes, so nothing is understood differently.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from millstream.server.request import Answer

Shortcut = Callable[[bytes], Answer | None]
"""Answers a request by its body, or leaves it to the ordinary way."""

END: Final = b"\r\n\r\n"

_KEPT = 1024
_SEEN_ONCE = 8192
_MAX_BYTES = 2048


class Head(msgspec.Struct, frozen=True):
    """A request up to its body."""

    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    keep_alive: bool
    takes_chunks: bool
    length: int
    """Of the body, as far as the head tells it."""
    shortcut: Shortcut | None = None


class Heads:
    """Recent heads by their bytes."""

    def __init__(self, find_shortcut: Callable[[Head], Shortcut | None]) -> None:
        self._find_shortcut = find_shortcut
        self._known: dict[bytes, Head] = {}
        self._seen_once: set[int] = set()
        self.find = self._known.get

    def learn(self, raw: bytes, head: Head) -> None:
        """Keep a head when it comes for the second time: most that differ at all come once."""
        if len(raw) > _MAX_BYTES:
            return
        key = hash(raw)
        if key not in self._seen_once:
            if len(self._seen_once) >= _SEEN_ONCE:
                self._seen_once.clear()
            self._seen_once.add(key)
            return
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[raw] = msgspec.structs.replace(head, shortcut=self._find_shortcut(head))

    def clear(self) -> None:
        """Forget all of them: they may mean something else from now on."""
        self._known.clear()
