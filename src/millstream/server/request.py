"""A request as the routes see it, whichever server received it."""

from typing import Final

import msgspec

from millstream.protocol import caching
from millstream.protocol.http import Reply
from millstream.server.access.grants import EVERYTHING, Grant
from millstream.server.access.limits import Rates
from millstream.server.live.feeds import EventFeed
from millstream.store.pending import Pending

Answer = Reply | EventFeed | Pending[Reply | EventFeed]
"""A reply, an event stream, or one of them that is not ready yet."""


SMALL_BODY_BYTES: Final = 64 * 1024
"""Up to this size a body is read before its request is authorized, and checked on the event loop."""


class Request(msgspec.Struct, gc=False):
    """What a client sent. Header names are in lower case."""

    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes
    scheme: bytes = b"http"
    mount: str = ""
    client: bytes = b""
    """The address of the client."""
    keep_alive: bool = True
    """Whether the client may send another request on this connection."""
    takes_chunks: bool = True
    """Whether the response may be chunked: HTTP/1.0 does not know that."""
    grant: Grant = EVERYTHING
    """What the client may do; set by `access.auth`."""
    is_identified: bool = False
    """Whether the grant is set already: the application around this server knows the client."""
    token: bytes = b""
    """The token that proved the grant, once it is verified."""
    rates: Rates | None = None
    """The outcome of its rate limits, once it is counted."""
    route: bytes = b""
    """What `telemetry.latencies` counts the request as, if not as its method."""

    @property
    def cache_control(self) -> bytes:
        """How caches may treat the answer: it may be meant for this client only."""
        return caching.for_client(self.is_identified or bool(self.token), b"authorization" in self.headers)
