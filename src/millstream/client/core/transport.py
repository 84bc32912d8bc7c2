"""The interface of a transport: what the client needs of HTTP.

A transport sends one request and returns its response, complete (`send`) or as a stream (`open`). It
never retries: the core decides whether that is safe. Every failure is a `TransportError`, whose
`unsent` is true only if no byte of the request can have reached the server.

Cancelling a `CancelScope` aborts the connection in use, which wakes the thread or task that waits on
it.
"""

import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

import msgspec

from millstream.client.core.errors import TransportError

Headers = dict[bytes, bytes]
"""Header fields by lower-case name; a repeated field is joined with a comma."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One HTTP request, complete. `timeout_s` limits how long the server may stay silent."""

    method: bytes
    url: str
    headers: Headers
    body: bytes = b""
    timeout_s: float = 30.0


class Answer(msgspec.Struct, frozen=True, gc=False):
    """One HTTP response. After `open` the body is empty here, and read from the `Download`."""

    status: int
    headers: Headers
    body: bytes = b""


class Origin(msgspec.Struct, frozen=True):
    """Host, port and scheme of a connection."""

    host: str
    port: int
    tls: bool


def not_connected(
    request: Request, origin: Origin, error: Exception, through_proxy: bool = False
) -> TransportError:
    """Make the error for a failed connect: nothing was sent."""
    code = None
    if isinstance(error, TimeoutError):
        code = "TIMEOUT"
    elif isinstance(error, ssl.SSLCertVerificationError):
        code = "UNTRUSTED"
    way = " through the proxy" if through_proxy else ""
    message = f"Could not connect to {origin.host}:{origin.port}{way} ({error})"
    return TransportError(message, url=request.url, code=code, unsent=True)


def broken(request: Request, error: Exception) -> TransportError:
    """Make the error for a broken or silent connection: the request may have been carried out."""
    if isinstance(error, TimeoutError | BlockingIOError):  # the latter from the kernel's own timeouts
        return TransportError(f"No answer in {request.timeout_s:g} s", url=request.url, code="TIMEOUT")
    return TransportError(f"The connection broke ({error})", url=request.url)


class CancelScope:
    """Cancels one operation from outside. It uses at most one connection at a time."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._abort: Callable[[], None] | None = None

    def holds(self, abort: Callable[[], None] | None) -> None:
        """Set how to abort the current connection; None if there is none."""
        self._abort = abort
        if abort is not None and self.cancelled.is_set():
            abort()

    def cancel(self) -> None:
        """Abort the current connection, and refuse later ones."""
        self.cancelled.set()
        abort = self._abort
        if abort is not None:
            abort()


class Download(Protocol):
    """A response whose body is read as it arrives."""

    @property
    def answer(self) -> Answer:
        """The status and headers."""
        ...

    def read(self) -> bytes:
        """Return the next bytes of the body; b"" at its end."""
        ...

    def close(self) -> None:
        """Release the connection, even if the body is incomplete."""
        ...


class Transport(Protocol):
    """HTTP for the sync shell. Safe to share between threads."""

    def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and return the complete response."""
        ...

    def open(self, request: Request, scope: CancelScope | None = None) -> Download:
        """Send a request and return when the response's headers have arrived."""
        ...


class AsyncDownload(Protocol):
    """A response whose body is read as it arrives."""

    @property
    def answer(self) -> Answer:
        """The status and headers."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes of the body; b"" at its end."""
        ...

    def close(self) -> None:
        """Release the connection, even if the body is incomplete."""
        ...


class AsyncTransport(Protocol):
    """HTTP for the async shell."""

    async def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and return the complete response."""
        ...

    async def open(self, request: Request, scope: CancelScope | None = None) -> AsyncDownload:
        """Send a request and return when the response's headers have arrived."""
        ...


class Closing:
    """Makes a class with `close` a context manager."""

    def close(self) -> None:
        """Release all resources."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
