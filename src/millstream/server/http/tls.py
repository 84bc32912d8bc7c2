"""TLS handshakes: counted as connections, and cut when they take as long as headers may take.

A listener that is given a certificate reports a connection only after its handshake. Clients that never
finish one would not be counted, and not be cut for a minute. So the listener accepts plain TCP, and a
`Handshake` stands for the connection until the handshake is done. A connection over the limit is closed
without a response, which would need a handshake.

The transport of the listener begins to read by itself. So it is replaced by one that begins with the
handshake, on a duplicate of the socket's descriptor.
"""

import asyncio
import contextlib
import os
import socket
import ssl

from millstream.server.http.connection import Connection
from millstream.server.http.server import NativeServer


class Handshake(asyncio.Protocol):
    """One client's connection until its handshake is done."""

    def __init__(self, server: NativeServer, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext) -> None:
        self._server = server
        self._loop = loop
        self._tls = tls
        self._address = b""
        self._is_counted = False
        self._shaking: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, if the server is not full."""
        self._address = str((transport.get_extra_info("peername") or ("",))[0]).encode()
        self._is_counted = True
        if self._server.admit(self, self._address) is None:
            with contextlib.suppress(OSError):  # no descriptor is left
                opened = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
                opened.setblocking(False)
                self._shaking = self._loop.create_task(self._shake(opened))
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, unless another transport has taken over."""
        if self._shaking is None:
            self.leave()

    async def _shake(self, opened: socket.socket) -> None:
        timeout_s = self._server.settings.header_timeout_s
        try:
            with contextlib.suppress(OSError):  # not TLS, no common version, too late, or gone
                await self._loop.connect_accepted_socket(
                    lambda: SecuredConnection(self._server, self._loop, self),
                    opened,
                    ssl=self._tls,
                    ssl_handshake_timeout=timeout_s,
                )
        finally:
            self.leave()

    def leave(self) -> None:
        """Be counted no more."""
        if self._is_counted:
            self._is_counted = False
            self._server.dismiss(self, self._address)

    def tick(self, now_s: float) -> None:
        """Do nothing: the handshake has its own timeout."""

    def drain(self) -> None:
        """End at once: nothing has been asked."""
        if self._shaking is not None:
            self._shaking.cancel()


class SecuredConnection(Connection):
    """A connection that is counted instead of its handshake once that is done."""

    __slots__ = ("_handshake",)

    def __init__(self, server: NativeServer, loop: asyncio.AbstractEventLoop, handshake: Handshake) -> None:
        super().__init__(server, loop)
        self._handshake = handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the connection: the handshake is done."""
        self._handshake.leave()
        super().connection_made(transport)
