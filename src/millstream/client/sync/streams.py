"""Streams of the sync shell: methods block. The twin of aio/streams."""

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from msgspec import UNSET, UnsetType

from millstream.client.core import bodies, extensions
from millstream.client.core.batching import AppendQueue, Entry
from millstream.client.core.dual import on_class_or_instance
from millstream.client.core.endpoints import Endpoint
from millstream.client.core.errors import MillstreamError, TransportError
from millstream.client.core.exchanges import Terms
from millstream.client.core.extensions import Extension
from millstream.client.core.models import (
    AppendResult,
    Attributes,
    CloseResult,
    HeadersLike,
    HeadResult,
    LiveMode,
    OnError,
    ParamsLike,
    ProducerStamp,
    TrimResult,
)
from millstream.client.core.plans import changing, writing
from millstream.client.core.plans.parts import PART_BYTES, Draft, Parts
from millstream.client.core.plans.reading import Memory, Reader
from millstream.client.core.plans.updating import Update
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.core.transport import Transport
from millstream.client.http.sync_sockets import shared_client
from millstream.client.sync.driving import run
from millstream.client.sync.parts import Multipart
from millstream.client.sync.responses import StreamResponse

DEFAULT_TIMEOUT_S = 30.0


def stream(
    url: str,
    *,
    offset: str = "-1",
    live: LiveMode = True,
    headers: HeadersLike | None = None,
    params: ParamsLike | None = None,
    cursor: str | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,
    poll_timeout: float | None = None,
    retry: Retry | None = DEFAULT,
    on_error: OnError | None = None,
    client: Transport | None = None,
) -> StreamResponse:
    """Read a stream, from `offset` to its end; with `live`, until it is closed.

    Waits for the first response, so a stream that does not exist raises at once.

    >>> log.append_all([{"event": "start"}, {"event": "end"}]).next_offset[-2:]
    '34'
    >>> log.close().final_offset[-2:]
    '34'
    >>> with stream(url) as response:
    ...     for event in response.iter_json():
    ...         print(event)
    ...     response.stream_closed
    {'event': 'start'}
    {'event': 'end'}
    True
    """
    endpoint = Endpoint(url, headers, params)
    reader = Reader(
        endpoint,
        Terms(retry, timeout),
        offset=offset,
        live=live,
        cursor=cursor,
        poll_timeout_s=poll_timeout,
        on_error=on_error,
    )
    return StreamResponse(endpoint, reader, client or shared_client())


class _Waiter:
    """How a thread waits for an append that another thread sends."""

    __slots__ = ("outcome", "wakes")

    def __init__(self) -> None:
        self.wakes = threading.Lock()  # cheaper than an Event: most appends never wait
        self.wakes.acquire()
        self.outcome: AppendResult | MillstreamError | None = None


