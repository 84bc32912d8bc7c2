"""The control APIs below `__ds`: requests about the server instead of one stream.

GET __ds/streams   the listing (`listing`); only streams that the token may read
POST the same      those of some names, which are in the body
DELETE the same    deletes many (`deletions`); only streams that the token may write
GET __ds/events    events of many streams (`events`); POST for parameters that are too long for a URL
POST __ds/parts    stages or commits parts of many streams (`many_parts`)
GET __ds/access    what the token allows, on one stream or on any
__ds/subscriptions subscriptions, jwks.json and keys/rotate with them (`subscriptions`)
GET __ds/metrics   for Prometheus; this and the next two need the scope `admin` if tokens are required
GET __ds/server    version, uptime, sizes and totals
GET __ds/history   the numbers of the last 15 minutes
GET __ds/healthz   200 while the process responds
GET __ds/readyz    200 while appends are accepted: the server is not draining, and its disk has not failed
GET __ds/ui        the web page (`pages`)
"""

from collections.abc import Callable

import msgspec

from millstream.protocol import caching, headers, problems
from millstream.protocol.http import Header, Reply
from millstream.protocol.queries import Query
from millstream.protocol.requests import (
    parse_access,
    parse_deletion,
    parse_history,
    parse_listing,
    parse_named,
)
from millstream.server.access.auth import Auth, refuse
from millstream.server.access.grants import Action, access_of
from millstream.server.access.origins import Origins
from millstream.server.live.readers import LiveReaders
from millstream.server.request import Answer, Request
from millstream.server.routes.deletions import Deletions
from millstream.server.routes.events import EventRoutes
from millstream.server.routes.listing import Listing
from millstream.server.routes.pages import Pages
from millstream.server.routes.subscriptions import SubscriptionRoutes
from millstream.server.telemetry import metrics
from millstream.server.telemetry.metrics import Metrics
from millstream.server.telemetry.overview import Overview
from millstream.store.base import Store

_NO_STORE = (b"cache-control", caching.NO_STORE)
_JSON: Header = (headers.CONTENT_TYPE, b"application/json")


class Control:
    """Handlers of the control APIs."""

    def __init__(
        self,
        store: Store,
        live: LiveReaders,
        auth: Auth,
        listing: Listing,
        deletions: Deletions,
        post_many: Callable[[Request], Answer],
        origins: Origins,
        metrics: Metrics,
        overview: Overview,
        subscriptions: SubscriptionRoutes,
        clock_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._live = live
        self._auth = auth
        self._listing = listing
        self._deletions = deletions
        self._post_many = post_many
        self._origins = origins
        self._metrics = metrics
        self._overview = overview
        self._subscriptions = subscriptions
        self._clock_ms = clock_ms
        self._pages = Pages(live.settings.path)
        events = EventRoutes(live, auth, metrics, clock_ms)
        self._routes: dict[str, Callable[[Request], Answer]] = {
            "streams": self._streams,
            "events": events.answer,
            "access": self._access,
            "metrics": self._for_admins(lambda _request: self.metrics_reply()),
            "server": self._for_admins(self._server),
            "history": self._for_admins(self._history),
            "healthz": lambda _request: self.health_reply(),
            "readyz": lambda _request: self.readiness_reply(),
        }
        self._deletes: dict[str, Callable[[Request], Answer]] = {"streams": self._delete_streams}
        self._posts: dict[str, Callable[[Request], Answer]] = {
            "events": events.answer,
            "parts": self._post_parts,
            "streams": self._look_up,
        }

    def find(self, path: str, root: str) -> dict[bytes, Callable[[Request], Answer]]:
        """Find the handlers for a path below `__ds` of a root, by method; none where there is nothing."""
        shows = self._routes.get(path) or self._pages.find(path)
        handlers = {b"GET": shows, b"HEAD": shows} if shows is not None else {}
        if (deletes := self._deletes.get(path)) is not None:
            handlers[b"DELETE"] = deletes
        if (posts := self._posts.get(path)) is not None:
            handlers[b"POST"] = posts
        return handlers or self._subscriptions.find(path, root)

    def refuse_body(self, path: str, root: str, request: Request) -> Reply | None:
        """Refuse a large body by the head of its request: most paths take none, and none of a stranger."""
        if self._subscriptions.find(path, root):
            return self._subscriptions.refuse_body(path, root, request)
        if request.method != b"POST" or path not in self._posts:
            return problems.UNEXPECTED_BODY
        return self._auth.identify(request, self._clock_ms() / 1000)

    def _streams(self, request: Request) -> Answer:
        refusal = self._auth.identify(request, self._clock_ms() / 1000)
        if refusal is not None:
            return refusal
        if not request.grant.allows_some(Action.READ):
            return problems.LISTING_FORBIDDEN
        return self._listing.answer(parse_listing(Query(request.query)), request.grant)

    def _look_up(self, request: Request) -> Answer:
        refusal = self._auth.identify(request, self._clock_ms() / 1000)
        if refusal is not None:
            return refusal
        if not request.grant.allows_some(Action.READ):
            return problems.LISTING_FORBIDDEN
        return self._listing.answer_named(parse_named(request.body), request.grant)

    def _delete_streams(self, request: Request) -> Answer:
        refusal = self._origins.refuse_write(request) or self._auth.identify(request, self._clock_ms() / 1000)
        if refusal is not None:
            return refusal
        if not request.grant.allows_some(Action.WRITE):
            return problems.WRITING_FORBIDDEN
        return self._deletions.answer(parse_deletion(Query(request.query)), request.grant)

    def _post_parts(self, request: Request) -> Answer:
        refusal = self._auth.identify(request, self._clock_ms() / 1000)
        if refusal is not None:
            return refusal
        if not request.grant.allows_some(Action.WRITE):
            return problems.WRITING_FORBIDDEN
        return self._post_many(request)

    def _access(self, request: Request) -> Answer:
        refusal = self._auth.identify(request, self._clock_ms() / 1000)
        if refusal is not None:
            return refusal
        return _json(msgspec.json.encode(access_of(request.grant, parse_access(Query(request.query)))))

    def _for_admins(self, show: Callable[[Request], Reply]) -> Callable[[Request], Answer]:
        def answer(request: Request) -> Answer:
            refusal = self._auth.identify(request, self._clock_ms() / 1000)
            return refusal or refuse(request.grant, Action.ADMIN, "/") or show(request)

        return answer

    def _server(self, _request: Request) -> Reply:
        return _json(self._overview.facts(self._clock_ms()))

    def _history(self, request: Request) -> Reply:
        after_ms = parse_history(Query(request.query))
        return _json(self._overview.samples(after_ms, self._clock_ms()))

    def metrics_reply(self) -> Reply:
        """Return all metrics."""
        return Reply(200, [(headers.CONTENT_TYPE, metrics.CONTENT_TYPE), _NO_STORE], self._metrics.text())

    def health_reply(self) -> Reply:
        """Report that the process responds."""
        return _status("ok", ready=True)

    def readiness_reply(self) -> Reply:
        """Report whether appends are accepted."""
        if self._live.draining:
            return _status("draining", ready=False)
        failure = self._store.failure
        return _status("ready", ready=True) if failure is None else _status(failure, ready=False)


def _status(status: str, *, ready: bool) -> Reply:
    if not ready:
        return problems.not_ready(status)
    return _json(msgspec.json.encode({"status": status}))


def _json(body: bytes) -> Reply:
    return Reply(200, [_JSON, _NO_STORE], body)
