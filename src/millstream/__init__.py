"""Durable streams for Python and Spark.

This is the sync client; `millstream.aio` has the same names, awaited.
"""

from millstream.client.errors import (
    AlreadyConsumedError,
    BadRequestError,
    ContentTypeMismatchError,
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
from millstream.client.models import (
    AppendResult,
    ByteChunk,
    CloseResult,
    HeadResult,
    JsonBatch,
    ProducerStamp,
    TextChunk,
)
from millstream.client.retry import Retry
from millstream.client.sockets import HttpClient
from millstream.client.sync import DurableStream, stream
from millstream.client.sync_parts import Multipart
from millstream.client.sync_producer import IdempotentProducer
from millstream.client.sync_responses import StreamResponse, Subscription

__all__ = [
    "AlreadyConsumedError",
    "AppendResult",
    "BadRequestError",
    "ByteChunk",
    "CloseResult",
    "ContentTypeMismatchError",
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
