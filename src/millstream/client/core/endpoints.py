"""Endpoints: a stream's URL, and the headers and parameters of every request to it.

Headers and parameters may be functions; they are called once for each request that is sent,
including retries. Query parameters are sorted by name, so that caches see one spelling.

PROTOCOL.md 10.1.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

import msgspec

from millstream.client.core.models import Changes, HeadersLike, ParamsLike
from millstream.client.core.transport import Headers, Request

_NO_FIELDS: Headers = {}


class Ask(msgspec.Struct, frozen=True, gc=False):
    """A request without what the endpoint adds."""

    method: bytes
    headers: Headers = _NO_FIELDS
    params: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    timeout_s: float = 30.0
    query: str = ""
    """Parameters in addition to `params`, encoded: those that are repeated."""


class Endpoint:
    """A stream's URL with the user's headers and parameters."""

    def __init__(
        self, url: str, headers: HeadersLike | None = None, params: ParamsLike | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"a stream's URL begins with http:// or https://, not {url!r}")
        self.url = url
        self.path = parts.path or "/"
        self._base = urlunsplit(parts._replace(query="", fragment=""))
        self._params: dict[str, str] = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._headers: Headers = {}
        self._computed: list[tuple[bool, str | None, Callable[[], Any]]] = []
        self._add(headers, are_headers=True)
        self._add(params, are_headers=False)
        self._plain_url = self._url(self._params)

    @property
    def computed(self) -> Sequence[Callable[[], Any]]:
        """The functions whose results `request` needs, in order."""
        return [function for _, _, function in self._computed]

    @property
    def is_fixed(self) -> bool:
        """Whether every request gets the same headers and parameters."""
        return not self._computed

    def changed(self, changes: Changes) -> "Endpoint":
        """Return this endpoint with headers and parameters added or replaced."""
        other = Endpoint.__new__(Endpoint)
        other.__dict__ = {
            **self.__dict__,
            "_params": dict(self._params),
            "_headers": dict(self._headers),
            "_computed": list(self._computed),
        }
        other._add(changes.get("headers"), are_headers=True)
        other._add(changes.get("params"), are_headers=False)
        other._plain_url = other._url(other._params)
        return other

    def request(self, ask: Ask, values: Sequence[Any] = ()) -> Request:
        """Complete a request; `values` are the results of `computed`."""
        headers, params, url = self._headers, self._params, self._plain_url
        if values:
            headers, params = dict(headers), dict(params)
            for (is_header, name, _), value in zip(self._computed, values, strict=True):
                found: Mapping[str, Any] = value if name is None else {name: value}
                _merge(headers, params, found, is_header=is_header)
        if ask.params or values:
            url = self._url({**params, **dict(ask.params)})
        if ask.query:
            url = f"{url}{'&' if '?' in url else '?'}{ask.query}"
        return Request(ask.method, url, {**headers, **ask.headers}, ask.body, ask.timeout_s)

    def _add(self, given: HeadersLike | ParamsLike | None, *, are_headers: bool) -> None:
        if given is None:
            return
        if callable(given):
            self._computed.append((are_headers, None, given))
            return
        fixed = {}
        for name, value in given.items():
            self._computed = [one for one in self._computed if one[:2] != (are_headers, name)]
            if callable(value):
                self._computed.append((are_headers, name, value))
            else:
                fixed[name] = value
        _merge(self._headers, self._params, fixed, is_header=are_headers)

    def _url(self, params: Mapping[str, str]) -> str:
        if not params:
            return self._base
        query = "&".join(f"{quote(name)}={quote(params[name], safe='')}" for name in sorted(params))
        return f"{self._base}?{query}"


def _merge(headers: Headers, params: dict[str, str], found: Mapping[str, Any], *, is_header: bool) -> None:
    for name, value in found.items():
        if is_header:
            headers[name.lower().encode("latin-1")] = str(value).encode("latin-1")
        elif value is None:
            params.pop(name, None)
        else:
            params[name] = str(value)
