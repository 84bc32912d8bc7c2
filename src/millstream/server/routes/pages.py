"""The web page: serves its files, which are read once.

GET __ds/ui          the page
GET __ds/ui/<file>   its modules and styles
GET /                redirects a browser to the page; other clients get an error: a stream needs a name

The files are public. They contain no data; every request that the page makes is authorised like any
other. The content security policy below restricts the page to this server and to scripts in these files.
"""

import hashlib
import html
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final

from millstream.protocol import caching, headers
from millstream.protocol.errors import MalformedError
from millstream.protocol.http import Header, Reply
from millstream.protocol.names import parse_name
from millstream.server.request import Answer, Request

_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_POLICY: Final[list[Header]] = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
]
_INDEX = "index.html"
_HERE: Final = b"{{here}}"
"""Placeholder in the page for its path as the server sees it; anything before that in the URL is a mount."""


class Pages:
    """The files of the page and their handlers."""

    def __init__(self, stream_path: str) -> None:
        self._stream_path = stream_path
        self._files = _read_files()

    def find(self, path: str) -> Callable[[Request], Answer] | None:
        """Find the handler for a path below `__ds`; None unless it names a file of the page."""
        if path == "ui":
            return self._index
        folder, _, name = path.partition("/")
        if folder != "ui" or name not in self._files or name == _INDEX:
            return None
        return lambda request: _answer(request, *self._files[name])

    def _index(self, request: Request) -> Reply:
        content_type, template = self._files[_INDEX]
        here = parse_name(request.path)[len(request.mount + self._stream_path) :]
        return _answer(request, content_type, template.replace(_HERE, html.escape(here).encode()))


@cache
def _read_files() -> dict[str, tuple[bytes, bytes]]:
    """Read all files of the page: type and content, by name."""
    found = files("millstream.server").joinpath("web").iterdir()
    typed = ((file, _TYPES.get("." + file.name.rpartition(".")[2])) for file in found)
    return {file.name: (kind, file.read_bytes()) for file, kind in typed if kind is not None}


def at_root(request: Request) -> Reply:
    """Respond to a request without a stream name: redirect browsers to the page."""
    if request.method in (b"GET", b"HEAD") and b"text/html" in request.headers.get(b"accept", b""):
        return Reply(302, [(b"location", b"__ds/ui"), (b"cache-control", caching.NO_STORE)])
    raise MalformedError("INVALID_NAME", "A stream needs a name: /chat/abc, for example.")


def _answer(request: Request, content_type: bytes, content: bytes) -> Reply:
    tag = b'"%b"' % hashlib.sha256(content).hexdigest()[:16].encode()
    fields = [(headers.CONTENT_TYPE, content_type), (b"etag", tag), *_POLICY]
    if caching.matches(request.headers.get(b"if-none-match", b""), tag):
        return Reply(304, fields)
    return Reply(200, fields, content)
