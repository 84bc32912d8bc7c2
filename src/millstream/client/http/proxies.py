"""Proxies: which one, if any, a connection goes through, by the usual environment variables.

    HTTP_PROXY, HTTPS_PROXY, ALL_PROXY    http://user:password@host:port, in either case of letters
    NO_PROXY                              hosts, domains and networks that are reached directly; * for all

For https the proxy is asked for a tunnel (CONNECT), and TLS goes through it from end to end. For http it
gets the request with the complete URL. This machine's own addresses are never behind a proxy.

RFC 9110, 9.3.6; RFC 9112, 3.2.2.
"""

import base64
import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from millstream.client.core.transport import Origin


class Proxy(msgspec.Struct, frozen=True):
    """A proxy, and the credentials for it."""

    host: str
    port: int
    authorization: bytes = b""

    def tunnel_request(self, origin: Origin) -> bytes:
        """Return the request for a tunnel to an origin."""
        place = f"[{origin.host}]:{origin.port}" if ":" in origin.host else f"{origin.host}:{origin.port}"
        head = f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n".encode()
        return head + self.credentials + b"\r\n"

    @property
    def credentials(self) -> bytes:
        """The header field with the credentials, b"" if there are none."""
        return b"proxy-authorization: %b\r\n" % self.authorization if self.authorization else b""


def environment_proxy(origin: Origin, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """Return the proxy that the environment names for an origin."""
    url = _named("https" if origin.tls else "http", environment) or _named("all", environment)
    if not url or _is_loopback(origin.host) or _is_excepted(origin, _named("no", environment)):
        return None
    return parse_proxy(url)


def _named(kind: str, environment: Mapping[str, str]) -> str:
    name = f"{kind}_proxy"
    if name in environment:
        return environment[name]
    if kind == "http" and "REQUEST_METHOD" in environment:
        return ""  # a CGI script: the upper-case variable is a header of its request
    return environment.get(name.upper(), "")


def _is_excepted(origin: Origin, names: str) -> bool:
    """Whether NO_PROXY has an origin's host, its domain, its network, or host and port."""
    host = origin.host.lower()
    for part in names.lower().split(","):
        name = part.strip().removeprefix("*.").removeprefix(".")
        if name in ("*", host, f"{host}:{origin.port}") or _has(name, host):
            return True
        if name and host.endswith(f".{name}"):
            return True
    return False


def _has(network: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def parse_proxy(url: str) -> Proxy:
    """Read a proxy's URL."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"a proxy's URL is http://host:port, not {parts.scheme}://{parts.hostname or ''}")
    authorization = b""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = b"Basic " + base64.b64encode(pair.encode())
    return Proxy(parts.hostname, parts.port or 80, authorization)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
