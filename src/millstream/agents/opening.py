"""Opening: from what a user has, a URL with a token or a handle, to handles on JSON streams.

A session lives in one stream: its user gives the stream's URL, or a handle. A store of many sessions has a
stream for each: its user gives the URL above them, or a function from a path to a handle. Reading a stream
that does not exist finds nothing; the first write creates it.
"""

from collections.abc import Callable
from typing import Any, Final

from millstream.client.aio.streams import DurableStream
from millstream.client.core.models import HeadersLike
from millstream.client.core.retry import Retry

JSON: Final = "application/json"

Token = str | Callable[[], str]
"""A bearer token, or a function that returns one for each request."""

Source = str | DurableStream
"""One stream: its URL, or a handle."""

Sources = str | Callable[[str], DurableStream]
"""Many streams: the URL above them, or a function that returns a handle for a path such as `/a/b`."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def open_stream(source: Source, token: Token | None = None) -> DurableStream:
    """Return a handle on a JSON stream, which need not exist."""
    if isinstance(source, str):
        return DurableStream(source, content_type=JSON, headers=_headers(token))
    if token is not None:
        raise ValueError("a token goes with a URL; a handle has its own headers")
    if source.content_type is None:
        source.content_type = JSON  # it is created as such, and an append need not ask for it
    return source


def opener(sources: Sources, token: Token | None = None) -> Callable[[str], DurableStream]:
    """Return a function from a path to a handle on a JSON stream, which need not exist."""
    if callable(sources):
        if token is not None:
            raise ValueError("a token goes with a URL; handles have their own headers")
        return lambda path: open_stream(sources(path))
    base = sources.rstrip("/")
    return lambda path: open_stream(base + path, token)


def segment(name: str) -> str:
    """Encode a name as one segment of a path, so that different names never meet.

    Percent-encoding would not do: servers decode it, and `a%2Fb` is `a/b`.
    """
    return "".join(chr(byte) if byte in _PLAIN else f"~{byte:02x}" for byte in name.encode()) or "~"


async def create(stream: DurableStream, ttl_seconds: int | None = None) -> None:
    """Create a handle's stream; one that exists is left as it is."""
    await DurableStream.create(
        stream.url,
        content_type=stream.content_type,
        ttl_seconds=ttl_seconds,
        headers=stream._headers,
        params=stream._params,
        timeout=stream._terms.timeout_s,
        retry=stream._terms.retry,
        client=stream._client,
    )


def with_params(stream: DurableStream, **params: str) -> DurableStream:
    """Return a handle on the same stream whose requests have further query parameters."""
    given: Any = stream._params
    if callable(given):
        raise TypeError("the handle's params are a function; put them into its URL, or use headers")
    return DurableStream(
        stream.url,
        content_type=stream.content_type,
        headers=stream._headers,
        params={**(given or {}), **params},
        timeout=stream._terms.timeout_s,
        retry=stream._terms.retry,
        client=stream._client,
    )


async def append_repeatable(stream: DurableStream, record: Any) -> None:
    """Append a record that may be stored twice, because its readers know it by its content.

    It is sent again when the connection breaks.
    """
    patient = DurableStream(
        stream.url,
        content_type=stream.content_type,
        headers=stream._headers,
        params=stream._params,
        timeout=stream._terms.timeout_s,
        retry=Retry(doubtful_appends=True),
        client=stream._client,
    )
    await patient.append(record)


def _headers(token: Token | None) -> HeadersLike | None:
    if token is None:
        return None
    if callable(token):
        return {"Authorization": lambda: f"Bearer {token()}"}
    return {"Authorization": f"Bearer {token}"}
