"""Request heads that arrived whole, parsed in one pass.

Nearly every head is plain: it came in one segment, and no header of it changes how the connection is read.
Such a head is split once and cut at its colons, and its syntax is checked by a few calls that loop in C.
`parse_head` refuses nothing. It returns None for every head that is not plain, and llhttp decides:

        Transfer-Encoding, Upgrade, Expect       change how the body is read
        Connection, other than keep-alive        changes what follows
        HTTP/1.0, other methods, other targets   rare
        a repeated name                          joined, or refused
        very many names, or very long ones       refused, or rare
        control characters, bare CR or LF,       refused, most of them
        folded lines, no valid Host, odd lengths

So the two must agree on plain heads only. The tests run both on the same bytes and compare.
"""

import re
from typing import Final

from millstream.server.http.hosts import is_host, recent_hosts
from millstream.server.request import Request

END: Final = b"\r\n\r\n"
MAX_HEADERS: Final = 128

_REQUEST_LINE = re.compile(
    rb"""(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) [ ] (/[!"$->@-~]*+) \??+ ([!"$-~]*+) [ ] HTTP/1\.1""",
    re.VERBOSE,
)
"""Method, path and query: a path, and no fragment."""

_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TEXT = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
_MAX_LENGTH_DIGITS = 15

_UNUSUAL = frozenset([b"transfer-encoding", b"upgrade", b"expect", b"proxy-connection", b"te", b"trailer"])

_MAX_NAME_BYTES = 64
_MAX_NAMES = 1024

_names: dict[bytes, bytes] = {}
"""Plain names that came lately, and their lower case. A lookup is faster than a check and `lower`."""


def parse_head(head: bytes, scheme: bytes, client: bytes) -> tuple[Request, int] | None:
    """Parse a head, without its blank line: the request, still without a body, and the body's length.

    None when the head is not plain.
    """
    lines = head.split(b"\r\n")
    request_line = _REQUEST_LINE.fullmatch(lines[0])
    # Deleting all text leaves CR and LF of each line end; more than that is a control character.
    if request_line is None or len(head.translate(None, _TEXT)) != 2 * len(lines) - 2:
        return None
    headers: dict[bytes, bytes] = {}
    names = _names
    try:
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon:
                return None
            headers[names[name]] = value.strip()
    except KeyError:
        return parse_head(head, scheme, client) if _learn_names(lines[1:]) else None
    host = headers.get(b"host")
    if not len(lines) - 1 == len(headers) <= MAX_HEADERS:
        return None
    if host not in recent_hosts and not is_host(host):
        return None
    if b"connection" in headers and headers[b"connection"].lower() != b"keep-alive":
        return None
    body_bytes = 0
    length = headers.get(b"content-length")
    if length is not None:
        if not length.isdigit() or len(length) > _MAX_LENGTH_DIGITS:
            return None
        body_bytes = int(length)
    method, path, query = request_line.groups()
    return Request(method, path, query, headers, b"", scheme, "", client), body_bytes


def _learn_names(lines: list[bytes]) -> bool:
    """Take the names of a head into the table; False when one of them is not plain."""
    if len(lines) > MAX_HEADERS:
        return False
    if len(_names) > _MAX_NAMES:
        _names.clear()
    for line in lines:
        name, colon, _ = line.partition(b":")
        lower = name.lower()
        if not colon or not 0 < len(name) <= _MAX_NAME_BYTES or name.translate(None, _TOKEN):
            return False
        if lower in _UNUSUAL:
            return False
        _names[name] = lower
    return True
