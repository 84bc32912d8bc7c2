"""The async client: the names of `millstream`, awaited."""

from millstream.client.aio.deletions import delete_all
from millstream.client.aio.following import Following, follow_many
from millstream.client.aio.parts import Multipart
from millstream.client.aio.producer import IdempotentProducer
from millstream.client.aio.responses import StreamResponse, Subscription
from millstream.client.aio.streams import DurableStream, stream
from millstream.client.core.errors import (
    AlreadyConsumedError,
    BadRequestError,
    ContentTypeMismatchError,
    DuplicateAppendError,
    MillstreamError,
    NotSupportedError,
    OffsetConflictError,
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
    StreamBatch,
    TextChunk,
)
from millstream.client.core.origins import last, since
from millstream.client.core.retry import Retry
from millstream.client.http.aio_sockets import HttpClient

__all__ = [
    "AlreadyConsumedError",
    "AppendResult",
    "BadRequestError",
    "ByteChunk",
    "CloseResult",
    "ContentTypeMismatchError",
    "DuplicateAppendError",
    "DurableStream",
    "Following",
    "HeadResult",
    "HttpClient",
    "IdempotentProducer",
    "JsonBatch",
    "MillstreamError",
    "Multipart",
    "NotSupportedError",
    "OffsetConflictError",
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
    "StreamBatch",
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
    "delete_all",
    "follow_many",
    "last",
    "since",
    "stream",
]
