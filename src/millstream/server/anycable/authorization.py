"""Authorization of AnyCable's clients, which may read streams and nothing else. Two things are required:

        authentication   a JWT, as `X-JID` or the parameter `jid`              or --skip-auth
        permission       the stream's signed name, as the parameter            or --public-streams
                         `signed` or the header `X-Signed`

The signed name must be that of the requested stream. One that is sent is verified even where it is not
required.
"""

from collections import OrderedDict

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.protocol.queries import Query
from millstream.server.access.grants import Action, Grant, Scope
from millstream.server.anycable.credentials import Client, jwt_keyring, path_of, verify_jwt, verify_name
from millstream.server.request import Request
from millstream.server.settings import Settings

_VERIFIED_CLIENTS = 4096


class Readers:
    """Decides which requests may read by AnyCable's rules."""

    def __init__(self, settings: Settings) -> None:
        self._secret = settings.anycable_secret.encode()
        self._keyring = jwt_keyring(settings.anycable_secret)
        self._public_streams = settings.public_streams
        self._skip_auth = settings.skip_auth
        self._clients: OrderedDict[bytes, Client] = OrderedDict()
        self.are_enabled = bool(self._secret) or settings.public_streams
        """Whether the settings let anybody read by these rules."""
        self.admit_everybody = settings.public_streams and settings.skip_auth
        """Whether reads need no credentials at all."""

    def identify(self, request: Request, name: str, now_s: float) -> Reply | None:
        """Set the request's grant from its credentials, or refuse the request."""
        query = Query(request.query)
        expires_s = None
        if not self._skip_auth:
            token = request.headers.get(b"x-jid") or query.one(b"jid") or b""
            client = self._client(token, now_s)
            if client is None:
                return _refuse(token, "a JWT as X-JID or the parameter jid")
            request.token, expires_s = token, client.expires_s
        signed = query.one(b"signed") or request.headers.get(b"x-signed") or b""
        if signed:
            verified = verify_name(self._secret, signed)
            if verified is None or path_of(verified) != name:
                return problems.INVALID_SIGNED_NAME
            request.token = request.token or signed
            request.grant = Grant((Scope(Action.READ, name, exact=True),), expires_s)
        elif self._public_streams:
            request.grant = Grant((Scope(Action.READ),), expires_s)
        else:
            return _refuse(b"", "the stream's signed name as the parameter signed or as X-Signed")
        return None

    def _client(self, token: bytes, now_s: float) -> Client | None:
        """Verify a JWT; a verified one is cached until it expires."""
        client = self._clients.get(token)
        if client is not None:
            if client.expires_s is None or now_s < client.expires_s:
                return client
            del self._clients[token]
        client = verify_jwt(self._keyring, token) if token else None
        if client is not None:
            self._clients[token] = client
            if len(self._clients) > _VERIFIED_CLIENTS:
                self._clients.popitem(last=False)
        return client


def _refuse(token: bytes, missing: str) -> Reply:
    return problems.INVALID_TOKEN if token else problems.missing_token(missing)