class DurableStream:
    """A handle on one stream. It holds no connection and need not be closed.

    >>> events = DurableStream.create(url, content_type="application/json")  # fine if it is there already
    >>> events.append({"event": "start"}).next_offset
    '0000000000000000_0000000000000018'
    >>> events.close({"event": "end"}).final_offset
    '0000000000000000_0000000000000034'
    """

    def __init__(
        self,
        url: str,
        *,
        content_type: str | None = None,
        headers: HeadersLike | None = None,
        params: ParamsLike | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retry: Retry | None = DEFAULT,
        client: Transport | None = None,
    ) -> None:
        self.url = url
        self.content_type = content_type
        self._headers = headers
        self._params = params
        self._endpoint = Endpoint(url, headers, params)
        self._terms = Terms(retry, timeout)
        self._transport = client or shared_client()
        self._memory = Memory()
        self._parts = Parts(self._endpoint, self._terms)
        self._expect = Extension(self._endpoint, self._terms, extensions.EXPECT)
        self._lock = threading.Lock()
        self._queue: AppendQueue[_Waiter] = AppendQueue()

    @classmethod
    def create(
        cls,
        url: str,
        *,
        content_type: str | None = None,
        ttl_seconds: int | None = None,
        expires_at: str | None = None,
        retain_bytes: int | None = None,
        retain_seconds: int | None = None,
        attributes: Attributes | None = None,
        body: Any = None,
        closed: bool = False,
        forked_from: str | None = None,
        fork_offset: str | None = None,
        fork_sub_offset: int | None = None,
        headers: HeadersLike | None = None,
        params: ParamsLike | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retry: Retry | None = DEFAULT,
        client: Transport | None = None,
    ) -> Self:
        """Create a stream. One that exists with the same configuration is not an error.

        `body` is the initial content; on a JSON stream, a list of messages. With `closed` nothing can be
        appended later. With `retain_bytes` or `retain_seconds` the server trims the oldest content, but
        keeps at least that much of the newest. `attributes` are noted with a new stream.
        """
        handle = cls(
            url,
            content_type=content_type,
            headers=headers,
            params=params,
            timeout=timeout,
            retry=retry,
            client=client,
        )
        plan = writing.create(
            handle._endpoint,
            handle._terms,
            content_type=content_type,
            ttl_seconds=ttl_seconds,
            expires_at=expires_at,
            retain_bytes=retain_bytes,
            retain_seconds=retain_seconds,
            attributes=attributes,
            body=body,
            closed=closed,
            forked_from=forked_from,
            fork_offset=fork_offset,
            fork_sub_offset=fork_sub_offset,
        )
        handle.content_type = run(handle._transport, plan).content_type
        return handle

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        headers: HeadersLike | None = None,
        params: ParamsLike | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retry: Retry | None = DEFAULT,
        client: Transport | None = None,
    ) -> Self:
        """Return a handle on an existing stream; raises `StreamNotFoundError` if it does not exist."""
        handle = cls(url, headers=headers, params=params, timeout=timeout, retry=retry, client=client)
        handle.content_type = run(
            handle._transport, writing.head(handle._endpoint, handle._terms)
        ).content_type
        return handle

    @on_class_or_instance
    def head(self) -> HeadResult:
        """Return the stream's metadata. `DurableStream.head(url)` needs no handle."""
        return run(self._transport, writing.head(self._endpoint, self._terms))

    def configure(
        self,
        *,
        ttl_seconds: int | UnsetType | None = UNSET,
        expires_at: str | UnsetType | None = UNSET,
        retain_bytes: int | UnsetType | None = UNSET,
        retain_seconds: int | UnsetType | None = UNSET,
        attributes: Attributes | None = None,
    ) -> HeadResult:
        """Change how long the stream lives, what it keeps and what is noted about it, all at once.

        None removes a limit, and what is not given stays. `attributes` are merged by name; None removes
        one. A TTL begins anew when it is set.
        """
        plan = writing.configure(
            self._endpoint,
            self._terms,
            self.content_type,
            ttl_seconds=ttl_seconds,
            expires_at=expires_at,
            retain_bytes=retain_bytes,
            retain_seconds=retain_seconds,
            attributes=attributes,
        )
        return run(self._transport, plan)

    def trim(self, *, before: str) -> TrimResult:
        """Drop the content before an offset, in whole appends; "now" drops all of it.

        Readers at an earlier offset get `StreamGoneError`. Forks keep what they share.
        """
        return run(self._transport, changing.trim(self._endpoint, self._terms, before))

    @on_class_or_instance
    def delete(self) -> None:
        """Delete the stream; `DurableStream.delete(url)` needs no handle."""
        return run(self._transport, writing.delete(self._endpoint, self._terms))

    def append(
        self,
        data: Any,
        *,
        seq: str | None = None,
        producer: ProducerStamp | None = None,
        expected_offset: str | None = None,
    ) -> AppendResult:
        """Append one message and return where the stream ends now.

        Appends made by other threads while one is under way share the next request. A connection that
        breaks raises `TransportError`, because the append may have been stored. With a producer's stamp
        a repetition is safe, and the append is retried. With `expected_offset`, a stream that ends elsewhere
        takes nothing, and `OffsetConflictError` is raised.
        """
        as_json = self._knows_json()
        message = bodies.message(data, as_json=as_json)
        if expected_offset is not None:
            run(self._transport, self._expect.content_type())
        if producer is not None or expected_offset is not None:
            return self._post([message], as_json, seq, producer, expected_offset)
        entry = Entry(message, _Waiter(), alone=seq is not None)
        with self._lock:
            leads = self._queue.enter(entry)
        if not leads:
            entry.waiter.wakes.acquire()
            outcome = entry.waiter.outcome
            if isinstance(outcome, AppendResult):
                return outcome
            if outcome is not None:
                raise outcome
        return self._lead(entry, as_json, seq)

    def append_all(
        self, messages: Iterable[Any], *, expected_offset: str | None = None
    ) -> AppendResult | None:
        """Append many messages in few requests, in order. Returns None if there are none.

        Each request is atomic. After an error, earlier requests remain stored. With `expected_offset`, each
        request expects the stream to end where the one before it ended, so nobody else's message is between.
        """
        if expected_offset is not None:
            run(self._transport, self._expect.content_type())
        as_json = self._knows_json()
        result = None
        written = (bodies.message(message, as_json=as_json) for message in messages)
        for batch in bodies.pack(written, max_bytes=1024 * 1024):
            result = self._post(batch, as_json, None, None, expected_offset)
            expected_offset = result.next_offset if expected_offset is not None else None
        return result

    def close(
        self, body: Any = None, *, content_type: str | None = None, expected_offset: str | None = None
    ) -> CloseResult:
        """Close the stream: readers see its end, and further appends are refused.

        Without a last message this is idempotent. With one it is an append, and raises
        `StreamClosedError` on a stream that is already closed. `IdempotentProducer.close` is idempotent
        in both cases. With `expected_offset`, a stream that ends elsewhere stays open, and
        `OffsetConflictError` is raised.
        """
        if expected_offset is not None:
            run(self._transport, self._expect.content_type())
        written = b""
        if body is not None:
            as_json = bodies.is_json(content_type) if content_type is not None else self._knows_json()
            written = bodies.join([bodies.message(body, as_json=as_json)], as_json=as_json)
        kind = (content_type or self.content_type or "").encode("latin-1")
        plan = writing.close(self._endpoint, self._terms, written, kind, expected_offset)
        return run(self._transport, plan)

    def update(self, decide: Callable[[Any], Any], *, offset: str = "-1") -> AppendResult | None:
        """Decide what to append by what the stream holds, with nobody else writing in between.

        `decide` gets all messages from `offset` to the tail (bytes, unless the stream is JSON), and returns
        what to append: a message, on a JSON stream also a list of messages, or None for nothing. If somebody
        else appends meanwhile, what is new is read, and `decide` is called again with all of it; so it should
        do nothing but decide. After a minute of conflicts, `OffsetConflictError` is raised.

        >>> def count(messages):
        ...     return {"total": (messages[-1]["total"] if messages else 0) + 1}
        >>> for _ in range(3):
        ...     stored = log.update(count)
        >>> log.stream(live=False).read_json()[-1]
        {'total': 3}

        An append whose answer was lost is found again, and never stored twice.
        """
        update = Update(self._endpoint, self._terms, self._expect, offset)
        return run(self._transport, update.plan(decide))

    def fork(
        self,
        target: str,
        *,
        offset: str | None = None,
        sub_offset: int | None = None,
        ttl_seconds: int | None = None,
        expires_at: str | None = None,
    ) -> Self:
        """Create a stream that begins with this one's content up to `offset`, by default all of it.

        `target` is a path on the same server, or a URL.
        """
        return self.create(
            writing.fork_url(self.url, target),
            forked_from=self._endpoint.path,
            fork_offset=offset,
            fork_sub_offset=sub_offset,
            ttl_seconds=ttl_seconds,
            expires_at=expires_at,
            headers=self._headers,
            params=self._params,
            timeout=self._terms.timeout_s,
            retry=self._terms.retry,
            client=self._transport,
        )

    def multipart(self, *, part_bytes: int = PART_BYTES) -> Multipart:
        """Begin an append of any size that becomes visible atomically, at the end of a `with` block.

        Messages are sent in parts of about `part_bytes`, so an append may be larger than a request.
        """
        return Multipart(self._transport, Draft(self._parts, part_bytes))

    def stage_part(self, id: str, data: Any) -> None:
        """Store a part on the server, invisible to readers until `commit_parts`.

        You choose the `id`: 1 to 200 letters, digits, dots, dashes, underscores or tildes. On a JSON
        stream a list is many messages. Staging the same bytes again is fine; other bytes raise
        `PartConflictError`. Parts that are not committed within a day are dropped.
        """
        run(self._transport, self._parts.stage(id, data))

    def commit_parts(
        self,
        ids: Iterable[str],
        *,
        seq: str | None = None,
        producer: ProducerStamp | None = None,
        close: bool = False,
        expected_offset: str | None = None,
    ) -> AppendResult:
        """Append parts in this order, atomically.

        With a producer's stamp a repetition is safe, and the commit is retried when the connection breaks:
        the first commit wins, and any other with the same stamp is a `duplicate`. A missing part raises
        `PartMissingError`.
        """
        plan = self._parts.commit(
            list(ids), seq=seq, stamp=producer, closes=close, expected_offset=expected_offset
        )
        return run(self._transport, plan)

    def drop_part(self, id: str) -> None:
        """Drop a part that will not be committed. A missing part is not an error."""
        run(self._transport, self._parts.drop(id))

    def stream(
        self,
        *,
        offset: str = "-1",
        live: LiveMode = True,
        cursor: str | None = None,
        poll_timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> StreamResponse:
        """Read the stream, like the function `stream`. Unchanged responses are not sent again (ETag).

        A long-poll waits for `poll_timeout` seconds at most, and never longer than the server lets it.
        """
        reader = Reader(
            self._endpoint,
            self._terms,
            offset=offset,
            live=live,
            cursor=cursor,
            poll_timeout_s=poll_timeout,
            content_type=self.content_type,
            on_error=on_error,
            memory=self._memory,
        )
        response = StreamResponse(self._endpoint, reader, self._transport)
        self.content_type = self.content_type or response.content_type
        return response

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the stream as it is: only `close` ends one."""

    def _knows_json(self) -> bool:
        if self.content_type is None:
            self.content_type = run(self._transport, writing.content_type_of(self._endpoint, self._terms))
        return bodies.is_json(self.content_type)

    def _lead(self, entry: Entry[_Waiter], as_json: bool, seq: str | None) -> AppendResult:
        """Send a batch, hand its outcome to the threads in it, and wake the next leader."""
        batch = entry.batch or [entry]
        outcome: AppendResult | MillstreamError | None = None
        try:
            outcome = self._post([one.message for one in batch], as_json, seq, None)
        except MillstreamError as error:
            outcome = error
            raise
        finally:
            if outcome is None:
                outcome = TransportError("The thread that sent this append was interrupted", url=self.url)
            with self._lock:
                following = self._queue.leave()
            for one in batch[1:]:
                one.waiter.outcome = outcome
                one.waiter.wakes.release()
            if following is not None:
                following.waiter.wakes.release()
        return outcome

    def _post(
        self,
        messages: list[bytes],
        as_json: bool,
        seq: str | None,
        stamp: ProducerStamp | None,
        expected_offset: str | None = None,
    ) -> AppendResult:
        kind = (self.content_type or "").encode("latin-1")
        body = bodies.join(messages, as_json=as_json)
        ask = writing.append_ask(
            body, self._terms, kind, seq=seq, stamp=stamp, expected_offset=expected_offset
        )
        return run(self._transport, writing.append(self._endpoint, self._terms, ask))
