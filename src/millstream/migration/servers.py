"""A server by its URL as the source of a migration: what any client may see of its streams.

A server of the protocol gives bytes, the type, closure and lifetime. Ours also lists its streams, and says
when they were created, when appends arrived, what is trimmed, and what was noted about them. What nobody
tells is reported (`not_kept`): producers' numbers, where single appends ended, incarnations, and that a fork
shares bytes with its source.

Offsets are kept if the server counts bytes as we do, which is compared at the end of each stream: then
clients that have stored one go on from it. If they differ, readers have to begin anew.
"""

import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from millstream.client.aio.driving import run
from millstream.client.aio.streams import DurableStream
from millstream.client.core import errors
from millstream.client.core.exchanges import Terms
from millstream.client.core.models import HeadResult
from millstream.client.core.plans.listing import Listed, endpoint_of, page
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.http.aio_sockets import shared_client
from millstream.migration.records import Batch
from millstream.protocol import attributes, content, expiry, json_frames, retention
from millstream.protocol.content import JSON
from millstream.protocol.errors import MalformedError
from millstream.protocol.names import check_name
from millstream.protocol.offsets import format_offset, parse_offset
from millstream.protocol.retention import Retention
from millstream.protocol.streams import Stream
from millstream.protocol.times import parse_timestamp_ms
from millstream.store.base import StoreError

UNKNOWN_TAIL: Final = 2**62
"""The tail of a stream that is not read to its end yet."""

NO_PRODUCERS: Final = "producers' numbers: a producer goes on with the next epoch"
NO_BOUNDARIES: Final = "where single appends ended; messages and bytes are as they were"
NO_INCARNATION: Final = "incarnations and entity tags: clients that compare them read anew"
NO_TIMES: Final = "arrival times: they are those of the migration"
NO_OFFSETS: Final = "offsets: the server counts in another way, so readers that stored one begin anew"
NO_FORKS: Final = "forks: each is a stream of its own now, with what it had inherited"
NO_LIFETIME: Final = "when a TTL was last renewed: it begins anew"
GONE: Final = "streams that were gone when they were to be read"

TIMES: Final = "time"
"""The extension of servers that say when appends arrived."""

_QUICK: Final = Retry(max_total_s=2.0)  # for the first request: a mistyped address should fail quickly
_SPLIT_BYTES: Final = 2**18
_raw_messages = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Server:
    """A server of the protocol."""

    is_exact = False

    def __init__(self, url: str, headers: Mapping[str, str], names: Sequence[str] | None) -> None:
        self.name = self._url = url.rstrip("/")
        self.not_kept: Counter[str] = Counter()
        self._headers = headers
        self._names = names
        self._listed: dict[str, Listed] = {}
        self._head = HeadResult()
        self._completed: Stream | None = None

    async def open(self) -> None:
        """Find out whether the server lists its streams, if they are not named."""
        if self._names is None:
            try:
                await self._page("", _QUICK)
            except errors.TransportError as error:
                raise StoreError(f"{self._url} cannot be reached: {error}.") from None
            except errors.MillstreamError as error:
                raise StoreError(
                    f"{self._url} does not list its streams ({error}): name them with --names FILE, one path "
                    "on each line."
                ) from None

    async def close(self) -> None:
        """Nothing is held."""

    async def count(self) -> int | None:
        """Count the streams that are named; a listing has no sum."""
        return len(self._names) if self._names is not None else None

    # -- Streams ---------------------------------------------------------------------------------

    async def streams(self) -> AsyncIterator[Stream]:
        """Give the streams as far as the server describes them; their tails are known once they are read."""
        self.not_kept.clear()  # of an earlier look at them
        async for name, listed in self._all_names():
            try:
                head = await self._stream(name).head()
            except errors.StreamNotFoundError:
                self.not_kept[GONE] += 1
                continue
            except errors.MillstreamError as error:
                raise StoreError(f"{self._url}: {name}: {error}") from None
            self._head = head
            if listed is not None and listed.forked_from:
                self.not_kept[NO_FORKS] += 1
            yield _described(name, head, listed)

    async def _all_names(self) -> AsyncIterator[tuple[str, Listed | None]]:
        if self._names is not None:
            for name in self._names:
                yield _checked(name), None
            return
        cursor: str | None = ""
        while cursor is not None:
            try:
                listed, cursor = await self._page(cursor)
            except errors.MillstreamError as error:
                raise StoreError(f"{self._url} cannot be listed: {error}") from None
            for one in listed:
                yield _checked(one.path), one

    async def _page(self, cursor: str, retry: Retry = DEFAULT) -> tuple[list[Listed], str | None]:
        endpoint = endpoint_of(self._url, self._headers)
        found = await run(shared_client(), page(endpoint, Terms(retry, 30.0), cursor=cursor))
        return found.streams, found.cursor

    def _stream(self, name: str, params: Mapping[str, str] | None = None) -> DurableStream:
        return DurableStream(self._url + quote(name), headers=self._headers, params=params)

    # -- Content ---------------------------------------------------------------------------------

    async def batches(self, stream: Stream, position: int) -> AsyncIterator[Batch]:
        """Give the content from the beginning on, whatever the position: nobody knows an offset for it."""
        head, now_ms = self._head, time.time_ns() // 1_000_000
        at, first, first_ms, last_ms, marks = stream.start, 0, 0, 0, stream.marks
        closed, offset, has_times = head.stream_closed, head.offset, TIMES in head.extensions
        params = {"times": "true"} if has_times else None  # an answer ends where the time changes
        splitter = _Splitter(stream.kind is JSON)
        try:
            async with self._stream(stream.name, params).stream(live=False) as answers:
                async for chunk in answers.iter_byte_chunks():
                    closed, offset = closed or chunk.stream_closed, chunk.offset
                    time_ms = _ms(chunk.last_time) or now_ms
                    is_last = has_times or chunk.up_to_date or chunk.stream_closed
                    for data in splitter.add(chunk.data, is_last=is_last):
                        batch = Batch(first, at, array("Q", [at + len(data)]), array("Q", [time_ms]), data)
                        at, first, last_ms = batch.end, first + 1, time_ms
                        first_ms = first_ms or time_ms
                        marks = retention.marked(marks, stream.retention, at, time_ms)
                        yield batch
        except (errors.MillstreamError, MalformedError) as error:
            raise StoreError(f"{self._url}: {stream.name} cannot be read: {error}") from None
        self._note(stream, head, has_times=has_times, same_offset=offset == format_offset(at).decode())
        self._completed = msgspec.structs.replace(
            stream,
            tail=at,
            closed=closed,
            marks=marks,
            first_ms=max(first_ms, stream.created_ms) if at > stream.start else 0,
            written_ms=max(last_ms, stream.created_ms) if at > stream.start else 0,
            closed_ms=max(now_ms, stream.created_ms) if closed and at == stream.start else 0,
        )

    async def completed(self, stream: Stream) -> Stream:
        """Give the stream that was read last, as it is at its end."""
        assert self._completed is not None  # it was read
        return self._completed

    def _note(self, stream: Stream, head: HeadResult, *, has_times: bool, same_offset: bool) -> None:
        for text, holds in (
            (NO_PRODUCERS, True),
            (NO_BOUNDARIES, True),
            (NO_INCARNATION, head.incarnation is not None or head.etag is not None),
            (NO_OFFSETS, not same_offset),
            (NO_TIMES, not has_times),
            (NO_LIFETIME, stream.lifetime.is_sliding),
        ):
            if holds:
                self.not_kept[text] += 1

    async def rows(self) -> Mapping[str, bytes]:
        """Subscriptions are configured again, by who has the secrets of their receivers."""
        return {}


