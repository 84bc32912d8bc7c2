"""Who may use the streams of an ASGI application.

The ASGI server listens, so `settings.host` says nothing about who can connect. Three rules, the first
that applies:

        authorize    a function of the application decides about each action on each stream. It returns
                     True or False; what the client may do at all, as a `Grant` or as scopes in a string
                     ("read:/chat/**"); or None, which leaves the decision to the client's token
        tokens       with a key in the settings, every request carries a token (`access.auth`)
        neither      only clients on this machine are answered, unless `insecure` is set

A proxy on this machine connects from this machine. Its clients do not, so a request with a header that
proxies add counts as one from elsewhere, whatever address it states.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.protocol.names import STREAM_ROOTS, is_reserved
from millstream.server.access.grants import Action, Grant, Scope, parse_scopes
from millstream.server.access.origins import is_loopback
from millstream.server.request import Request
from millstream.server.routes.dispatch import Routes

AsgiScope = MutableMapping[str, Any]

Decision = bool | str | Grant | None
Authorize = Callable[[AsgiScope, str, str], Decision | Awaitable[Decision]]
"""Called with the scope of the connection, a stream's path and "read", "write" or "admin"."""

_FORWARDING: Final = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
_TEST_CLIENT: Final = "testclient"  # the address that Starlette's and FastAPI's TestClient states

_log = logging.getLogger("millstream")


class Gate:
    """Refuses requests by who sent them, before their bodies are read."""

    def __init__(self, authorize: Authorize | None, *, insecure: bool) -> None:
        self._authorize = authorize
        self._insecure = insecure
        self._has_warned = False

    async def refuse(self, routes: Routes, scope: AsgiScope, request: Request) -> Reply | None:
        """Refuse a request, or set its grant if the application decides."""
        needed = routes.permissions(request)
        if not needed:
            return None
        if self._authorize is not None:
            try:
                return await self._ask(self._authorize, routes, scope, request, needed)
            except Exception:
                _log.exception("authorize= of MillstreamApp failed; the request is refused")
                return problems.INTERNAL_ERROR
        if not routes.auth.is_open or self._insecure or is_local(scope, request.headers):
            return None
        if not self._has_warned:
            self._has_warned = True
            _log.warning("refused a client on another machine: without tokens, this machine only is answered")
        return problems.NOT_LOCAL

    async def _ask(
        self,
        authorize: Authorize,
        routes: Routes,
        scope: AsgiScope,
        request: Request,
        needed: list[tuple[Action, str]],
    ) -> Reply | None:
        """Ask for each action that is needed; a question about access is answered by what is allowed."""
        granted = Grant(())
        questions = routes.questions(request)
        for action, path in questions or needed:
            if _suffices(granted, action, path):
                continue
            decision = authorize(scope, path, action.value)
            if inspect.isawaitable(decision):
                decision = await decision
            if decision is None and routes.auth.has_keys:
                return None
            granted = _joined(granted, _as_grant(decision, action, path))
            if not questions and not _suffices(granted, action, path):
                return problems.not_authorized(action.value)
        request.grant, request.is_identified = granted, True
        return None


def _as_grant(decision: object, action: Action, path: str) -> Grant:
    """Turn what the application returned into a grant; anything unexpected is an error, never a yes."""
    match decision:
        case True:
            return Grant((Scope(action) if _is_own(path) else Scope(action, path, exact=True),))
        case False | None:
            return Grant(())
        case str():
            scopes = parse_scopes(decision)
            if len(scopes) != len(decision.split()):
                raise ValueError(f"authorize returned {decision!r}, which is not a list of scopes.")
            return Grant(scopes)
        case Grant():
            return decision
    raise TypeError(f"authorize returned {decision!r}: expected True, False, None, scopes or a Grant.")


def _suffices(granted: Grant, action: Action, path: str) -> bool:
    return granted.allows_some(action) if _is_own(path) else granted.allows(action, path)


def _is_own(path: str) -> bool:
    """Tell whether a path is the server's own: its listing shows what the grant covers."""
    return is_reserved(path, STREAM_ROOTS)


def _joined(first: Grant, second: Grant) -> Grant:
    ends = [end for end in (first.expires_s, second.expires_s) if end is not None]
    return Grant((*first.scopes, *second.scopes), min(ends, default=None))


def is_local(scope: AsgiScope, headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether a request comes from this machine, as far as the ASGI server knows."""
    if any(name in headers for name in _FORWARDING):
        return False
    client, server = scope.get("client"), scope.get("server")
    if client is None:  # a socket in the file system has no address; ASGI says so by a server without a port
        return server is not None and server[1] is None
    return client[0] == _TEST_CLIENT or is_loopback(client[0])
