"""The control APIs, below `__ds`: what is asked of the server rather than of a stream.

GET __ds/streams   the listing (rule X2); shows what the token may read
GET __ds/metrics   for Prometheus; needs `admin` where tokens are asked for
GET __ds/healthz   the process answers
GET __ds/readyz    and it takes appends: it is not draining, and its disk has not failed
GET __ds/ui        the web page (`pages`)
"""

from collections.abc import Callable
from functools import partial

import msgspec

from millstream.protocol import caching, headers
from millstream.protocol.errors import MalformedError
from millstream.protocol.offsets import format_offset
from millstream.protocol.queries import Query
from millstream.protocol.replies import Header, Reply, problem
from millstream.server.access.auth import Auth, refuse
from millstream.server.access.grants import Action, Grant
from millstream.server.live.readers import LiveReaders
from millstream.server.pages import Pages
from millstream.server.request import Answer, Request
from millstream.server.telemetry import metrics
from millstream.server.telemetry.metrics import Metrics
from millstream.store.base import Page, Store
from millstream.store.pending import when

_MAX_PAGE = 1000
_NO_STORE = (b"cache-control", caching.NO_STORE)
_JSON: Header = (headers.CONTENT_TYPE, b"application/json")


class Control:
    """What the server tells about itself."""

    def __init__(
        self, store: Store, live: LiveReaders, auth: Auth, metrics: Metrics, clock_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._live = live
        self._auth = auth
        self._metrics = metrics
        self._clock_ms = clock_ms
        self._pages = Pages(live.settings.path)
        self._routes: dict[str, Callable[[Request], Answer]] = {
            "streams": self._streams,
            "metrics": self._show_metrics,
            "healthz": lambda _request: self.health_reply(),
            "readyz": lambda _request: self.readiness_reply(),
        }

    def find(self, path: str) -> Callable[[Request], Answer] | None:
        """Find what answers at a path below `__ds`."""
        return self._routes.get(path) or self._pages.find(path)

    def _streams(self, request: Request) -> Answer:
        refusal = self._auth.identify(request, self._clock_ms() / 1000)
        if refusal is not None:
            return refusal
        query = Query(request.query)
        limit = headers.parse_integer(query.one(b"limit") or b"100", "limit")
        if not 1 <= limit <= _MAX_PAGE:
            raise MalformedError("INVALID_LIMIT", f"limit is from 1 to {_MAX_PAGE}.")
        prefix, glob, cursor = (_text(query, name) for name in (b"prefix", b"glob", b"cursor"))
        found = self._store.listing(prefix, glob or None, cursor, limit, self._clock_ms())
        return when(found, partial(_page, request.grant))

    def _show_metrics(self, request: Request) -> Answer:
        refusal = self._auth.identify(request, self._clock_ms() / 1000) or refuse(
            request.grant, Action.ADMIN, "/"
        )
        if refusal is not None:
            return refusal
        return self.metrics_reply()

    def metrics_reply(self) -> Reply:
        """Tell all numbers."""
        return Reply(200, [(headers.CONTENT_TYPE, metrics.CONTENT_TYPE), _NO_STORE], self._metrics.text())

    def health_reply(self) -> Reply:
        """Tell that the process answers."""
        return _status("ok", ready=True)

    def readiness_reply(self) -> Reply:
        """Tell whether appends are taken."""
        if self._live.draining:
            return _status("draining", ready=False)
        failure = self._store.failure
        return _status("ready", ready=True) if failure is None else _status(failure, ready=False)


def _status(status: str, *, ready: bool) -> Reply:
    if not ready:
        return problem(503, "NOT_READY", f"The server takes no appends: {status}.", [(b"retry-after", b"5")])
    return Reply(200, [_JSON, _NO_STORE], msgspec.json.encode({"status": status}))


def _text(query: Query, name: bytes) -> str:
    try:
        return (query.one(name) or b"").decode()
    except UnicodeDecodeError:
        raise MalformedError("INVALID_PARAMETER", f"{name.decode()} must be UTF-8.") from None


def _page(grant: Grant, page: Page) -> Reply:
    listed = [
        {
            "path": stream.name,
            "contentType": stream.content_type.decode("latin-1"),
            "tail": format_offset(stream.tail).decode(),
            "closed": stream.closed,
            "bytes": stream.tail - max(stream.base, stream.start),
            "createdMs": stream.created_ms,
            "ttlSeconds": stream.lifetime.ttl_s,
            "expiresMs": stream.deadline_ms,
            "retainBytes": stream.retention.bytes,
            "retainSeconds": stream.retention.seconds,
            "forkedFrom": stream.fork.source_name if stream.fork is not None else None,
        }
        for stream in page.streams
        if grant.allows(Action.READ, stream.name)
    ]
    return Reply(200, [_JSON, _NO_STORE], msgspec.json.encode({"streams": listed, "cursor": page.next_after}))
