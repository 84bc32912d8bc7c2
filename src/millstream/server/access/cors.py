"""CORS, and the other headers of every response: which web pages may call, and what they may read.

Rule H1.
"""

from typing import Final

from millstream.protocol import headers, replies
from millstream.protocol.http import Header, Reply

METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

_REQUEST_HEADERS: Final = b", ".join(
    [
        b"content-type",
        b"content-encoding",
        b"authorization",
        b"if-none-match",
        b"if-match",
        b"x-jid",
        b"x-signed",
        headers.STREAM_SEQ,
        headers.STREAM_EXPECTED_OFFSET,
        headers.STREAM_TTL,
        headers.STREAM_EXPIRES_AT,
        headers.STREAM_RETAIN_BYTES,
        headers.STREAM_RETAIN_SECONDS,
        headers.STREAM_ATTRIBUTES,
        headers.STREAM_CLOSED,
        headers.STREAM_FORKED_FROM,
        headers.STREAM_FORK_OFFSET,
        headers.STREAM_FORK_SUB_OFFSET,
        headers.PRODUCER_ID,
        headers.PRODUCER_EPOCH,
        headers.PRODUCER_SEQ,
    ]
)
_RESPONSE_HEADERS: Final = b", ".join(
    [
        headers.STREAM_NEXT_OFFSET,
        headers.STREAM_CURSOR,
        headers.STREAM_UP_TO_DATE,
        headers.STREAM_CLOSED,
        headers.STREAM_TTL,
        headers.STREAM_EXPIRES_AT,
        headers.STREAM_RETAIN_BYTES,
        headers.STREAM_RETAIN_SECONDS,
        headers.STREAM_EARLIEST_OFFSET,
        headers.STREAM_START_OFFSET,
        headers.STREAM_FIRST_TIME,
        headers.STREAM_LAST_TIME,
        headers.STREAM_ATTRIBUTES,
        headers.STREAM_INCARNATION,
        headers.STREAM_SSE_DATA_ENCODING,
        headers.PRODUCER_EPOCH,
        headers.PRODUCER_SEQ,
        headers.PRODUCER_EXPECTED_SEQ,
        headers.PRODUCER_RECEIVED_SEQ,
        headers.MILLSTREAM_EXTENSIONS,
        b"etag",
        b"location",
        b"content-encoding",
        b"retry-after",
        b"ratelimit",
        b"ratelimit-policy",
        b"vary",
    ]
)
_EVERY_RESPONSE: Final[list[Header]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"cross-origin"),
]


class Cors:
    """Allows the configured origins."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._any = "*" in origins
        self._origins = frozenset(origin.encode() for origin in origins)

    def common_headers(self, origin: bytes | None) -> list[Header]:
        """Give the headers of every response to a request from this origin."""
        if self._any:
            return [*_EVERY_RESPONSE, *_allow(b"*")]
        if origin is not None and origin in self._origins:
            return [*_EVERY_RESPONSE, *_allow(origin), (b"vary", b"origin")]
        return [*_EVERY_RESPONSE, (b"vary", b"origin")]

    def key(self, origin: bytes | None) -> bytes | None:
        """Reduce an origin to what `common_headers` depends on, so that its result can be cached."""
        return origin if not self._any and origin in self._origins else None


def preflight() -> Reply:
    """Answer OPTIONS, also for a stream that does not exist."""
    return Reply(
        204,
        [
            (b"allow", METHODS),
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", _REQUEST_HEADERS),
            (b"access-control-max-age", b"86400"),
            replies.EXTENSIONS,
        ],
    )


def _allow(origin: bytes) -> list[Header]:
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _RESPONSE_HEADERS),
    ]
