"""Web pages and servers without tokens: which names and which origins may be used.

A server without tokens serves its own machine only, see `auth.check_exposure`. But every web page that is
opened on this machine runs there too. With tokens that is harmless, because a page has none. Without them,
two checks keep pages out:

        Host      A page can point its own name to 127.0.0.1 (DNS rebinding), and the browser then takes
                  this server for the page's own. So `Host` must be a name of this machine, or be in
                  `allowed_hosts`. Not checked with `--insecure`, unless `allowed_hosts` is set, nor below
                  the mount of an ASGI application, which decides about names itself.

        Origin    A page can send a POST of `text/plain` anywhere, and is only kept from reading the answer.
                  So writes from other origins are refused, unless `cors_origin` names the origin: `*`
                  allows reads only.
"""

import ipaddress
import re
from typing import Final

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.request import Request
from millstream.server.settings import Settings

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]*)\]|([^\[\]:@/\s]*))(?::[0-9]*)?")
_MAX_ACCEPTED = 1024


class Hosts:
    """The values of `Host` by which a server without tokens may be called."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._any = "*" in allowed
        self._names = {"localhost", *(host_name(name) for name in allowed)}

    def admit(self, host: bytes) -> bool:
        """Tell whether a host names this machine, or is allowed."""
        name = host_name(host.decode("latin-1"))
        return self._any or name in self._names or is_loopback(name)


class Origins:
    """Decides which requests of web pages a server without tokens answers."""

    def __init__(self, settings: Settings, *, is_open: bool, by_application: bool = False) -> None:
        self._checks_origin = is_open or by_application  # an application may decide by a cookie
        self.checks_host = is_open and (not settings.insecure or bool(settings.allowed_hosts))
        """Whether `Host` matters at all."""
        self._hosts = Hosts(settings.allowed_hosts)
        self.accepted_hosts: set[bytes | None] = {None}  # HTTP/1.0 has no Host, and browsers always send it
        """Values of `Host` that need no further check."""
        self._writers = frozenset(origin.encode() for origin in settings.cors_origin) - {b"*"}
        self._trust_forwarded = settings.trust_forwarded

    def refuse_host(self, request: Request) -> Reply | None:
        """Refuse a request under a foreign name."""
        if request.mount:
            return None
        host = request.headers.get(b"host")
        if host is not None and not self._hosts.admit(host):
            return problems.HOST_NOT_ALLOWED
        if len(self.accepted_hosts) < _MAX_ACCEPTED:
            self.accepted_hosts.add(host)
        return None

    def refuse_write(self, request: Request) -> Reply | None:
        """Refuse a write from a page of another origin."""
        headers = request.headers
        if b"origin" not in headers and b"sec-fetch-site" not in headers:
            return None
        return problems.ORIGIN_NOT_ALLOWED if self._checks_origin and self._is_foreign(headers) else None

    def _is_foreign(self, headers: dict[bytes, bytes]) -> bool:
        origin = headers.get(b"origin")
        if origin is None:
            return headers[b"sec-fetch-site"].lower() == b"cross-site"
        if origin in self._writers:
            return False
        host = headers.get(b"host", b"")
        if self._trust_forwarded:
            host = headers.get(b"x-forwarded-host", host).partition(b",")[0].strip()
        # Without the scheme: behind a proxy that ends TLS, this server does not know it.
        return origin.partition(b"://")[2].lower() != host.lower()


def host_name(host: str) -> str:
    """Cut the port off a `Host`, and the brackets off an IPv6 address; empty when it is malformed."""
    parts = _HOST.fullmatch(host.lower())
    return (parts[1] or parts[2]).removesuffix(".") if parts is not None else ""


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address is one of this machine that others cannot reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
