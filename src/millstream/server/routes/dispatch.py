"""Dispatch: which route answers a request, and whether it may.

Every request goes the same way: its host, what its path names, limits and authorization where there are
any, then the route of its method. Streams are answered by `reads` and `writes`, the server's own paths by
`control`.
"""

import contextlib
from collections.abc import Callable
from functools import lru_cache

from millstream.protocol import headers, problems
from millstream.protocol.errors import RequestError
from millstream.protocol.http import Reply
from millstream.protocol.names import (
    RESERVED,
    STREAM_ROOTS,
    below_mount,
    control_path,
    is_reserved,
    parse_name,
)
from millstream.protocol.queries import Query
from millstream.protocol.replies import reply_to
from millstream.protocol.requests import parse_access
from millstream.protocol.streams import NotFound
from millstream.protocol.subscriptions.requests import FOLDER, SETTLING, parse_target
from millstream.server.access import cors
from millstream.server.access.admission import Admission
from millstream.server.access.auth import Auth, keep_private
from millstream.server.access.grants import Action
from millstream.server.access.limits import Limits
from millstream.server.access.origins import Origins
from millstream.server.anycable.reads import Reads as AnyCableReads
from millstream.server.deliveries.delivery_metrics import DeliveryMetrics
from millstream.server.deliveries.sending import Deliveries
from millstream.server.live.readers import LiveReaders
from millstream.server.request import Answer, Request
from millstream.server.routes.control import Control
from millstream.server.routes.deletions import Deletions
from millstream.server.routes.listing import CursorSeal, Listing
from millstream.server.routes.pages import at_root
from millstream.server.routes.reads import ReadRoutes
from millstream.server.routes.subscriptions import SubscriptionRoutes
from millstream.server.routes.writes import WriteRoutes, failed
from millstream.server.settings import Settings
from millstream.server.telemetry.engine_metrics import EngineMetrics, SizeWatch
from millstream.server.telemetry.latencies import CONTROL
from millstream.server.telemetry.metrics import Labelled, Metrics
from millstream.server.telemetry.overview import Overview
from millstream.server.webhooks.policies import webhook_policy
from millstream.store.base import Store
from millstream.store.pending import when

_ACTIONS = {
    b"GET": Action.READ,
    b"HEAD": Action.READ,
    b"PUT": Action.WRITE,
    b"POST": Action.WRITE,
    b"PATCH": Action.WRITE,
    b"DELETE": Action.WRITE,
}
_CONTROL_ACTIONS = {
    "streams": Action.READ,
    "events": Action.READ,
    "parts": Action.WRITE,
    "access": Action.READ,
    "subscriptions": Action.READ,
    "keys/rotate": Action.ADMIN,
    "metrics": Action.ADMIN,
    "server": Action.ADMIN,
    "history": Action.ADMIN,
}
_COUNTED_CONTROLS = tuple(
    path.partition("/")[0] for path in _CONTROL_ACTIONS
)  # what costs something; whether the server lives, all may ask
_KEPT_PLACES = 8192

Route = Callable[[str, Request], Answer]


