"""Header names of the protocol, and the syntax of their values.

Names are lower-case bytes, as HTTP/2 and ASGI have them; our HTTP server converts to lower case. A header
that arrives twice is joined with a comma, as HTTP says, and no value here allows one.

PROTOCOL.md 13.2; rules A4, C3, F1, R1, X4.
"""

from typing import Final

from millstream.protocol.errors import MalformedError

CONTENT_TYPE: Final = b"content-type"
STREAM_NEXT_OFFSET: Final = b"stream-next-offset"
STREAM_UP_TO_DATE: Final = b"stream-up-to-date"
STREAM_CURSOR: Final = b"stream-cursor"
STREAM_CLOSED: Final = b"stream-closed"
STREAM_SEQ: Final = b"stream-seq"
STREAM_EXPECTED_OFFSET: Final = b"stream-expected-offset"
STREAM_TTL: Final = b"stream-ttl"
STREAM_EXPIRES_AT: Final = b"stream-expires-at"
STREAM_RETAIN_BYTES: Final = b"stream-retain-bytes"
STREAM_RETAIN_SECONDS: Final = b"stream-retain-seconds"
STREAM_ATTRIBUTES: Final = b"stream-attributes"
STREAM_INCARNATION: Final = b"stream-incarnation"
STREAM_EARLIEST_OFFSET: Final = b"stream-earliest-offset"
STREAM_START_OFFSET: Final = b"stream-start-offset"
STREAM_FIRST_TIME: Final = b"stream-first-time"
STREAM_LAST_TIME: Final = b"stream-last-time"
STREAM_FORKED_FROM: Final = b"stream-forked-from"
STREAM_FORK_OFFSET: Final = b"stream-fork-offset"
STREAM_FORK_SUB_OFFSET: Final = b"stream-fork-sub-offset"
STREAM_SSE_DATA_ENCODING: Final = b"stream-sse-data-encoding"
PRODUCER_ID: Final = b"producer-id"
PRODUCER_EPOCH: Final = b"producer-epoch"
PRODUCER_SEQ: Final = b"producer-seq"
PRODUCER_EXPECTED_SEQ: Final = b"producer-expected-seq"
PRODUCER_RECEIVED_SEQ: Final = b"producer-received-seq"
MILLSTREAM_EXTENSIONS: Final = b"millstream-extensions"

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every client language holds exactly."""


def parse_integer(text: bytes, name: str) -> int:
    """Read a non-negative integer: ASCII digits only, at most 2^53-1."""
    if text.isdigit() and len(text) <= 16:
        value = int(text)
        if value <= MAX_SAFE_INTEGER:
            return value
    raise MalformedError(
        "INVALID_INTEGER", f"{name} must be a whole number from 0 to {MAX_SAFE_INTEGER}, in digits only."
    )


def parse_canonical_integer(text: bytes, name: str) -> int:
    """Read an integer without a leading zero, so that each has one spelling."""
    if text[:1] == b"0" and text != b"0":
        raise MalformedError("INVALID_INTEGER", f"{name} must not begin with a zero.")
    return parse_integer(text, name)


def is_true(value: bytes | None) -> bool:
    """Tell whether a flag header is set: only `true` counts, in any case (rule A4)."""
    return value is not None and value.lower() == b"true"
