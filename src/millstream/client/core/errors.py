"""The client's exceptions, all derived from `MillstreamError`.

    MillstreamError
    |-- StreamNotFoundError       404   there is no such stream
    |-- StreamGoneError           410   deleted but still forked, or offset trimmed; `earliest_offset`
    |-- StreamExistsError         409   PUT: the path is taken by another configuration
    |-- StreamClosedError         409   append to a closed stream; `final_offset`
    |-- SequenceConflictError     409   `Stream-Seq` did not rise
    |-- OffsetConflictError       409   the stream ends elsewhere than expected; `current_offset`
    |-- SequenceGapError          409   producer: appends are missing; `expected`, `received`
    |-- ContentTypeMismatchError  409   append with another content type
    |-- PartMissingError          409   commit of a part that is not staged
    |-- PartConflictError         409   the part's id has other bytes
    |-- StaleEpochError           403   producer: a newer session took over; `current_epoch`
    |-- DuplicateAppendError      204   producer: an append that it never sent; `epoch`, `seq`
    |-- UnauthorizedError         401, 403
    |-- BadRequestError           400
    |-- PayloadTooLargeError      413
    |-- RateLimitedError          429   `retry_after`, in seconds
    |-- UnexpectedStatusError           any other status, including 5xx
    |-- TransportError                  no response; `unsent` if nothing can have reached the server
    |-- NotSupportedError               the server lacks the extension
    |-- ParseError                      a response that breaks the protocol, or invalid JSON
    |-- AlreadyConsumedError            a response is read once
    `-- ProducerStoppedError            a producer that was closed, detached or has failed

Messages begin with what happened and end with the stream's path. All of them can be pickled, because
Spark sends errors from its workers to its driver.
"""

from typing import ClassVar
from urllib.parse import urlsplit


class MillstreamError(Exception):
    """The base of the client's exceptions, with what is known about the failed request.

    >>> try:
    ...     DurableStream.head("http://127.0.0.1:9/nobody/home", client=refusing)
    ... except MillstreamError as error:
    ...     print(error.code, error)
    NETWORK_ERROR Could not connect: /nobody/home
    """

    default_code: ClassVar[str] = "ERROR"
    default_status: ClassVar[int | None] = None

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        status: int | None = None,
        code: str | None = None,
        offset: str | None = None,
    ) -> None:
        super().__init__(f"{message}: {urlsplit(url).path or '/'}" if url else message)
        self.url = url
        self.status = status if status is not None else self.default_status
        self.code = code or self.default_code
        self.offset = offset


class StreamNotFoundError(MillstreamError):
    """There is no stream at this URL.

    >>> try:
    ...     DurableStream.head(f"{url}/nothing")
    ... except StreamNotFoundError as error:
    ...     error.status, error.url == f"{url}/nothing"
    (404, True)
    """

    default_code, default_status = "NOT_FOUND", 404


class StreamGoneError(MillstreamError):
    """The stream was deleted but still has forks, or the offset is no longer kept.

    >>> fork = log.fork(f"{url}/fork")
    >>> log.delete()
    >>> try:
    ...     log.head()
    ... except StreamGoneError as error:
    ...     error.status
    410

    In the second case `earliest_offset` is where the stream now begins; otherwise it is None.

    >>> short = DurableStream.create(f"{url}/short", content_type="text/plain", retain_bytes=100)
    >>> appended = [short.append("x" * 50) for _ in range(10)]
    >>> first = short.head().earliest_offset
    >>> while short.head().earliest_offset == first:  # old content is trimmed within seconds
    ...     time.sleep(0.1)
    >>> try:
    ...     short.stream(offset=first)
    ... except StreamGoneError as error:
    ...     error.code, error.earliest_offset
    ('OFFSET_GONE', '0000000000000000_0000000000000400')
    """

    default_code, default_status = "GONE", 410

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        code: str | None = None,
        earliest_offset: str | None = None,
    ) -> None:
        super().__init__(message, url=url, code=code)
        self.earliest_offset = earliest_offset


class StreamExistsError(MillstreamError):
    """The path holds a stream with another configuration.

    >>> try:
    ...     DurableStream.create(url, content_type="text/plain")
    ... except StreamExistsError as error:
    ...     error.status
    409
    """

    default_code, default_status = "CONFLICT_EXISTS", 409