class Routes:
    """Everything that the server answers."""

    def __init__(self, store: Store, settings: Settings, auth: Auth, clock_ms: Callable[[], int]) -> None:
        self.store = store
        self._path = settings.path
        self.live = LiveReaders(store, settings, clock_ms)
        self.metrics = Metrics()
        self.metrics.watch("ds_poll_clients_num", "Long-polls that wait now.", lambda: len(self.live.polls))
        self.metrics.watch(
            "ds_sse_clients_num", "Event streams that are open now.", lambda: len(self.live.feeds)
        )
        self.metrics.watch("millstream_readers", "Live readers now.", self._readers, label="mode")
        self.metrics.watch("millstream_streams", "Streams, also those kept for forks.", store.count_streams)
        sizes = SizeWatch(store)
        self.metrics.include(EngineMetrics(store, sizes))
        self.overview = Overview(self.live, self.metrics, sizes, clock_ms())
        self.deliveries = Deliveries(store, clock_ms)
        self.metrics.include(DeliveryMetrics(store, self.deliveries, clock_ms))
        self._clock_ms = clock_ms
        seal = CursorSeal()
        self._listing = Listing(store, seal, clock_ms)
        self._deletions = Deletions(store, seal, clock_ms)
        self.admission = Admission(store, settings)
        self._reads = ReadRoutes(store, self.live, self.metrics, clock_ms)
        self._writes = WriteRoutes(store, self.admission, self.metrics, settings.path, clock_ms)
        self._anycable_reads = AnyCableReads(self.live, self.metrics, self._reads.coded)
        self.place = lru_cache(_KEPT_PLACES)(self._find_place)
        """Finds what a path names, and who answers there if it is not a stream."""
        self.adopt(settings, auth)
        self._methods: dict[bytes, Route] = {
            b"POST": self._writes.append,
            b"GET": self._reads.read,
            b"HEAD": self._reads.head,
            b"PUT": self._writes.create,
            b"PATCH": self._writes.configure,
            b"DELETE": self._writes.delete,
            b"OPTIONS": lambda _name, _request: cors.preflight(),
        }

    def adopt(self, settings: Settings, auth: Auth) -> None:
        """Go on with other settings and keys; where streams live stays as it was."""
        self.settings = self.live.settings = self._reads.settings = settings
        self.auth = auth
        self.cors = cors.Cors(settings.cors_origin)
        self._origins = Origins(settings, is_open=auth.is_open, by_application=auth.by_application)
        self._checks_host, self._accepted_hosts = self._origins.checks_host, self._origins.accepted_hosts
        self.deliveries.policy = webhook_policy(settings, is_open=auth.is_open)
        self.deliveries.timeout_s = settings.webhook_timeout_s
        self.store.subscriptions.registry.max_subscriptions = settings.max_subscriptions
        self.controls = Control(
            self.store,
            self.live,
            auth,
            self._listing,
            self._deletions,
            self._writes.post_many,
            self._origins,
            self.metrics,
            self.overview,
            SubscriptionRoutes(self.store, settings, auth, self._origins, self.deliveries, self._clock_ms),
            self._clock_ms,
        )
        self._writes.adopt(settings, self._origins)
        self._limits = Limits(settings)
        self.is_guarded = self._limits.are_on or not auth.is_open
        """Whether anybody may be refused for who he is, or for how often he asks."""
        self.place.cache_clear()
        self.live.responses.clear()  # they depend on the settings

    async def close(self) -> None:
        """Stop the threads; what they work on is finished."""
        await self._writes.close()
        await self._reads.close()

    def _readers(self) -> Labelled:
        return {"long-poll": len(self.live.polls), "sse": len(self.live.feeds)}

    def refuse_head(self, request: Request) -> Reply | None:
        """Refuse a request with a large body by its head, before the body fills memory."""
        try:
            name, elsewhere = self.place(request.path, request.mount)
            refusal = self._origins.refuse_host(request) if self._checks_host else None
            if elsewhere == self._control and (places := _control_places(name)):
                return refusal or self.controls.refuse_body(*places[0], request)
            if elsewhere is not None or request.method not in (b"PUT", b"POST"):
                return problems.UNEXPECTED_BODY
            if refusal is None and self.is_guarded:
                refusal = self._refuse_caller(name, request)
            return refusal or self._origins.refuse_write(request) or self.admission.refusal()
        except RequestError as error:
            return problems.malformed(error)
        except Exception as error:
            return failed(error)

    def permissions(self, request: Request) -> list[tuple[Action, str]]:
        """List what a request needs: actions on streams, or on paths of the server's own."""
        try:
            name, elsewhere = self.place(request.path, request.mount)
        except RequestError:
            return []  # it is refused for its path
        if elsewhere is not None and elsewhere != self._anycable:
            return [
                needed
                for path, root in _control_places(name)
                for needed in _control_needs(path, root, name, request.method)
            ]
        needed = [(_ACTIONS[request.method], name)] if request.method in _ACTIONS else []
        source = request.headers.get(headers.STREAM_FORKED_FROM) if request.method == b"PUT" else None
        if source is not None:
            with contextlib.suppress(RequestError):  # the route refuses it with its reason
                needed.append((Action.READ, below_mount(parse_name(source), request.mount + self._path)))
        return needed

    def questions(self, request: Request) -> list[tuple[Action, str]]:
        """List the actions that a request of `__ds/access` asks about; it needs none of them."""
        try:
            name, elsewhere = self.place(request.path, request.mount)
            if (
                elsewhere is None
                or elsewhere == self._anycable
                or "access" not in dict(_control_places(name))
            ):
                return []
            return [(action, parse_access(Query(request.query)) or name) for action in Action]
        except RequestError:
            return []  # it is refused for its path or its query

    def refused(self, client: bytes, reply: Reply) -> None:
        """Take note of an answer to what never became a whole request."""
        self.metrics.count(reply.status)

    def handle(self, request: Request) -> Answer:
        """Answer a request; whatever goes wrong becomes a reply."""
        try:
            if self._checks_host and request.headers.get(b"host") not in self._accepted_hosts:
                refusal = self._origins.refuse_host(request)
                if refusal is not None:
                    return refusal
            name, elsewhere = self.place(request.path, request.mount)
            if elsewhere is not None:
                request.route = CONTROL
                return elsewhere(name, request)
            route = self._methods.get(request.method)
            if route is None:
                return problems.method_not_allowed(cors.METHODS)
            if self.is_guarded:
                return self._guarded(route, name, request)
            return route(name, request)
        except RequestError as error:
            return problems.malformed(error)
        except Exception as error:
            return failed(error)

    def _find_place(self, path: bytes, mount: str) -> tuple[str, Route | None]:
        name = parse_name(path)
        anycable = self._below_anycable(name, mount)
        if anycable is not None:
            return anycable, self._anycable
        name = below_mount(name, mount + self._path)
        if name == "/":
            return name, lambda _name, request: at_root(request)
        return name, self._control if is_reserved(name, STREAM_ROOTS) else None

    def _guarded(self, route: Route, name: str, request: Request) -> Answer:
        """Answer who may ask this, and not too often."""
        refusal = self._refuse_caller(name, request)
        if refusal is not None:
            return refusal
        answer = route(name, request)
        if request.token or request.is_identified:
            answer = when(answer, keep_private)
        return when(answer, request.rates.written_on) if request.rates else answer

    def _refuse_caller(self, name: str, request: Request) -> Reply | None:
        """Refuse who asks too often, or may not do this; a request whose head was checked counts once."""
        counted = request.rates
        rates = counted if counted is not None else self._limits.by_address(request.client)
        refusal = rates.refusal
        if refusal is None and request.method in _ACTIONS and not self.auth.is_open:
            refusal = self.auth.authorize(request, _ACTIONS[request.method], name, self._clock_ms() / 1000)
            if refusal is None and counted is None:
                rates = rates.and_then(self._limits.by_token(request.token))
                refusal = rates.refusal
        request.rates = rates
        return rates.added_to(refusal) if refusal is not None else None

    # -- AnyCable --------------------------------------------------------------------------------

    def _below_anycable(self, name: str, mount: str) -> str | None:
        prefix = mount + self.settings.anycable_path
        return name[len(prefix) :] if self.settings.anycable and name.startswith(prefix + "/") else None

    def _anycable(self, name: str, request: Request) -> Answer:
        if request.method == b"OPTIONS":
            return cors.preflight()
        if request.method not in (b"GET", b"HEAD"):
            return problems.method_not_allowed(b"GET, HEAD, OPTIONS")
        request.route = b""
        if name == "/" or is_reserved(name, STREAM_ROOTS):
            return reply_to(NotFound(name))
        answer = self._guarded(self._anycable_reads.answer, name, request)
        if isinstance(answer, Reply) and problems.is_forbidden(answer):
            return problems.UNREADABLE_BY_TOKEN
        return answer

    # -- Control APIs ----------------------------------------------------------------------------

    def _control(self, name: str, request: Request) -> Answer:
        places = _control_places(name)
        handlers = self.controls.find(*places[0]) if places else {}
        if not handlers:
            return problems.nothing_at(name)
        if request.method == b"OPTIONS":
            return cors.preflight()
        route = handlers.get(request.method)
        if route is None:
            return problems.method_not_allowed(b", ".join([*handlers, b"OPTIONS"]))
        if self._limits.are_on and places[0][0].partition("/")[0] in _COUNTED_CONTROLS:
            rates = self._limits.by_address(request.client)
            return when(rates.refusal or route(request), rates.written_on)
        return route(request)


def _control_needs(path: str, root: str, name: str, method: bytes) -> list[tuple[Action, str]]:
    """List what a request to a control path needs; a subscription is a path of its own, where it is."""
    target = parse_target(path)
    if target is not None:
        own = f"{root}{RESERVED}/{FOLDER}/{target.id}"
        is_read = method in (b"GET", b"HEAD")
        return [] if target.action in SETTLING else [(Action.READ if is_read else Action.WRITE, own)]
    if path not in _CONTROL_ACTIONS:
        return []
    return [(Action.WRITE if method == b"DELETE" else _CONTROL_ACTIONS[path], name)]


def _control_places(name: str) -> list[tuple[str, str]]:
    """Give the control path in a name, and the stream root that it is below."""
    return [(path, root) for root in STREAM_ROOTS if (path := control_path(name, root)) is not None]
