"""Watching requests: who asked for what, and how it ended. For access logs and traces.

A server that is not watched has plain `Routes` and pays nothing. One that is has these, which tell each
observer of a request when it comes and, once, when its answer is there; for an event stream that is when
it ends.

What observers are given holds secrets: tokens come in headers and in the query. They take out what they
may tell, by `described`, and nothing else.
"""

import logging
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from millstream.protocol.replies import Reply
from millstream.server.access.auth import Auth
from millstream.server.live.feeds import EventFeed
from millstream.server.request import Answer, Request
from millstream.server.routes import Routes
from millstream.server.settings import Settings
from millstream.server.telemetry.logs import event
from millstream.store.base import Store
from millstream.store.pending import Pending

CLIENT_LEFT = 499
"""Stands for the status of an answer that nobody waited for."""

Ended = Callable[[int, int], None]
"""Called when a request is over, with its status and the size of its answer."""

Observer = Callable[[Request], Ended]
"""Called when a request comes."""

_HARMLESS = ("offset", "live", "cursor", "until", "limit")
"""What of a query may be told: parameters that are never secret."""

_access = logging.getLogger("millstream.access")


class ObservedRoutes(Routes):
    """Routes that tell observers what they do."""

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
        """Answer a request, and tell how it ended."""
        endings = [observer(request) for observer in self._observers]

        def ended(status: int, size: int) -> None:
            for ending in endings:
                ending(status, 0 if request.method == b"HEAD" else size)

        return _watched(super().handle(request), ended)

    def refused(self, client: bytes, reply: Reply) -> None:
        """Take note of an answer to what never became a whole request."""
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
    """Give what may be told of a request."""
    asked = parse_qsl(request.query.decode("latin-1"), errors="backslashreplace")
    return {
        "client": request.client.decode("latin-1"),
        "method": request.method.decode("latin-1"),
        "path": unquote_to_bytes(request.path).decode(errors="backslashreplace"),
        **{name: value for name, value in asked if name in _HARMLESS},
    }


def log_access(request: Request) -> Ended:
    """Log a line for each request; an observer."""
    began_s = time.monotonic()

    def ended(status: int, size: int) -> None:
        took_ms = round((time.monotonic() - began_s) * 1000, 3)
        event(_access, logging.INFO, "request", **described(request), status=status, bytes=size, ms=took_ms)

    return ended