class _Splitter:
    """Cuts content into appends that are the same in every run, however long the answers are."""

    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._rest: list[bytes] = []
        self._size = 0

    def add(self, data: bytes, *, is_last: bool) -> Iterator[bytes]:
        """Add an answer, and give what is complete."""
        for piece in self._pieces(data):
            self._rest.append(piece)
            self._size += len(piece)
            if self._size >= _SPLIT_BYTES:
                yield self._take()
        if is_last and self._size:
            yield self._take()

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        if not data:
            return
        if self._is_json:
            for message in _raw_messages(data):
                yield json_frames.frame(b"[%b]" % bytes(message))
            return
        at = 0
        while at < len(data):
            end = min(len(data), at + _SPLIT_BYTES - self._size)
            yield data[at:end]
            at = end

    def _take(self) -> bytes:
        taken = b"".join(self._rest)
        self._rest, self._size = [], 0
        return taken


def _described(name: str, head: HeadResult, listed: Listed | None) -> Stream:
    """Make the state of a stream from what a server says about it."""
    now_ms = time.time_ns() // 1_000_000
    content_type = (head.content_type or content.DEFAULT_TYPE.decode()).encode()
    # What a fork inherited arrived before the fork was made, and nothing may be older than its stream.
    told_ms = (listed.created_ms if listed is not None else None, _ms(head.first_time))
    created_ms = min((ms for ms in told_ms if ms), default=now_ms)
    if head.ttl_seconds is not None:
        lifetime = expiry.Lifetime(ttl_s=head.ttl_seconds)
    elif head.expires_at is not None:
        lifetime = expiry.parse_lifetime(None, head.expires_at.encode())
    else:
        lifetime = expiry.FOREVER
    limits = Retention(head.retain_bytes, head.retain_seconds)
    return Stream(
        id=0,
        name=name,
        content_type=content_type,
        kind=content.kind_of(content_type),
        created_ms=created_ms,
        lifetime=lifetime,
        requested_lifetime=lifetime,
        deadline_ms=lifetime.deadline_ms(now_ms),
        tail=UNKNOWN_TAIL,
        retention=limits,
        requested_retention=limits,
        start=parse_offset(head.earliest_offset.encode()) if head.earliest_offset else 0,
        attributes=attributes.merged(attributes.NONE, head.attributes),
    )


def _checked(name: str) -> str:
    try:
        return check_name((name if name.startswith("/") else f"/{name}").encode())
    except MalformedError as error:
        raise StoreError(f"{name!r} is not a stream's path: {error}") from None


def _ms(text: str | None) -> int:
    return parse_timestamp_ms(text.encode(), "a time") if text else 0
