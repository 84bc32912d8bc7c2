"""Durable streams for Python and Spark.

This is the sync client; `millstream.aio` has the same names, awaited.
"""

from millstream.client.core.errors import (
    AlreadyConsumedError,
    BadRequestError,
    ContentTypeMismatchError,
    DuplicateAppendError,
    MillstreamError,
    NotSupportedError,
    ParseError,
    PartConflictError,
    PartMissingError,
    PayloadTooLargeError,
    ProducerStoppedError,
    RateLimitedError,
    SequenceConflictError,
    SequenceGapError,
    StaleEpochError,
    StreamClosedError,
    StreamExistsError,
    StreamGoneError,
    StreamNotFoundError,
    TransportError,
    UnauthorizedError,
    UnexpectedStatusError,
)
from millstream.client.core.models import (
    AppendResult,
    ByteChunk,
    CloseResult,
    HeadResult,
    JsonBatch,
    ProducerStamp,
    TextChunk,
)
from millstream.client.core.retry import Retry
from millstream.client.http.sync_sockets import HttpClient
from millstream.client.sync.parts import Multipart
from millstream.client.sync.producer import IdempotentProducer
from millstream.client.sync.responses import StreamResponse, Subscription
from millstream.client.sync.streams import DurableStream, stream

__all__ = [
    "AlreadyConsumedError",
    "AppendResult",
    "BadRequestError",
    "ByteChunk",
    "CloseResult",
    "ContentTypeMismatchError",
    "DuplicateAppendError",
    "DurableStream",
    "HeadResult",
    "HttpClient",
    "IdempotentProducer",
    "JsonBatch",
    "MillstreamError",
    "Multipart",
    "NotSupportedError",
    "ParseError",
    "PartConflictError",
    "PartMissingError",
    "PayloadTooLargeError",
    "ProducerStamp",
    "ProducerStoppedError",
    "RateLimitedError",
    "Retry",
    "SequenceConflictError",
    "SequenceGapError",
    "StaleEpochError",
    "StreamClosedError",
    "StreamExistsError",
    "StreamGoneError",
    "StreamNotFoundError",
    "StreamResponse",
    "Subscription",
    "TextChunk",
    "TransportError",
    "UnauthorizedError",
    "UnexpectedStatusError",
    "stream",
]


def __getattr__(name: str) -> str:
    """Look the version up when it is asked for: reading the package's metadata takes milliseconds."""
    if name == "__version__":
        from importlib.metadata import version

        return version("millstream")
    raise AttributeError(f"module 'millstream' has no attribute {name!r}")
