"""Routes that change what lives: its configuration, and where it begins (rule X10)."""

from collections.abc import Callable

from millstream.protocol.configuration import parse_configure
from millstream.protocol.replies import reply_to
from millstream.protocol.trims import TrimRequest
from millstream.server.request import Answer, Request
from millstream.store.base import Store
from millstream.store.pending import when


class ChangeRoutes:
    """What is answered to requests that change a stream without adding to it."""

    def __init__(self, store: Store, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._clock_ms = clock_ms

    def configure(self, name: str, request: Request) -> Answer:
        """Change how long a stream lives, what it keeps, and its attributes."""
        asked = parse_configure(request.headers, request.body)
        return when(self._store.configure(name, asked, self._clock_ms()), reply_to)

    def trim(self, name: str, asked: TrimRequest) -> Answer:
        """Drop the beginning of a stream."""
        return when(self._store.trim(name, asked, self._clock_ms()), reply_to)