class StreamClosedError(MillstreamError):
    """The stream is closed: it takes no more appends, and ends at `final_offset`.

    >>> ending = log.close()
    >>> try:
    ...     log.append("too late")
    ... except StreamClosedError as error:
    ...     error.final_offset == ending.final_offset
    True
    """

    default_code, default_status = "STREAM_CLOSED", 409
    stream_closed: ClassVar[bool] = True

    def __init__(
        self,
        message: str = "Cannot append to a closed stream",
        *,
        url: str | None = None,
        final_offset: str | None = None,
    ) -> None:
        super().__init__(message, url=url, offset=final_offset)
        self.final_offset = final_offset


class SequenceConflictError(MillstreamError):
    """The append's `seq` is not greater than the last accepted one.

    >>> stored = log.append("second", seq="0002")
    >>> try:
    ...     log.append("first", seq="0001")
    ... except SequenceConflictError as error:
    ...     error.code
    'SEQUENCE_CONFLICT'
    """

    default_code, default_status = "SEQUENCE_CONFLICT", 409


class OffsetConflictError(MillstreamError):
    """The stream does not end at the append's `expected_offset`, but at `current_offset`.

    >>> before = log.head().offset
    >>> stored = log.append("from somebody else")
    >>> try:
    ...     log.append("too late", expected_offset=before)
    ... except OffsetConflictError as error:
    ...     error.current_offset == stored.next_offset
    True
    """

    default_code, default_status = "EXPECTED_OFFSET_CONFLICT", 409

    def __init__(self, message: str, *, url: str | None = None, current_offset: str | None = None) -> None:
        super().__init__(message, url=url, offset=current_offset)
        self.current_offset = current_offset


class SequenceGapError(MillstreamError):
    """A producer's append skipped sequence numbers.

    >>> try:
    ...     log.append("too early", producer=ProducerStamp("importer", epoch=0, seq=5))
    ... except SequenceGapError as error:
    ...     error.expected, error.received
    (0, 5)
    """

    default_code, default_status = "SEQUENCE_GAP", 409

    def __init__(self, message: str, *, url: str | None = None, expected: int = 0, received: int = 0) -> None:
        super().__init__(message, url=url)
        self.expected = expected
        self.received = received


class ContentTypeMismatchError(MillstreamError):
    """The append's content type is not the stream's.

    >>> try:
    ...     DurableStream(url, content_type="text/plain").append("no JSON")
    ... except ContentTypeMismatchError as error:
    ...     error.code
    'CONTENT_TYPE_MISMATCH'
    """

    default_code, default_status = "CONTENT_TYPE_MISMATCH", 409


class PartMissingError(MillstreamError):
    """A part was never staged, or already committed, dropped or expired. Nothing was appended.

    >>> try:
    ...     log.commit_parts(["never-staged"])
    ... except PartMissingError as error:
    ...     error.code
    'PART_MISSING'
    """

    default_code, default_status = "PART_MISSING", 409


class PartConflictError(MillstreamError):
    """The part's id is used for other bytes, or a repeated commit has another fingerprint.

    >>> log.stage_part("1", [{"row": 1}])
    >>> try:
    ...     log.stage_part("1", [{"row": 2}])
    ... except PartConflictError as error:
    ...     error.code
    'PART_CONFLICT'
    """

    default_code, default_status = "PART_CONFLICT", 409


class StaleEpochError(MillstreamError):
    """A newer session of this producer has taken over.

    >>> stored = log.append("new session", producer=ProducerStamp("importer", epoch=2, seq=0))
    >>> try:
    ...     log.append("old session", producer=ProducerStamp("importer", epoch=1, seq=0))
    ... except StaleEpochError as error:
    ...     error.current_epoch
    2
    """

    default_code, default_status = "STALE_EPOCH", 403

    def __init__(self, message: str, *, url: str | None = None, current_epoch: int = 0) -> None:
        super().__init__(message, url=url)
        self.current_epoch = current_epoch


class DuplicateAppendError(MillstreamError):
    """The server has an append with this producer's id, epoch and number that this producer never sent.

    An earlier run with the same epoch stored it, or another program that runs now. The server dropped the
    messages of this append. Without an `epoch` a producer begins a new one, and this does not happen.

    >>> with IdempotentProducer(log, "importer", epoch=1) as first_run:
    ...     first_run.append("stored")
    >>> second_run = IdempotentProducer(log, "importer", epoch=1)
    >>> second_run.append("not stored")
    >>> try:
    ...     second_run.flush()
    ... except DuplicateAppendError as error:
    ...     error.producer_id, error.epoch, error.seq
    ('importer', 1, 0)
    """

    default_code, default_status = "DUPLICATE_APPEND", 204

    def __init__(
        self, message: str, *, url: str | None = None, producer_id: str = "", epoch: int = 0, seq: int = 0
    ) -> None:
        super().__init__(message, url=url)
        self.producer_id = producer_id
        self.epoch = epoch
        self.seq = seq


