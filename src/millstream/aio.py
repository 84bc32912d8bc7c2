"""The async client: the names of `millstream`, awaited."""

from millstream.client.aio import DurableStream, stream
from millstream.client.aio_parts import Multipart
from millstream.client.aio_producer import IdempotentProducer
from millstream.client.aio_responses import StreamResponse, Subscription
from millstream.client.aio_sockets import HttpClient
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
