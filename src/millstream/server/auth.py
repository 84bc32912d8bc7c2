"""Authorization: may this request do this to that stream?

Without keys a server is open, which is only for loopback: `check_exposure` refuses anything else. With
keys, every request carries a token, as `Authorization: Bearer`, and each route asks for what it needs:

        GET, HEAD          read      of the stream
        PUT                write     of the stream, and read of the source that it forks
        POST, DELETE       write     of the stream
        listing            read      names that may not be read are left out

OPTIONS asks for nothing: browsers send it without credentials.
"""

import ipaddress
from collections import OrderedDict
from pathlib import Path

from millstream.protocol.replies import Reply, problem
from millstream.server.grants import Action, Grant
from millstream.server.http import Request
from millstream.server.settings import Settings, SettingsError
from millstream.server.tokens import Key, Keyring, jwks_keys, pem_key, secret_key

_VERIFIED_TOKENS = 4096
_CHALLENGE = (b"www-authenticate", b'Bearer realm="millstream"')


class Auth:
    """Who may do what on this server."""

    def __init__(self, keyring: Keyring) -> None:
        self.is_open = not keyring
        """Whether everybody may do everything."""
        self._keyring = keyring
        self._verified: OrderedDict[bytes, Grant] = OrderedDict()

    def identify(self, request: Request, now_s: float) -> Reply | None:
        """Find out what a request may do and write it on the request; or refuse it."""
        if self.is_open:
            return None
        scheme, _, token = request.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not token:
            return _unauthorized("MISSING_TOKEN", "Send a token as Authorization: Bearer.")
        granted = self._verify(token.strip(), now_s)
        if granted is None:
            return _unauthorized("INVALID_TOKEN", "The token is not valid, or not valid now.")
        request.grant = granted
        return None

    def _verify(self, token: bytes, now_s: float) -> Grant | None:
        """Verify a token; one that was good a moment ago is good until it expires."""
        granted = self._verified.get(token)
        if granted is not None:
            if granted.expires_s is None or now_s < granted.expires_s:
                return granted
            del self._verified[token]
        granted = self._keyring.verify(token.decode("latin-1"))
        if granted is not None:
            self._verified[token] = granted
            if len(self._verified) > _VERIFIED_TOKENS:
                self._verified.popitem(last=False)
        return granted


def refuse(granted: Grant, action: Action, name: str) -> Reply | None:
    """Refuse an action that a grant does not cover."""
    if granted.allows(action, name):
        return None
    return problem(403, "FORBIDDEN", f"The token does not allow to {action.value} this stream.")


def open_auth(settings: Settings) -> Auth:
    """Load the keys that the settings name."""
    keys: list[Key] = []
    if settings.auth_secret:
        keys.append(secret_key(settings.auth_secret))
    if settings.auth_key:
        keys.append(pem_key(Path(settings.auth_key)))
    if settings.auth_jwks:
        keys += jwks_keys(Path(settings.auth_jwks))
    return Auth(Keyring(keys))


def check_exposure(settings: Settings, auth: Auth) -> None:
    """Refuse to serve other machines without tokens, unless told that this is meant."""
    if auth.is_open and not settings.insecure and not _is_loopback(settings.host):
        raise SettingsError(
            f"--host {settings.host}: without tokens, millstream serves this machine only. Give "
            "--auth-secret, --auth-key or --auth-jwks, or --insecure if everybody may do everything."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _unauthorized(code: str, detail: str) -> Reply:
    return problem(401, code, detail, [_CHALLENGE])