class UnauthorizedError(MillstreamError):
    """The credentials are missing or not sufficient.

    >>> try:
    ...     DurableStream.head(f"{guarded_server}/chat/1")
    ... except UnauthorizedError as error:
    ...     error.status
    401
    """

    default_code, default_status = "UNAUTHORIZED", 401


class BadRequestError(MillstreamError):
    """The server found the request malformed; `code` says why.

    >>> try:
    ...     stream(url, offset="yesterday")
    ... except BadRequestError as error:
    ...     error.code
    'INVALID_OFFSET'
    """

    default_code, default_status = "BAD_REQUEST", 400


class PayloadTooLargeError(MillstreamError):
    """The append is larger than the server allows.

    >>> try:
    ...     log.append("x" * 20_000_000)
    ... except PayloadTooLargeError as error:
    ...     error.status
    413
    """

    default_code, default_status = "PAYLOAD_TOO_LARGE", 413


class RateLimitedError(MillstreamError):
    """Too many requests. `retry_after` is the delay in seconds, if the server named one.

    >>> try:
    ...     while True:
    ...         chat = DurableStream.create(f"{limited_server}/chat/1", retry=None)
    ... except RateLimitedError as error:
    ...     error.status, error.retry_after > 0
    (429, True)
    """

    default_code, default_status = "RATE_LIMITED", 429

    def __init__(self, message: str, *, url: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, url=url)
        self.retry_after = retry_after


class UnexpectedStatusError(MillstreamError):
    """A status that the protocol does not define here, or a server error; see `status`.

    >>> try:
    ...     DurableStream(f"{server}/__ds/healthz", content_type="text/plain").append("is no stream")
    ... except UnexpectedStatusError as error:
    ...     error.status
    405
    """

    default_code = "UNEXPECTED_STATUS"


class TransportError(MillstreamError):
    """No response: the connection failed, broke or timed out.

    `unsent` is true if the request provably never reached the server. Otherwise it may have been carried
    out. `code` is `NETWORK_ERROR`, `TIMEOUT`, or `UNTRUSTED` for a certificate that cannot be verified.

    >>> try:
    ...     DurableStream(f"http://127.0.0.1:{free_port}/chat/1", retry=None).head()
    ... except TransportError as error:
    ...     error.code, error.unsent
    ('NETWORK_ERROR', True)
    """

    default_code = "NETWORK_ERROR"

    def __init__(
        self, message: str, *, url: str | None = None, code: str | None = None, unsent: bool = False
    ) -> None:
        super().__init__(message, url=url, code=code)
        self.unsent = unsent


class NotSupportedError(MillstreamError):
    """The server lacks the extension that the request needs.

    >>> try:
    ...     DurableStream(url, client=plain_server).stage_part("1", [{"row": 1}])
    ... except NotSupportedError as error:
    ...     error.code
    'NOT_SUPPORTED'
    """

    default_code = "NOT_SUPPORTED"


class ParseError(MillstreamError):
    """A response breaks the protocol, or content is not valid JSON.

    >>> text = DurableStream.create(f"{url}/text", content_type="text/plain", body="no JSON")
    >>> try:
    ...     text.stream(live=False).read_json()
    ... except ParseError as error:
    ...     error.code
    'PARSE_ERROR'
    """

    default_code = "PARSE_ERROR"


class AlreadyConsumedError(MillstreamError):
    """A response can be read once; open another one to read again.

    >>> response = log.stream(live=False)
    >>> response.read_json()
    []
    >>> try:
    ...     response.read_json()
    ... except AlreadyConsumedError as error:
    ...     error.code
    'ALREADY_CONSUMED'
    """

    default_code = "ALREADY_CONSUMED"


class ProducerStoppedError(MillstreamError):
    """The producer takes no more messages: it was closed, detached, or belongs to another process.

    >>> producer = IdempotentProducer(log, "importer")
    >>> producer.detach()
    >>> try:
    ...     producer.append("too late")
    ... except ProducerStoppedError as error:
    ...     error.code
    'PRODUCER_STOPPED'
    """

    default_code = "PRODUCER_STOPPED"
