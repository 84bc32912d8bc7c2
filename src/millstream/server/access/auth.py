"""Authorization: may this request do this to that stream?

A server without keys is open to everybody; `check_exposure` allows that on loopback only, and `origins`
keeps web pages out. With keys, every request carries a token as `Authorization: Bearer`, and each route
requires a permission:

        GET, HEAD          read      of the stream
        PUT                write     of the stream, and read of the source that it forks
        POST, PATCH,       write     of the stream
        DELETE
        listing            read      streams that the token may not read are left out
        deletion of many   write     streams that the token may not write are left alone

GET and HEAD of a stream may carry AnyCable's credentials instead, see `anycable.authorization`.
OPTIONS requires nothing: browsers send it without credentials.
"""

import logging
from collections import OrderedDict
from pathlib import Path

from millstream.protocol import caching, problems
from millstream.protocol.http import Reply
from millstream.server.access.grants import Action, Grant
from millstream.server.access.origins import is_loopback
from millstream.server.access.tokens import Invalid, Key, Keyring, jwks_keys, pem_key, secret_key
from millstream.server.anycable.authorization import Readers
from millstream.server.live.feeds import EventFeed
from millstream.server.request import Request
from millstream.server.settings import Settings, SettingsError

_VERIFIED_TOKENS = 4096
_SHORT_SECRET_BYTES = 16

_log = logging.getLogger("millstream")


class Auth:
    """Verifies tokens, and decides what each request may do."""

    def __init__(
        self, keyring: Keyring, readers: Readers | None = None, *, by_application: bool = False
    ) -> None:
        self._readers = readers if readers is not None and readers.are_enabled else None
        self.by_application = by_application
        """Whether the application around this server decides first (`asgi.access`)."""
        self.is_open = not keyring and self._readers is None and not by_application
        """Whether requests need no token."""
        self.reads_are_open = self.is_open or (self._readers is not None and self._readers.admit_everybody)
        """Whether reads need no credentials."""
        self._keyring = keyring
        self.has_keys = bool(keyring)
        """Whether tokens are accepted."""
        self._verified: OrderedDict[bytes, Grant] = OrderedDict()

    def authorize(self, request: Request, action: Action, name: str, now_s: float) -> Reply | None:
        """Refuse what a request may not do; AnyCable's rules apply to reads without a Bearer token."""
        if request.is_identified:
            return refuse(request.grant, action, name)
        by_bearer = self._keyring and bearer(request)
        if action is Action.READ and self._readers is not None and not by_bearer:
            return self._readers.identify(request, name, now_s)
        return self.identify(request, now_s) or refuse(request.grant, action, name)

    def identify(self, request: Request, now_s: float) -> Reply | None:
        """Set the request's grant from its token, or refuse the request."""
        if self.is_open or request.is_identified:
            return None
        token = bearer(request)
        if not token:
            return problems.missing_token("a token as Authorization: Bearer")
        granted = self._verify(token, now_s)
        if isinstance(granted, Invalid):
            return problems.invalid_token(granted.reason)
        request.grant, request.token = granted, token
        return None

    def _verify(self, token: bytes, now_s: float) -> Grant | Invalid:
        """Verify a token; a verified one is cached until it expires."""
        known = self._verified.get(token)
        if known is not None:
            if known.expires_s is None or now_s < known.expires_s:
                return known
            del self._verified[token]
        granted = self._keyring.verify(token.decode("latin-1"))
        if isinstance(granted, Grant):
            self._verified[token] = granted
            if len(self._verified) > _VERIFIED_TOKENS:
                self._verified.popitem(last=False)
        return granted


def bearer(request: Request) -> bytes:
    """Give the token that a request carries; empty when it carries none."""
    scheme, _, token = request.headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def refuse(granted: Grant, action: Action, name: str) -> Reply | None:
    """Refuse an action that a grant does not cover."""
    if granted.allows(action, name):
        return None
    return problems.forbidden(action.value, [str(scope) for scope in granted.scopes])


def keep_private(answer: Reply | EventFeed) -> Reply | EventFeed:
    """Forbid caches to store what needed a token: they would serve it without one (rule G6)."""
    if isinstance(answer, Reply):
        return _with_cache_control(answer, caching.FOR_A_TOKEN)
    answer.head = _with_cache_control(answer.head, caching.EVENT_STREAM_FOR_A_TOKEN)
    return answer


def _with_cache_control(reply: Reply, value: bytes) -> Reply:
    if (b"cache-control", value) in reply.headers:
        return reply
    others = [field for field in reply.headers if field[0] != b"cache-control"]
    return Reply(reply.status, [*others, (b"cache-control", value)], reply.body)


def open_auth(settings: Settings, *, by_application: bool = False) -> Auth:
    """Load the keys that the settings name."""
    keys: list[Key] = []
    if settings.auth_secret:
        keys.append(secret_key(settings.auth_secret, "auth_secret"))
    if settings.auth_secret_old:
        keys.append(secret_key(settings.auth_secret_old, "auth_secret_old"))
    if settings.auth_key:
        keys.append(pem_key(Path(settings.auth_key)))
    if settings.auth_jwks:
        keys += jwks_keys(Path(settings.auth_jwks))
    if 0 < len(settings.anycable_secret.encode()) < _SHORT_SECRET_BYTES:
        _log.warning("anycable_secret is shorter than %d bytes: it can be guessed.", _SHORT_SECRET_BYTES)
    return Auth(Keyring(keys), Readers(settings), by_application=by_application)


def check_exposure(settings: Settings, auth: Auth) -> None:
    """Refuse to serve other machines without tokens, unless `--insecure` says so."""
    if auth.is_open and not settings.insecure and not is_loopback(settings.host):
        raise SettingsError(
            f"--host {settings.host}: without tokens, millstream serves this machine only. Give "
            "--auth-secret, --auth-key or --auth-jwks, or --insecure if everybody may do everything."
        )


def check_not_opened(before: Auth, after: Auth) -> None:
    """Refuse to drop access control from a running server: a cut-off file looks the same as that wish."""
    if after.is_open and not before.is_open:
        raise SettingsError("no secret or key is left: to serve without tokens, restart the server.")
    if after.reads_are_open and not before.reads_are_open:
        raise SettingsError(
            "public_streams and skip_auth would let everybody read: for that, restart the server."
        )
