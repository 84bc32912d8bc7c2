"""Subscriptions over HTTP: `__ds/subscriptions/...`, `__ds/jwks.json`, `__ds/keys/rotate`.

A subscription is authorized as the path of its own, so that scopes can name it:

        GET                                        read    of {root}__ds/subscriptions/{id}
        PUT, DELETE, POST streams, claim, retry    write   of it
        PUT, POST streams                          read    of the streams that they add
        PUT of a pull-wake subscription            write   of its wake stream: the server appends to it
        POST ack, callback, release                        the token of the claim or the webhook, nothing else
        GET jwks.json                                      nothing: it is for receivers of webhooks
        POST keys/rotate                           admin

All refusals have the form that the protocol has for these routes (`protocol.subscriptions.problems`).

PROTOCOL.md 6, 7; rules S1 to S4.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

from millstream.protocol import headers, problems, signatures
from millstream.protocol.errors import RequestError
from millstream.protocol.http import Reply
from millstream.protocol.names import RESERVED
from millstream.protocol.queries import Query
from millstream.protocol.requests import location
from millstream.protocol.streams import Unstored
from millstream.protocol.subscriptions import answers, requests
from millstream.protocol.subscriptions.answers import Shown, Signing
from millstream.protocol.subscriptions.configurations import (
    Configuration,
    check_id,
    parse_configuration,
    parse_path,
)
from millstream.protocol.subscriptions.keys import Keys, published
from millstream.protocol.subscriptions.problems import (
    INVALID_TOKEN,
    NOT_READABLE,
    TOO_LARGE,
    as_error,
    malformed,
    refused,
    rejected_url,
)
from millstream.protocol.subscriptions.requests import SETTLING, Target, parse_target
from millstream.protocol.subscriptions.states import Subscription
from millstream.protocol.subscriptions.tokens import Claim, read_claim
from millstream.protocol.webhook_targets import Rejected, check_target
from millstream.server.access.auth import Auth, bearer, refuse
from millstream.server.access.grants import Action, Grant
from millstream.server.access.origins import Origins
from millstream.server.deliveries.sending import Deliveries
from millstream.server.deliveries.signing import new_keys, new_signing_key
from millstream.server.request import Answer, Request
from millstream.server.routes.writes import failed
from millstream.server.settings import Settings
from millstream.store.base import Store
from millstream.store.pending import when
from millstream.store.subscriptions.registry import Registered, Removed, RosterPage
from millstream.store.subscriptions.working import Claimed, Settled

Handler = Callable[[Request], Answer]

JWKS = "jwks.json"
ROTATE = "keys/rotate"


class SubscriptionRoutes:
    """Answers requests about subscriptions."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        auth: Auth,
        origins: Origins,
        deliveries: Deliveries,
        clock_ms: Callable[[], int],
    ) -> None:
        self._subscriptions = store.subscriptions
        self._registry, self._working = store.subscriptions.registry, store.subscriptions.working
        self._settings = settings
        self._auth = auth
        self._origins = origins
        self._deliveries = deliveries
        self._clock_ms = clock_ms

    def find(self, path: str, root: str) -> dict[bytes, Handler]:
        """Find the handlers for a path below `__ds` of a root, by method; none if it is not of these."""
        if path == JWKS:
            return _shows(lambda _request: self._jwks())
        if path == ROTATE:
            return {b"POST": self._guarded(self._rotate)}
        if path == requests.FOLDER:
            return _shows(self._guarded(self._list))
        target = parse_target(path)
        if target is None:
            return {}
        found = {
            "": {b"PUT": self._put, b"DELETE": self._delete, **_shows(self._get)},
            "streams": {b"DELETE": self._unlink} if target.path else {b"POST": self._link},
            "claim": {b"POST": self._claim},
            "retry": {b"POST": self._retry},
        } | {action: {b"POST": self._settle} for action in SETTLING}
        return {
            method: self._guarded(partial(handler, target, root))
            for method, handler in found[target.action].items()
        }

    def refuse_body(self, path: str, root: str, request: Request) -> Reply | None:
        """Refuse a large body by the head of its request: of a stranger, or where none is expected."""
        target = parse_target(path)
        if target is None or request.method not in (b"PUT", b"POST"):
            return as_error(problems.UNEXPECTED_BODY)
        if int(request.headers.get(b"content-length") or 0) > requests.MAX_BODY_BYTES:
            return TOO_LARGE
        if target.action in SETTLING:
            return INVALID_TOKEN if self._read_token(request, root + target.id) is None else None
        return _as_error(self._auth.identify(request, self._clock_ms() / 1000))

    def _guarded(self, handler: Handler) -> Handler:
        """Let a refusal of any kind have the form of these routes."""

        def answer(request: Request) -> Answer:
            if len(request.body) > requests.MAX_BODY_BYTES:
                return TOO_LARGE
            try:
                is_write = request.method not in (b"GET", b"HEAD")
                refusal = self._origins.refuse_write(request) if is_write else None
                return as_error(refusal) if refusal is not None else handler(request)
            except RequestError as error:
                return malformed(error)
            except Exception as error:
                return as_error(failed(error))

        return answer

    def _refuse(self, request: Request, action: Action, *names: str) -> Reply | None:
        """Refuse what a token does not allow."""
        refusal = self._auth.identify(request, self._clock_ms() / 1000)
        for name in names:
            refusal = refusal or refuse(request.grant, action, name)
        return _as_error(refusal)

    # -- Subscriptions ---------------------------------------------------------------------------

    def _put(self, target: Target, root: str, request: Request) -> Answer:
        check_id(target.id)
        refusal = self._refuse(request, Action.WRITE, _path_of(root, target.id))
        if refusal is not None:
            return refusal
        asked = parse_configuration(request.body, root)
        refusal = self._refuse_configuration(request, asked)
        if refusal is not None:
            return refusal
        if asked.webhook_url is not None:
            checked = check_target(asked.webhook_url, self._deliveries.policy)
            if isinstance(checked, Rejected):
                return rejected_url(checked.reason)
        created = self._registry.create(
            target.id, root, asked, self._base_url(request, root, target.id), self._keys(), self._clock_ms()
        )
        return when(created, partial(self._registered, request))

    def _refuse_configuration(self, request: Request, asked: Configuration) -> Reply | None:
        grant = request.grant
        if asked.pattern is not None and not may_read_all(grant, asked.pattern):
            return NOT_READABLE
        refusal = self._refuse(request, Action.READ, *asked.streams)
        if refusal is None and asked.wake_stream is not None:
            refusal = self._refuse(request, Action.WRITE, asked.wake_stream)
        return refusal

    def _registered(self, request: Request, found: Any) -> Reply:
        if not isinstance(found, Registered):
            return refused(found)
        return answers.shown(found.shown, self._signing(request, found.shown), is_new=found.is_new)

    def _get(self, target: Target, root: str, request: Request) -> Answer:
        refusal = self._refuse(request, Action.READ, _path_of(root, target.id))
        if refusal is not None:
            return refusal

        def reply(found: Any) -> Reply:
            if not isinstance(found, Shown):
                return refused(found)
            return answers.shown(found, self._signing(request, found))

        return when(self._registry.read(root + target.id), reply)

    def _list(self, request: Request) -> Answer:
        refusal = self._refuse(request, Action.READ)
        if refusal is not None:
            return refusal
        asked = requests.parse_listing(Query(request.query))

        def may_read(one: Subscription) -> bool:
            return request.grant.allows(Action.READ, _path_of(one.root, one.id))

        def reply(page: RosterPage | Unstored) -> Reply:
            if not isinstance(page, RosterPage):
                return refused(page)
            shown = [(one, self._signing(request, one)) for one in page.shown]
            return answers.listed(shown, page.next_after)

        return when(self._registry.list(asked.after, asked.limit, may_read), reply)

    def _delete(self, target: Target, root: str, request: Request) -> Answer:
        refusal = self._refuse(request, Action.WRITE, _path_of(root, target.id))
        return refusal or when(self._registry.delete(root + target.id), _done)

    def _link(self, target: Target, root: str, request: Request) -> Answer:
        refusal = self._refuse(request, Action.WRITE, _path_of(root, target.id))
        if refusal is not None:
            return refusal
        names = requests.parse_members(request.body, root)
        refusal = self._refuse(request, Action.READ, *names)
        return refusal or when(self._registry.add_members(root + target.id, names), _done)

    def _unlink(self, target: Target, root: str, request: Request) -> Answer:
        refusal = self._refuse(request, Action.WRITE, _path_of(root, target.id))
        if refusal is not None:
            return refusal
        name = parse_path(target.path, root)
        return when(self._registry.remove_member(root + target.id, name), _done)

    # -- Workers ---------------------------------------------------------------------------------

    def _claim(self, target: Target, root: str, request: Request) -> Answer:
        refusal = self._refuse(request, Action.WRITE, _path_of(root, target.id))
        if refusal is not None:
            return refusal
        worker = requests.parse_claim(request.body)

        def reply(found: Any) -> Reply:
            return answers.claimed(found.shown, found.token) if isinstance(found, Claimed) else refused(found)

        return when(self._working.claim(root + target.id, worker, self._clock_ms()), reply)

    def _settle(self, target: Target, root: str, request: Request) -> Answer:
        claim = self._read_token(request, root + target.id)
        if claim is None:
            return INVALID_TOKEN
        asked = requests.parse_settling(request.body, root)
        settled = self._working.settle(root + target.id, target.action, claim, asked, self._clock_ms())

        def reply(found: Any) -> Reply:
            if not isinstance(found, Settled):
                return refused(found)
            is_release = target.action == "release"
            return answers.DONE if is_release else answers.settled(next_wake=found.next_wake)

        return when(settled, reply)

    def _retry(self, target: Target, root: str, request: Request) -> Answer:
        refusal = self._refuse(request, Action.WRITE, _path_of(root, target.id))
        return refusal or when(self._working.retry(root + target.id, self._clock_ms()), _done)

    def _read_token(self, request: Request, key: str) -> Claim | None:
        """Read the token of a claim; one of another subscription is none."""
        keys = self._subscriptions.keys
        claim = read_claim(bearer(request).decode("latin-1"), keys.token_key) if keys is not None else None
        return claim if claim is not None and claim.subscription == key else None

    # -- Keys ------------------------------------------------------------------------------------

    def _keys(self) -> Keys:
        return self._subscriptions.keys or new_keys()

    def _jwks(self) -> Answer:
        def reply(keys: Keys | Unstored) -> Reply:
            if not isinstance(keys, Keys):
                return refused(keys)
            cache = b"public, max-age=%d" % signatures.JWKS_MAX_AGE_S
            return Reply(
                200,
                [(headers.CONTENT_TYPE, signatures.JWKS_TYPE), (b"cache-control", cache)],
                signatures.jwk_set(key.public for key in published(keys, self._clock_ms())),
            )

        return when(self._registry.offer_keys(self._keys()), reply)

    def _rotate(self, request: Request) -> Answer:
        refusal = self._refuse(request, Action.ADMIN, "/")
        if refusal is not None:
            return refusal
        rotated = self._registry.rotate_keys(new_signing_key(), self._keys(), self._clock_ms())

        def reply(found: Keys | Unstored) -> Reply:
            if not isinstance(found, Keys):
                return refused(found)
            kid, *retired = [signatures.key_id(key.public) for key in found.signing]
            return answers.rotated(kid, retired)

        return when(rotated, reply)

    def _signing(self, request: Request, shown: Shown) -> Signing | None:
        keys = self._subscriptions.keys
        if not shown.subscription.is_webhook or keys is None:
            return None
        jwks_url = f"{self._control_url(request, shown.subscription.root)}/{JWKS}"
        return Signing(signatures.key_id(keys.active.public), jwks_url)

    def _base_url(self, request: Request, root: str, id: str) -> str:
        return f"{self._control_url(request, root)}/{requests.FOLDER}/{quote(id, safe='')}"

    def _control_url(self, request: Request, root: str) -> str:
        """Give the URL of `__ds`, as the client addresses this server."""
        path = quote(f"{request.mount}{self._settings.path}{root}{RESERVED}").encode()
        trusted = self._settings.trust_forwarded
        return location(request.headers, request.scheme, path, trust_forwarded=trusted).decode("latin-1")


def may_read_all(grant: Grant, pattern: str) -> bool:
    """Tell whether one scope allows to read every stream that a glob can match.

    The glob is matched as if it were a path. A star in it is matched by a star of the scope only, because no
    path has one; and its `**`, as no segment and as several, only by a `**` of the scope.
    """
    several = pattern.replace("**", "**/**/**")
    none = "/".join(part for part in pattern.split("/") if part != "**") or "/"
    forms = {several, none} if "**" in pattern else {pattern}
    return any(all(scope.covers(Action.READ, form) for form in forms) for scope in grant.scopes)


def _path_of(root: str, id: str) -> str:
    return f"{root}{RESERVED}/{requests.FOLDER}/{id}"


def _shows(handler: Any) -> dict[bytes, Any]:
    return {b"GET": handler, b"HEAD": handler}


def _done(found: Any) -> Reply:
    return answers.DONE if isinstance(found, Removed | Settled) else refused(found)


def _as_error(refusal: Reply | None) -> Reply | None:
    return as_error(refusal) if refusal is not None else None
