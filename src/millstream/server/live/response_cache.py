"""Recent responses, shared by readers that ask for the same.

Readers that follow a stream ask for the same few ranges, and those that wait for new data are all answered
with it. Such a response is made once, with its header lines, and kept until the stream changes.

Most requests are never repeated: a reader goes on from another offset each time. They must not pay for
this. So a response is kept when it is made for the second time since the stream has changed; the first time
costs an entry in a small table. Responses that depend on more than their key are not kept: those that renew
a lifetime, and those about a time that is counted from the request. Nothing is kept where other servers may
change the stream, too.
"""

from collections.abc import Hashable
from typing import Final

from millstream.protocol.http import Reply
from millstream.server.http.wire import encode_headers

_KEPT_STREAMS: Final = 4096
_KEPT_PER_STREAM: Final = 32
_KEPT_BYTES: Final = 16 * 2**20
_MAX_BYTES: Final = 64 * 1024  # of one response
_REMEMBERED: Final = 4096  # responses that were made once


class ResponseCache:
    """Responses by what was asked, dropped when their stream changes."""

    def __init__(self, *, is_on: bool = True) -> None:
        self._is_on = is_on
        self._by_key: dict[Hashable, Reply] = {}
        self.keys: dict[str, list[Hashable]] = {}
        """Of the streams whose responses are kept."""
        self.find = self._by_key.get
        self._kept_bytes = 0
        self._made: dict[int, int] = {}  # where responses ended, by the hashes of their keys

    def keep(self, name: str, key: Hashable, reply: Reply, end: int) -> None:
        """Keep a response until its stream changes, if it was made before; `end` is where it ends."""
        if not self._is_on:
            return
        mark = hash(key)
        if self._made.get(mark) != end:
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            self._made[mark] = end
            return
        body = reply.body
        if not isinstance(body, bytes) or len(body) > _MAX_BYTES:
            return
        if len(self.keys) >= _KEPT_STREAMS or self._kept_bytes > _KEPT_BYTES:
            self.clear()
        keys = self.keys.setdefault(name, [])
        if len(keys) < _KEPT_PER_STREAM and key not in self._by_key:  # else it is that of a conditional read
            keys.append(key)
            self._by_key[key] = Reply(reply.status, reply.headers, body, encode_headers(reply.headers))
            self._kept_bytes += len(body)

    def forget(self, name: str) -> None:
        """Drop the responses of a stream: it has changed."""
        for key in self.keys.pop(name, ()):
            self._kept_bytes -= len(self._by_key.pop(key).body)

    def clear(self) -> None:
        """Drop everything."""
        self._by_key.clear()
        self.keys.clear()
        self._kept_bytes = 0
