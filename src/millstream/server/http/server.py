"""What the connections of a server share: routes, settings, limits, and the headers of every response."""

import time
from collections import Counter
from typing import Protocol

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.access.cors import Cors
from millstream.server.http.bodies import Bodies, ReadTurns
from millstream.server.http.wire import date_line, encode_headers
from millstream.server.request import Answer, Request
from millstream.server.settings import Settings
from millstream.server.telemetry.metrics import Metrics

_LONGEST_TICK_S = 2.0
"""Ticks come once a second. More than this passes only while the event loop is held up, or the process."""


class ServedConnection(Protocol):
    """What a server asks of its connections."""

    def tick(self, now_s: float) -> None:
        """End the connection if its client has taken too long."""
        ...

    def drain(self) -> None:
        """End the connection once everything is answered."""
        ...


class Routing(Protocol):
    """Answers requests."""

    cors: Cors
    metrics: Metrics

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        ...

    def handle(self, request: Request) -> Answer:
        """Answer a request."""
        ...

    def refuse_head(self, request: Request) -> Reply | None:
        """Refuse a request with a large body by its head, before the body arrives."""
        ...

    def refused(self, client: bytes, reply: Reply) -> None:
        """Count a refusal of bytes that never became a request."""
        ...


class NativeServer:
    """What all connections of a server share."""

    def __init__(self, routes: Routing, *, scheme: bytes) -> None:
        self.routes = routes
        self.latencies = routes.metrics.latencies
        self.settings = routes.settings
        self.scheme = scheme
        self.connections: set[ServedConnection] = set()
        self._by_address: Counter[bytes] = Counter()
        self.bodies = Bodies(routes.settings.max_bodies_bytes)
        self.read_turns = ReadTurns()
        self.draining = False
        self.now_s = 0.0
        """How long connections have been served, to a second: the clock of their timeouts.

        It stands still while the event loop does: what clients have sent meanwhile could not be read.
        """
        self._ticked_s = 0.0
        self._common: dict[bytes | None, bytes] = {}  # by origin, for this second
        self._start_second()

    def adopt(self, settings: Settings) -> None:
        """Continue with other settings."""
        self.settings = settings
        self.bodies.max_bytes = settings.max_bodies_bytes

    def admit(self, connection: ServedConnection, address: bytes) -> Reply | None:
        """Register a connection; the reply says why it is refused, if it is."""
        settings = self.settings
        refusal = None
        if len(self.connections) >= settings.max_connections:
            refusal = problems.SERVER_FULL
        elif 0 < settings.max_connections_per_address <= self._by_address[address]:
            refusal = problems.too_many_connections(settings.max_connections_per_address)
        self.connections.add(connection)
        self._by_address[address] += 1
        return refusal

    def dismiss(self, connection: ServedConnection, address: bytes) -> None:
        """Forget a connection that has ended."""
        self.connections.discard(connection)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def common_headers(self, origin: bytes | None) -> bytes:
        """Encode the headers that every response to a request from this origin has."""
        key = self.routes.cors.key(origin)
        common = self._common.get(key)
        if common is None:
            common = self._common[key] = encode_headers(self.routes.cors.common_headers(key)) + self._date
        return common

    def _start_second(self) -> None:
        self._common.clear()
        self._date = date_line(time.time())
        self.common = self.common_headers(None)  # most requests name no origin

    def tick(self, now_s: float) -> None:
        """Advance the clock and end connections that take too long; called about once a second."""
        self.now_s += min(now_s - self._ticked_s, _LONGEST_TICK_S)
        self._ticked_s = now_s
        self._start_second()
        for connection in list(self.connections):
            connection.tick(self.now_s)

    def drain(self) -> None:
        """End every connection as soon as it has nothing left to answer."""
        self.draining = True
        for connection in list(self.connections):
            connection.drain()
