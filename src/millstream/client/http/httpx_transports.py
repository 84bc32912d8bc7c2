"""HTTP over httpx: for HTTP/2, for instrumentation that hooks into httpx, or for its other transports.

The sockets of this package are faster. httpx decides about connections, proxies and TLS here; retries and
redirects stay with the core, which knows what is safe. A sync read that waits can be cancelled over
HTTP/1.1 once its response has begun, because its socket is known then; otherwise it ends with the response.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from millstream.client.core.errors import TransportError
from millstream.client.core.transport import Answer, CancelScope, Headers, Request

_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)

R = TypeVar("R")


class HttpxTransport:
    """The sync client's HTTP through an `httpx.Client` of yours. Pass it as `client`; you close yours.

    >>> with httpx.Client(http2=True) as http:
    ...     stream(url, live=False, client=HttpxTransport(http)).read_json()
    []
    """

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and return the complete response."""
        try:
            response = self._client.send(_made(self._client, request), follow_redirects=False)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _failed(request, error) from None
        return _answer(response, response.content)

    def open(self, request: Request, scope: CancelScope | None = None) -> "HttpxDownload":
        """Send a request and return when the response's headers have arrived."""
        made = _made(self._client, request)
        try:
            response = self._client.send(made, stream=True, follow_redirects=False)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _failed(request, error) from None
        if scope is not None:
            scope.holds(lambda: _shut_down(response))
        return HttpxDownload(response, request, scope)


class HttpxDownload:
    """A response whose body is read as it arrives."""

    def __init__(self, response: httpx.Response, request: Request, scope: CancelScope | None) -> None:
        self.answer = _answer(response)
        self._response = response
        self._pieces: Iterator[bytes] = response.iter_bytes()
        self._request = request
        self._scope = scope

    def read(self) -> bytes:
        """Return the next bytes of the body; b"" at its end."""
        try:
            return next(self._pieces, b"")
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _failed(self._request, error) from None

    def close(self) -> None:
        """Release the connection, even if the body is incomplete."""
        if self._scope is not None:
            self._scope.holds(None)
        self._response.close()


class AsyncHttpxTransport:
    """The async client's HTTP through an `httpx.AsyncClient` of yours. Pass it as `client`; you close yours.

    >>> async def read():
    ...     async with httpx.AsyncClient(http2=True) as http:
    ...         return await (await stream(url, live=False, client=AsyncHttpxTransport(http))).read_json()
    >>> asyncio.run(read())
    []
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and return the complete response."""
        made = _made(self._client, request)
        response = await _cancellable(self._client.send(made, follow_redirects=False), request, scope)
        return _answer(response, response.content)

    async def open(self, request: Request, scope: CancelScope | None = None) -> "AsyncHttpxDownload":
        """Send a request and return when the response's headers have arrived."""
        made = _made(self._client, request)
        sending = self._client.send(made, stream=True, follow_redirects=False)
        return AsyncHttpxDownload(await _cancellable(sending, request, scope), request, scope)


class AsyncHttpxDownload:
    """A response whose body is read as it arrives."""

    def __init__(self, response: httpx.Response, request: Request, scope: CancelScope | None) -> None:
        self.answer = _answer(response)
        self._response = response
        self._pieces: AsyncIterator[bytes] = response.aiter_bytes()
        self._request = request
        self._scope = scope
        self._closing: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        """Return the next bytes of the body; b"" at its end."""
        return await _cancellable(_next(self._pieces), self._request, self._scope)

    def close(self) -> None:
        """Release the connection, even if the body is incomplete."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the socket with it
            self._closing = asyncio.get_running_loop().create_task(self._response.aclose())


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    return await anext(pieces, b"")


async def _cancellable(work: Coroutine[Any, Any, R], request: Request, scope: CancelScope | None) -> R:
    """Await work of httpx as a task, so that a scope can cancel it alone."""
    task = asyncio.ensure_future(work)
    if scope is not None:
        scope.holds(lambda: _cancel(task))
    try:
        return await task
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
        raise _failed(request, error) from None
    except asyncio.CancelledError:
        if scope is not None and scope.cancelled.is_set():
            raise TransportError("The request was cancelled", url=request.url) from None
        raise
    finally:
        if scope is not None:
            scope.holds(None)


def _cancel(task: "asyncio.Future[Any]") -> None:
    task.cancel()


def _made(client: httpx.Client | httpx.AsyncClient, request: Request) -> httpx.Request:
    has_body = bool(request.body) or request.method in (b"POST", b"PUT")
    return client.build_request(
        request.method.decode(),
        request.url,
        headers=list(request.headers.items()),
        content=request.body if has_body else None,
        timeout=request.timeout_s,
    )


def _answer(response: httpx.Response, body: bytes = b"") -> Answer:
    headers: Headers = {}
    for raw, value in response.headers.raw:
        name = raw.lower()
        headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value
    return Answer(response.status_code, headers, body)


def _failed(request: Request, error: Exception) -> TransportError:
    """Make the error that the other transports would make."""
    reason = str(error) or type(error).__name__
    code = "TIMEOUT" if isinstance(error, httpx.TimeoutException) else None
    if isinstance(error, _NOT_SENT):
        where = urlsplit(request.url).netloc.rpartition("@")[2]
        code = "UNTRUSTED" if _is_untrusted(error) else code
        message = f"Could not connect to {where} ({reason})"
        return TransportError(message, url=request.url, code=code, unsent=True)
    message = f"No answer in {request.timeout_s:g} s" if code else f"The connection broke ({reason})"
    return TransportError(message, url=request.url, code=code)


def _is_untrusted(error: BaseException | None) -> bool:
    """Tell whether a certificate was refused: httpx keeps the reason only as the cause of its error."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _shut_down(response: httpx.Response) -> None:
    """Wake a thread that waits for the response. A connection of HTTP/2 has other requests, too."""
    stream = response.extensions.get("network_stream")
    connected = stream.get_extra_info("socket") if stream is not None else None
    if response.http_version != "HTTP/2" and connected is not None:
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)
