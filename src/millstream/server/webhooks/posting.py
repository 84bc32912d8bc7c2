"""Sending one delivery, to an address that was vetted.

        check the URL ─▶ resolve ─▶ vet every address ─▶ dial one of these ─▶ TLS for the name ─▶ POST

A name is resolved once, and the connection goes to what was found then: a name that points elsewhere a moment
later (DNS rebinding) changes nothing. One address that is not allowed refuses the delivery. Redirects are not
followed, no proxy is used, and time and size are limited for everything together.

Rule S3.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

from millstream.protocol.webhook_targets import Address, Policy, Rejected, Target, check_target, may_dial
from millstream.server.webhooks.answers import (
    AnswerParser,
    AnswerTooLargeError,
    MalformedAnswerError,
    WebhookAnswer,
)
from millstream.server.webhooks.resolving import Resolver

Resolve = Callable[[str], Awaitable[Sequence[Address]]]

_READ_BYTES: Final = 64 * 1024
_MAX_DIALLED: Final = 4
_FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\x20-\x7e]*")
_RESOLVER = Resolver()


class Failure(StrEnum):
    """Why there was no answer."""

    REFUSED_TARGET = "refused_target"
    UNRESOLVED = "unresolved"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    TIMEOUT = "timeout"
    BROKEN = "broken"
    TOO_LARGE = "too_large"


class DeliveryError(Exception):
    """A delivery that got no answer: `reason` for programs and metrics, the message for people."""

    def __init__(self, reason: Failure, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def post(
    url: str,
    body: bytes,
    headers: Mapping[bytes, bytes],
    *,
    policy: Policy,
    timeout_s: float,
    max_response_bytes: int,
    resolve: Resolve = _RESOLVER.resolve,
    tls: ssl.SSLContext | None = None,
) -> WebhookAnswer:
    """Send a POST and give its answer, whatever its status; `DeliveryError` if there is none."""
    target = check_target(url, policy)
    if isinstance(target, Rejected):
        raise DeliveryError(Failure.REFUSED_TARGET, target.reason)
    request = _render(target, body, headers)
    try:
        async with asyncio.timeout(timeout_s):
            addresses = await _vet(target, policy, resolve)
            reader, writer = await _connect(target, addresses, timeout_s, tls)
            try:
                writer.write(request)
                return await _read_answer(reader, AnswerParser(max_response_bytes))
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise DeliveryError(Failure.TIMEOUT, f"There was no complete answer in {timeout_s:g} s.") from None
    except AnswerTooLargeError:
        message = f"The answer is larger than {max_response_bytes} bytes."
        raise DeliveryError(Failure.TOO_LARGE, message) from None
    except MalformedAnswerError:
        raise DeliveryError(Failure.BROKEN, "The answer is not HTTP, or ended too early.") from None
    except OSError as error:
        raise DeliveryError(Failure.BROKEN, f"The connection broke: {_reason(error)}.") from None


def _render(target: Target, body: bytes, headers: Mapping[bytes, bytes]) -> bytes:
    fields = {
        b"host": target.authority.encode(),
        b"user-agent": b"millstream",
        b"accept-encoding": b"identity",
        b"connection": b"close",
        **headers,
        b"content-length": b"%d" % len(body),
    }
    lines = [b"%b: %b" % field for field in fields.items()]
    if not all(_FIELD.fullmatch(line) for line in lines):
        raise ValueError("a header of a delivery has characters that headers must not have")
    start = b"POST %b HTTP/1.1\r\n" % target.request_target.encode()
    return start + b"\r\n".join(lines) + b"\r\n\r\n" + body


async def _vet(target: Target, policy: Policy, resolve: Resolve) -> Sequence[Address]:
    if target.address is not None:
        return (target.address,)  # judged with the URL
    try:
        addresses = await resolve(target.host)
    except TimeoutError:
        raise
    except OSError as error:
        message = f"{target.host} has no address: {_reason(error)}."
        raise DeliveryError(Failure.UNRESOLVED, message) from None
    if not addresses:
        raise DeliveryError(Failure.UNRESOLVED, f"{target.host} has no address.")
    for address in addresses:
        if not may_dial(target, address, policy):
            message = f"{target.host} has an address that is not public, and webhook_allow does not have it."
            raise DeliveryError(Failure.REFUSED_TARGET, message)
    return addresses[:_MAX_DIALLED]


async def _connect(
    target: Target, addresses: Sequence[Address], timeout_s: float, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address that answers, and to nothing else."""
    context = (tls or await asyncio.to_thread(_default_tls)) if target.is_secure else None
    dialled = await _dial_first(target, addresses, timeout_s)
    if context is None:
        return await asyncio.open_connection(sock=dialled)
    try:
        return await asyncio.open_connection(sock=dialled, ssl=context, server_hostname=target.host)
    except TimeoutError:
        raise
    except OSError as error:
        message = f"No TLS with {target.authority}: {_reason(error)}."
        raise DeliveryError(Failure.TLS, message) from None


async def _dial_first(target: Target, addresses: Sequence[Address], timeout_s: float) -> socket.socket:
    failed: OSError | None = None
    for address in addresses:
        try:
            async with asyncio.timeout(timeout_s / len(addresses)):
                return await _dial(address, target.port)
        except OSError as error:  # TimeoutError is one
            failed = error
    message = f"{target.authority} cannot be reached: {_reason(failed)}."
    raise DeliveryError(Failure.UNREACHABLE, message) from None


async def _dial(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    dialled = socket.socket(family, socket.SOCK_STREAM)
    try:
        dialled.setblocking(False)
        await asyncio.get_running_loop().sock_connect(dialled, (str(address), port))
    except BaseException:
        dialled.close()
        raise
    return dialled


async def _read_answer(reader: asyncio.StreamReader, parser: AnswerParser) -> WebhookAnswer:
    while data := await reader.read(_READ_BYTES):
        answer = parser.feed(data)
        if answer is not None:
            return answer
    return parser.end()


@lru_cache(maxsize=1)
def _default_tls() -> ssl.SSLContext:
    """Trust what the system trusts; loading it takes tens of milliseconds."""
    return ssl.create_default_context()


def _reason(error: OSError | None) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long"
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or "the handshake failed").replace("_", " ").lower()
    if error is None or error.strerror is None:
        return "no reason given"
    return error.strerror
