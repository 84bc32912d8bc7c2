"""Observers of requests, for access logs and traces.

A server without observers uses plain `Routes` and pays nothing for this. With observers it uses
`ObservedRoutes`, which calls each observer when a request arrives and once when its response is complete;
for an event stream, that is when it ends.

Requests hold secrets: tokens in headers and in the query. Observers may report only what `described`
returns.
"""

import logging
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from millstream.protocol.http import Reply
from millstream.server.access.auth import Auth
from millstream.server.live.feeds import EventFeed
from millstream.server.request import Answer, Request
from millstream.server.routes.dispatch import Routes
from millstream.server.settings import Settings
from millstream.server.telemetry.logs import event
from millstream.store.base import Store
from millstream.store.pending import Pending

CLIENT_LEFT = 499
"""Logged as the status when the client disconnected before the response."""

Ended = Callable[[int, int], None]
"""Called when a request is complete, with its status and the size of its response."""

Observer = Callable[[Request], Ended]
"""Called when a request arrives."""

_HARMLESS = ("offset", "live", "cursor", "until", "limit")
"""Query parameters that are never secret and may be reported."""

_access = logging.getLogger("millstream.access")


class ObservedRoutes(Routes):
    """Routes that call observers."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        auth: Auth,
        clock_ms: Callable[[], int],
        observers: list[Observer],
    ) -> None:
        super().__init__(store, settings, auth, clock_ms)
        self._observers = observers

    def handle(self, request: Request) -> Answer:
        """Handle a request and report how it ended."""
        endings = [observer(request) for observer in self._observers]

        def ended(status: int, size: int) -> None:
            for ending in endings:
                ending(status, 0 if request.method == b"HEAD" else size)

        return _watched(super().handle(request), ended)

    def refused(self, client: bytes, reply: Reply) -> None:
        """Record the response to a request that was never complete."""
        super().refused(client, reply)
        if self.settings.access_log:
            event(_access, logging.INFO, "refused", client=client.decode("latin-1"), status=reply.status)


def _watched(answer: Answer, ended: Ended) -> Answer:
    if isinstance(answer, Reply):
        ended(answer.status, len(answer.body))
        return answer
    if isinstance(answer, EventFeed):
        answer.on_leave = lambda: ended(answer.head.status, 0)
        return answer

    def abandoned() -> None:
        ended(CLIENT_LEFT, 0)
        answer.abandon()

    watched: Pending[Reply | EventFeed] = Pending(abandoned)

    def arrived(found: Reply | EventFeed) -> None:
        _watched(found, ended)
        watched.settle(found)

    answer.then(arrived)
    return watched


def described(request: Request) -> dict[str, Any]:
    """Return the fields of a request that may be reported."""
    asked = parse_qsl(request.query.decode("latin-1"), errors="backslashreplace")
    return {
        "client": request.client.decode("latin-1"),
        "method": request.method.decode("latin-1"),
        "path": unquote_to_bytes(request.path).decode(errors="backslashreplace"),
        **{name: value for name, value in asked if name in _HARMLESS},
    }


def log_access(request: Request) -> Ended:
    """Log one line per request; an observer."""
    began_s = time.monotonic()

    def ended(status: int, size: int) -> None:
        took_ms = round((time.monotonic() - began_s) * 1000, 3)
        event(_access, logging.INFO, "request", **described(request), status=status, bytes=size, ms=took_ms)

    return ended
