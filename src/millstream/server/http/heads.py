"""Request heads that arrived whole, parsed in one pass.

Nearly every head is plain: it came in one segment, and no header of it changes how the connection is read.
Such a head is split once and cut at its colons, and its syntax is checked by a few calls that loop in C.
`parse_head` refuses nothing. It returns None for every head that is not plain, and llhttp decides:

        Transfer-Encoding, Upgrade, Expect       change how the body is read
        Connection, other than keep-alive        changes what follows
        HTTP/1.0, other methods, other targets   rare
        a repeated name                          joined, or refused
        control characters, bare CR or LF,       refused, most of them
        folded lines, no valid Host, odd lengths

So the two must agree on plain heads only. The tests run both on the same bytes and compare.
"""

import re
from typing import Final

from millstream.server.http.hosts import is_host, recent_hosts
from millstream.server.request import Request

END: Final = b"\r\n\r\n"

_REQUEST_LINE = re.compile(
    rb"""(GET|HEAD|POST|PUT|DELETE|OPTIONS) [ ] (/[!"$->@-~]*+) \??+ ([!"$-~]*+) [ ] HTTP/1\.1""", re.VERBOSE
)
"""Method, path and query: a path, and no fragment."""

_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TEXT = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
_MAX_LENGTH_DIGITS = 15

_UNUSUAL = frozenset([b"transfer-encoding", b"upgrade", b"expect", b"proxy-connection", b"te", b"trailer"])

_COMMON_NAMES = """
    accept accept-encoding accept-language authorization cache-control connection content-encoding
    content-length content-type cookie dnt forwarded host if-none-match last-event-id origin pragma priority
    producer-epoch producer-id producer-seq referer sec-fetch-dest sec-fetch-mode sec-fetch-site
    stream-closed stream-seq stream-ttl traceparent tracestate user-agent x-forwarded-for x-forwarded-host
    x-forwarded-proto x-real-ip x-request-id
"""
_NAMES = {
    spelling: name for name in map(str.encode, _COMMON_NAMES.split()) for spelling in (name, name.title())
}
"""Lower-case names by the two spellings that clients use. A lookup is faster than a check and `lower`."""


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
    known_name = _NAMES.get
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        lower = known_name(name)
        value = value.strip()
        if lower is None or not colon:
            lower = name.lower()
            if not colon or not name or name.translate(None, _TOKEN) or lower in _UNUSUAL:
                return None
        headers[lower] = value
    host = headers.get(b"host")
    if len(headers) != len(lines) - 1 or (host not in recent_hosts and not is_host(host)):
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
