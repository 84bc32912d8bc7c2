"""Redirects: whether a response sends the request elsewhere, and what goes there.

    307, 308    every method, with the same body
    301, 302    GET and HEAD only: for others, clients disagree about the method

The new place may be another origin. Whoever runs it must not get what is meant for this one, so only the
fields of the protocol go along: no token, cookie or key. From https to http nothing goes at all.

RFC 9110, 15.4.
"""

from typing import Final
from urllib.parse import urljoin, urlsplit

from millstream.client.core.errors import UnexpectedStatusError
from millstream.client.core.transport import Answer, Headers, Request

MAX_REDIRECTS: Final = 5

_ALWAYS = frozenset((307, 308))
_FOR_READS = frozenset((301, 302))
_READS = (b"GET", b"HEAD")
_PLAIN_FIELDS = frozenset((b"accept", b"accept-encoding", b"content-type", b"if-none-match"))
_PROTOCOL_FIELDS = (b"stream-", b"producer-")


def redirected(request: Request, answer: Answer, followed: int) -> Request | None:
    """Return the request to send instead; None if the response is final. `followed` counts earlier ones."""
    status = answer.status
    if status not in _ALWAYS and not (status in _FOR_READS and request.method in _READS):
        return None
    url = urljoin(request.url, answer.headers.get(b"location", b"").decode("latin-1"))
    old, new = urlsplit(request.url), urlsplit(url)
    is_downgrade = old.scheme == "https" and new.scheme != "https"
    if b"location" not in answer.headers or new.scheme not in ("http", "https") or is_downgrade:
        return None
    if followed >= MAX_REDIRECTS:
        raise UnexpectedStatusError(
            f"The server redirected more than {MAX_REDIRECTS} times", url=request.url, status=status
        )
    is_same_origin = (old.scheme, old.netloc) == (new.scheme, new.netloc)
    headers = request.headers if is_same_origin else _public(request.headers)
    return Request(request.method, url, headers, request.body, request.timeout_s)


def _public(headers: Headers) -> Headers:
    return {
        name: value
        for name, value in headers.items()
        if name in _PLAIN_FIELDS or name.startswith(_PROTOCOL_FIELDS)
    }
