"""Requests: one reading only, whoever parses the head and however the bytes are cut.

Plain heads are parsed by `server.http.heads`, the others by llhttp. Both must find the same requests and
refuse the same, or a proxy in front could be made to see other requests than the server does.
"""

import itertools
import zlib
from collections.abc import Hashable, Iterable, Iterator
from random import Random

from hardening.fuzz.fuzzing import Target, stateless
from hardening.malformed import MALFORMED
from millstream.server.http.parser import RequestParser
from millstream.server.request import Request
from millstream.server.settings import Settings
from unit.server.http.llhttp_only import LlhttpOnly

SETTINGS = Settings(max_body_bytes=100_000)
MAX_BYTE_BY_BYTE = 300
Reading = tuple[list[Request], int | None, bool]
"""The requests, the status of the refusal, and whether nothing is left of a request that is not whole."""


METHODS = (b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT")
PATHS = b"""\
/a
/a/b
//a
/%41
/a?offset=-1
/a?offset=now&live=long-poll
/a?offset=-1&live=sse
/a?limit=1
/a?part=p
/a?parts=commit
/__ds/streams
/__ds/streams?glob=**
/__ds/healthz
/
*
http://h/a
/a#b
""".splitlines()
HEADERS = b"""\
Accept-Encoding: gzip
Connection: close
Connection: keep-alive
Connection: Upgrade
Content-Encoding: gzip
Content-Type: ,
Content-Type: application/json
Content-Type: text/plain
Expect: 100-continue
Host: i
If-Match: "x", W/"y"
If-Match: *
If-None-Match: "x"
Origin: http://h
Producer-Epoch: 0
Producer-Id: p
Producer-Seq: 0
Stream-Closed: true
Stream-Expected-Offset: 0000000000000000_0000000000000000
Stream-Expires-At: 2030-01-01T00:00:00Z
Stream-Fork-Offset: now
Stream-Fork-Sub-Offset: 1
Stream-Forked-From: /a
Stream-Retain-Bytes: 1
Stream-Seq: 1
Stream-TTL: 10
TE: trailers
Transfer-Encoding: chunked
Transfer-Encoding: gzip, chunked
Upgrade: h2c
X: \xe4
""".splitlines()
BODIES = (
    b"x",
    b"hello",
    b"[1,2]",
    b'{"a":1}',
    b'{"parts":["p"]}',
    b"[",
    b"\r\n\r\n",
    b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n",
)
TOKENS = (
    *(bytes([byte]) for byte in b"\r\n \t:%#\0\x7f\xe4"),
    *(b"\r\n", b"\r\n ", b"\r\n\r\n", b": "),
    *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"5\r\nhello\r\n", b"5;a=b\r\nhello\r\n"),
    *(b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0"),
    *(header + b"\r\n" for header in HEADERS),
    *(method + b" " for method in METHODS),
    *(data for data, _status in MALFORMED.values() if len(data) < 200),
)


def check(data: bytes) -> Hashable:
    """Check that every way to read the bytes gives the same requests and the same refusal."""
    whole = read(RequestParser, [data])
    for segments in _cuts(data):
        for parser in (RequestParser, LlhttpOnly):
            found = read(parser, segments)
            assert found == whole, (
                f"{parser.__name__} reads {found} from {segments}, and {whole} from the whole"
            )
    requests, refusal, is_idle = whole
    first = (requests[0].keep_alive, requests[0].takes_chunks, bool(requests[0].body)) if requests else ()
    return refusal, is_idle, min(len(requests), 3), first


def _cuts(data: bytes) -> Iterator[list[bytes]]:
    """Cut the input in several ways, always the same ones for the same input."""
    yield [data]
    dice = Random(zlib.crc32(data))
    for _ in range(2):
        places = sorted(dice.randint(0, len(data)) for _ in range(dice.randint(1, 3)))
        yield [data[start:end] for start, end in itertools.pairwise([0, *places, len(data)]) if end > start]
    if len(data) <= MAX_BYTE_BY_BYTE:
        yield [data[at : at + 1] for at in range(len(data))]


def read(kind: type[RequestParser], segments: Iterable[bytes]) -> Reading:
    """Read segments as a connection does."""
    parser, found = kind(SETTINGS, b"http", b"192.0.2.1"), []
    for segment in segments:
        request = parser.parse_whole(segment)
        if request is not None:
            found.append(request)
            continue
        parser.feed(segment)
        found += [parser.take() for _ in range(len(parser.requests))]
    assert not parser.queued_bytes
    refusal = parser.refusal.status if parser.refusal is not None else None
    return found, refusal, parser.is_idle


def generate(dice: Random) -> bytes:
    """Write some requests on one connection; the first often creates what the others ask for."""
    content_type = dice.choice((b"text/plain", b"application/json"))
    create = b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Type: " + content_type + b"\r\nContent-Length: 0\r\n\r\n"
    requests = [_request(dice) for _ in range(dice.choice((1, 1, 2, 4)))]
    return b"".join([create, *requests] if dice.random() < 0.5 else requests)


def _request(dice: Random) -> bytes:
    method, version = dice.choice(METHODS[:6]), dice.choice((b"HTTP/1.1",) * 5 + (b"HTTP/1.0",))
    headers = [b"Host: h", *(dice.choice(HEADERS) for _ in range(dice.choice((0, 1, 2, 5))))]
    body = dice.choice(BODIES) if dice.random() < 0.6 else b""
    if b"Transfer-Encoding: chunked" in headers:
        size = dice.choice((1, 3, 100))
        chunks = (body[at : at + size] for at in range(0, len(body), size))
        body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    elif body or dice.random() < 0.3:
        headers.append(b"Content-Length: %d" % len(body))
    first = b"%b %b %b" % (method, dice.choice(PATHS), version)
    return b"\r\n".join([first, *headers, b"", body])


TARGET = Target("requests", stateless(check), generate, TOKENS)
