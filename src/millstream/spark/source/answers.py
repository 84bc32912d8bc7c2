"""Answers: the content of one GET, in portions, across broken connections.

On servers that do not limit responses, a response may be as large as its stream. It is processed as it
arrives, and buffered completely only if it is small. When a connection breaks, the request is repeated and
what was already returned is skipped: streams are immutable.
"""

import time
from collections.abc import Generator

import msgspec

from millstream.client.core import errors, retry
from millstream.client.core.exchanges import delay_after, flag, next_offset, refusal, text
from millstream.client.core.retry import Attempts
from millstream.client.core.transport import Answer, Download
from millstream.protocol import headers
from millstream.protocol.content import DEFAULT_TYPE, Kind, kind_of
from millstream.spark.json.messages import Message
from millstream.spark.json.splitting import ArraySplitter, NotAnArrayError, split_array
from millstream.spark.lookups import Server, check_incarnation

WHOLE_BYTES = 16 * 2**20
"""Up to this size a response is split at once, which is ten times faster than incrementally. Servers send
at most 8 MiB by default."""


class Portion(msgspec.Struct, frozen=True, gc=False):
    """JSON messages, or chunks of other content, split anywhere."""

    kind: Kind
    content_type: str
    values: list[Message]
    time: str | None = None
    """When all of it arrived, if that was asked for."""


class Whole(msgspec.Struct, frozen=True, gc=False):
    """A complete JSON response: an array of messages, not split yet."""

    content_type: str
    array: bytes
    url: str
    time: str | None = None


class ResponseEnd(msgspec.Struct, frozen=True):
    """What a response's headers say about its end."""

    next_offset: str
    up_to_date: bool


def read_answer(
    server: Server,
    stream: str,
    offset: str,
    until: str | None = None,
    skip: int = 0,
    incarnation: str | None = None,
    *,
    times: bool = False,
) -> Generator[Portion | Whole, None, ResponseEnd]:
    """Read what follows an offset of a stream, without its first `skip` units.

    With `times` the response ends where the time of arrival changes (rule X7).
    """
    params = (("offset", offset), ("until", until)) if until is not None else (("offset", offset),)
    if times:
        params = (*params, ("times", "true"))
    attempts = Attempts(server.terms.retry, server.terms.chance)
    handed_out = skip
    while True:
        download: Download | None = None
        outcome: Answer | errors.TransportError
        try:
            download = server.open(stream, params)
            outcome = download.answer
            if outcome.status == 200:
                check_incarnation(outcome, incarnation, server.endpoint(stream).url)
                passed = 0
                for found in _portions(download, server.endpoint(stream).url):
                    if isinstance(found, Whole) and not handed_out:
                        yield found
                        break
                    portion = apart(found)
                    size = units(portion)
                    fresh = _without(portion, handed_out - passed)
                    passed += size
                    if fresh.values:
                        handed_out = max(handed_out, passed)
                        yield fresh
                return ResponseEnd(
                    next_offset(outcome, server.endpoint(stream).url),
                    flag(outcome, headers.STREAM_UP_TO_DATE) or flag(outcome, headers.STREAM_CLOSED),
                )
            if outcome.status not in retry.STATUSES:
                whole = Answer(outcome.status, outcome.headers, b"".join(iter(download.read, b"")))
                raise refusal(server.endpoint(stream), server.ask(params), whole, server.terms)
        except errors.TransportError as error:
            outcome = error
        finally:
            if download is not None:
                download.close()
        delay_s = delay_after(outcome, attempts, server.terms, safe=True)
        if delay_s is None:
            if isinstance(outcome, errors.TransportError):
                raise outcome
            raise refusal(server.endpoint(stream), server.ask(params), outcome, server.terms)
        time.sleep(delay_s)


def apart(found: Portion | Whole) -> Portion:
    """Split a response into messages."""
    if isinstance(found, Portion):
        return found
    try:
        return Portion(Kind.JSON, found.content_type, split_array(found.array), found.time)
    except NotAnArrayError as error:
        raise _not_an_array(found.url, error) from None


def units(portion: Portion) -> int:
    """Count JSON messages, or bytes of other content."""
    if portion.kind is Kind.JSON:
        return len(portion.values)
    return sum(map(len, portion.values))


def _without(portion: Portion, count: int) -> Portion:
    """Drop a portion's first units."""
    if count <= 0:
        return portion
    if portion.kind is Kind.JSON:
        return msgspec.structs.replace(portion, values=portion.values[count:])
    left = b"".join(portion.values)[count:]
    return msgspec.structs.replace(portion, values=[left] if left else [])


def first_units(portion: Portion, count: int) -> Portion:
    """Keep only a portion's first units."""
    if units(portion) <= count:
        return portion
    if portion.kind is Kind.JSON:
        return msgspec.structs.replace(portion, values=portion.values[:count])
    kept = b"".join(portion.values)[:count]
    return msgspec.structs.replace(portion, values=[kept] if kept else [])


def _portions(download: Download, url: str) -> Generator[Portion | Whole, None, None]:
    answer = download.answer
    content_type = text(answer, headers.CONTENT_TYPE) or DEFAULT_TYPE.decode()
    kind = kind_of(content_type.encode("latin-1"))
    if kind is not Kind.JSON:
        while data := download.read():
            yield Portion(kind, content_type, [data], text(answer, headers.STREAM_LAST_TIME))
        return
    time = text(answer, headers.STREAM_LAST_TIME)
    length = answer.headers.get(b"content-length", b"")
    try:
        if length.isdigit() and int(length) <= WHOLE_BYTES:
            yield Whole(content_type, b"".join(iter(download.read, b"")), url, time)
            return
        splitter = ArraySplitter()
        while data := download.read():
            if values := splitter.feed(data):
                yield Portion(kind, content_type, values, time)
        if values := splitter.end():
            yield Portion(kind, content_type, values, time)
    except NotAnArrayError as error:
        raise _not_an_array(url, error) from None


def _not_an_array(url: str, error: NotAnArrayError) -> errors.ParseError:
    return errors.ParseError(f"The answer is not a JSON array: {error}", url=url)
