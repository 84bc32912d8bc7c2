"""The seam to HTTP: what the client needs of it, and nothing more.

A transport sends one request and gives its answer, whole (`send`) or as it comes (`open`). It
never repeats a request on its own: whether that is safe is the core's question. Every failure is
a `TransportError`, whose `unsent` is true only when no byte of the request can have arrived.

A `CancelScope` lets somebody else end what a transport is doing: cancelling it breaks the connection
that it holds, which wakes the thread or task that waits there.
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
    """One HTTP request, complete. `timeout_s` is how long the server may be silent."""

    method: bytes
    url: str
    headers: Headers
    body: bytes = b""
    timeout_s: float = 30.0


class Answer(msgspec.Struct, frozen=True, gc=False):
    """One HTTP response; the body of an opened one is empty here and read from its download."""

    status: int
    headers: Headers
    body: bytes = b""


class Origin(msgspec.Struct, frozen=True):
    """Where connections lead to."""

    host: str
    port: int
    tls: bool


def not_connected(request: Request, origin: Origin, error: OSError) -> TransportError:
    """Tell that there is no connection, so nothing can have been sent."""
    code = None
    if isinstance(error, TimeoutError):
        code = "TIMEOUT"
    elif isinstance(error, ssl.SSLCertVerificationError):
        code = "UNTRUSTED"
    message = f"Could not connect to {origin.host}:{origin.port} ({error})"
    return TransportError(message, url=request.url, code=code, unsent=True)


def broken(request: Request, error: Exception) -> TransportError:
    """Tell that a connection broke or fell silent, so nobody knows what was done."""
    if isinstance(error, TimeoutError | BlockingIOError):  # the latter from the kernel's own timeouts
        return TransportError(f"No answer in {request.timeout_s:g} s", url=request.url, code="TIMEOUT")
    return TransportError(f"The connection broke ({error})", url=request.url)


class CancelScope:
    """What can be cancelled from outside: at most one connection at a time."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._abort: Callable[[], None] | None = None

    def holds(self, abort: Callable[[], None] | None) -> None:
        """Say how the current connection is broken, or that there is none now."""
        self._abort = abort
        if abort is not None and self.cancelled.is_set():
            abort()

    def cancel(self) -> None:
        """End what is going on, and everything that would follow."""
        self.cancelled.set()
        abort = self._abort
        if abort is not None:
            abort()


class Download(Protocol):
    """An answer whose body arrives piece by piece."""

    @property
    def answer(self) -> Answer:
        """Give the answer's status and headers."""
        ...

    def read(self) -> bytes:
        """Give the next bytes of the body, none at its end."""
        ...

    def close(self) -> None:
        """Let go of the connection, wherever the body is."""
        ...


class Transport(Protocol):
    """HTTP for the sync shell. Safe to share between threads."""

    def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and give its whole answer."""
        ...

    def open(self, request: Request, scope: CancelScope | None = None) -> Download:
        """Send a request and give its answer once the headers are here."""
        ...


class AsyncDownload(Protocol):
    """An answer whose body arrives piece by piece."""

    @property
    def answer(self) -> Answer:
        """Give the answer's status and headers."""
        ...

    async def read(self) -> bytes:
        """Give the next bytes of the body, none at its end."""
        ...

    def close(self) -> None:
        """Let go of the connection, wherever the body is."""
        ...


class AsyncTransport(Protocol):
    """HTTP for the async shell."""

    async def send(self, request: Request, scope: CancelScope | None = None) -> Answer:
        """Send a request and give its whole answer."""
        ...

    async def open(self, request: Request, scope: CancelScope | None = None) -> AsyncDownload:
        """Send a request and give its answer once the headers are here."""
        ...


class Closing:
    """A context manager for what has a `close`."""

    def close(self) -> None:
        """Let go of everything that is held."""
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
