"""A request as the routes see it, whichever server received it."""

from millstream.protocol import caching
from millstream.protocol.http import Reply
from millstream.server.access.grants import EVERYTHING
from millstream.server.live.readers import EventFeed
from millstream.store.pending import Pending

Answer = Reply | EventFeed | Pending[Reply | EventFeed]
"""A reply, events that go on coming, or one of them that is still to come."""


class Request:
    """What a client sent."""

    __slots__ = ("body", "client", "grant", "headers", "method", "mount", "path", "query", "scheme", "token")

    def __init__(
        self,
        method: bytes,
        path: bytes,
        query: bytes,
        headers: dict[bytes, bytes],
        body: bytes,
        scheme: bytes = b"http",
        mount: str = "",
        client: bytes = b"",
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.scheme = scheme
        self.mount = mount
        self.client = client
        self.grant = EVERYTHING
        self.token = b""  # what proved the grant, once it is verified

    @property
    def cache_control(self) -> bytes:
        """How caches may treat the answer: it may be meant for this client only."""
        return caching.for_client(bool(self.token), b"authorization" in self.headers)
