"""The sync client: the names of `millstream`."""

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
from millstream.client.http.sync_sockets import HttpClient
from millstream.client.sync.deletions import delete_all
from millstream.client.sync.following import Following, follow_many
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
