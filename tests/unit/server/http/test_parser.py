"""Plain requests are parsed by `heads`, the others by llhttp: nobody can tell which one it was.

Every head below goes through both, whole, byte by byte and with a request before and behind it. What comes
out must be the same: the same requests, or the same refusal.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardening.malformed import MALFORMED
from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.http import heads
from millstream.server.http.parser import RequestParser
from millstream.server.request import Request
from millstream.server.settings import Settings
from unit.server.http.llhttp_only import LlhttpOnly

SETTINGS = Settings(max_body_bytes=100_000)

GET = b"GET /a HTTP/1.1\r\n"
POST = b"POST /a HTTP/1.1\r\n"
HOST = b"Host: h\r\n"
PLAIN = GET + HOST + b"\r\n"


def outcome(parser: RequestParser, segments: Iterable[bytes]) -> tuple[list[Any], int | None, bool]:
    """Feed segments as a connection does: the requests, the refusal's status, whether another may come."""
    found = []
    for segment in segments:
        request = parser.parse_whole(segment)
        if request is not None:
            found.append(request)
        else:
            parser.feed(segment)
            found += [parser.take() for _ in range(len(parser.requests))]
    assert not parser.queued_bytes
    refusal = parser.refusal.status if parser.refusal is not None else None
    return found, refusal, parser.is_idle


def both(segments: list[bytes]) -> tuple[list[Any], int | None, bool]:
    ours = outcome(RequestParser(SETTINGS, b"http", b"192.0.2.1"), segments)
    assert ours == outcome(LlhttpOnly(SETTINGS, b"http", b"192.0.2.1"), segments)
    return ours


def parse(data: bytes) -> Request:
    [request], refusal, is_idle = both([data])
    assert refusal is None
    assert is_idle
    return request  # type: ignore[no-any-return]


def is_plain(data: bytes) -> bool:
    return RequestParser(SETTINGS, b"http", b"").parse_whole(data) is not None


ODD: dict[str, bytes] = {
    "a plain GET": PLAIN,
    "a query": b"GET /a?offset=-1&live=sse HTTP/1.1\r\n" + HOST + b"\r\n",
    "an empty query": b"GET /a? HTTP/1.1\r\n" + HOST + b"\r\n",
    "questions in a query": b"GET /a?b?c=d?e HTTP/1.1\r\n" + HOST + b"\r\n",
    "escapes": b"GET /a%20b/%C3%A4?x=%2F+y HTTP/1.1\r\n" + HOST + b"\r\n",
    "two slashes": b"GET //a//b HTTP/1.1\r\n" + HOST + b"\r\n",
    "every visible character": b"GET /!\"$%&'()*+,-./:;<=>@[\\]^_`{|}~ HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment": b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment behind a query": b"GET /a?b#c?d HTTP/1.1\r\n" + HOST + b"\r\n",
    "UTF-8 in a target": "GET /ä HTTP/1.1\r\n".encode() + HOST + b"\r\n",
    "a tab in a target": b"GET /a\tb HTTP/1.1\r\n" + HOST + b"\r\n",
    "DEL in a target": b"GET /a\x7fb HTTP/1.1\r\n" + HOST + b"\r\n",
    "an absolute target": b"GET http://h/a?b HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target without a slash": b"GET a HTTP/1.1\r\n" + HOST + b"\r\n",
    "a star": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    "an authority": b"CONNECT h:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "no target": b"GET  HTTP/1.1\r\n" + HOST + b"\r\n",
    "two spaces": b"GET  /a HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tab behind the method": b"GET\t/a HTTP/1.1\r\n" + HOST + b"\r\n",
    "a space behind the version": b"GET /a HTTP/1.1 \r\n" + HOST + b"\r\n",
    "a method in lower case": b"get /a HTTP/1.1\r\n" + HOST + b"\r\n",
    "PATCH": b"PATCH /a HTTP/1.1\r\n" + HOST + b"\r\n",
    "QUERY": b"QUERY /a HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/1.0": b"GET /a HTTP/1.0\r\n\r\n",
    "HTTP/1.0 that stays": b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "HTTP/1.0 with a host": b"GET /a HTTP/1.0\r\n" + HOST + b"\r\n",
    "HTTP/1.2": b"GET /a HTTP/1.2\r\n" + HOST + b"\r\n",
    "HTTP/2.0": b"GET /a HTTP/2.0\r\n" + HOST + b"\r\n",
    "http/1.1": b"GET /a http/1.1\r\n" + HOST + b"\r\n",
    "empty lines before": b"\r\n\r\n" + PLAIN,
    "an LF before": b"\n" + PLAIN,
    "an empty host": GET + b"Host:\r\n\r\n",
    "an address and a port": GET + b"Host: 127.0.0.1:4437\r\n\r\n",
    "an address of IPv6": GET + b"Host: [::1]:4437\r\n\r\n",
    "a name with an underscore": GET + b"Host: my_host.example\r\n\r\n",
    "a list of hosts": GET + b"Host: a, b\r\n\r\n",
    "a body of nothing": POST + HOST + b"Content-Length: 0\r\n\r\n",
    "a body": POST + HOST + b"Content-Length: 5\r\n\r\nhello",
    "a body that looks like a request": POST + HOST + b"Content-Length: %d\r\n\r\n" % len(PLAIN) + PLAIN,
    "a body of line ends": POST + HOST + b"Content-Length: 8\r\n\r\n" + b"\r\n" * 4,
    "a body of a GET": GET + HOST + b"Content-Length: 5\r\n\r\nhello",
    "a length that begins with zeros": POST + HOST + b"Content-Length: 0005\r\n\r\nhello",
    "a length with space around it": POST + HOST + b"Content-Length: \t 5 \t \r\n\r\nhello",
    "a length without a space": POST + HOST + b"Content-Length:5\r\n\r\nhello",
    "a length in other digits": POST + HOST + b"Content-Length: \xb2\r\n\r\nhello",
    "a length with a space in it": POST + HOST + b"Content-Length: 0 5\r\n\r\nhello",
    "a body that is too large": POST + HOST + b"Content-Length: 100001\r\n\r\n",
    "a body that is not all there": POST + HOST + b"Content-Length: 50\r\n\r\nhello",
    "a body that goes on": POST + HOST + b"Content-Length: 2\r\n\r\nhello",
    "chunks": POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "Chunked": POST + HOST + b"TRANSFER-encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunks and a trailer": POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nHost: i\r\n\r\n",
    "chunks of a length": POST + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + HOST + b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
    "TE": GET + HOST + b"TE: trailers\r\n\r\n",
    "close": GET + HOST + b"Connection: close\r\n\r\n",
    "Close": GET + HOST + b"connection: Close\r\n\r\n",
    "keep-alive": GET + HOST + b"Connection: keep-alive\r\n\r\n",
    "Keep-Alive": GET + HOST + b"Connection: Keep-Alive\r\nKeep-Alive: timeout=5\r\n\r\n",
    "keep-alive and close": GET + HOST + b"Connection: keep-alive, close\r\n\r\n",
    "keep-alive, then close": GET + HOST + b"Connection: keep-alive\r\nConnection: close\r\n\r\n",
    "a proxy's close": GET + HOST + b"Proxy-Connection: close\r\n\r\n",
    "an empty connection": GET + HOST + b"Connection:\r\n\r\n",
    "an upgrade": GET + HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "an upgrade with a body": POST
    + HOST
    + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n"
    + b"Content-Length: 5\r\n\r\nhello",
    "an upgrade that is not connected": GET + HOST + b"Upgrade: websocket\r\n\r\n",
    "an expectation": POST + HOST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
    "another expectation": POST + HOST + b"Expect: nothing\r\nContent-Length: 5\r\n\r\nhello",
    "space around a value": GET + HOST + b"X: \t a b \t \r\n\r\n",
    "no space before a value": GET + b"Host:h\r\nX:a\r\n\r\n",
    "an empty value": GET + HOST + b"X:\r\nY: \r\n\r\n",
    "a colon in a value": GET + HOST + b"X: a:b: c\r\n\r\n",
    "a tab in a value": GET + HOST + b"X: a\tb\r\n\r\n",
    "Latin-1 in a value": GET + HOST + b"X: \xe4\x80\xff\r\n\r\n",
    "Latin-1 in a name": GET + HOST + b"X\xe4: a\r\n\r\n",
    "DEL in a value": GET + HOST + b"X: a\x7fb\r\n\r\n",
    "a vertical tab around a value": GET + HOST + b"X: \x0ba\x0c\r\n\r\n",
    "a known name twice": GET + HOST + b"Accept: a\r\naccept: b\r\n\r\n",
    "an unknown name twice": GET + HOST + b"X: a \r\nX:  b\r\n\r\n",
    "an empty name": GET + HOST + b": a\r\n\r\n",
    "every character of a name": GET + HOST + b"!#$%&'*+-.^_`|~0Aa: a\r\n\r\n",
    "a quote in a name": GET + HOST + b'"X": a\r\n\r\n',
    "a known name without a colon": GET + b"Host\r\n\r\n",
    "a known name with a space": GET + HOST + b"Accept : a\r\n\r\n",
    "a folded known name": GET + HOST + b"Accept: a\r\n\tb\r\n\r\n",
    "a folded line that is a header": GET + HOST + b"X: a\r\n Host: i\r\n\r\n",
    "CR CR LF": GET + HOST + b"X: a\r\r\n\r\n",
    "LF CR": GET + b"Host: h\n\rX: a\r\n\r\n",
    "a CR and an LF apart": GET + HOST + b"X: a\rb\nc\r\n\r\n",
    "an LF behind the blank line's CR": GET + b"Host: h\r\n\n\r\n\r\n",
    "128 headers": GET + HOST + b"".join(b"X%d: y\r\n" % n for n in range(127)) + b"\r\n",
    "129 headers": GET + HOST + b"".join(b"X%d: y\r\n" % n for n in range(128)) + b"\r\n",
    "128 names that are known": GET
    + b"".join(b"%b: h\r\n" % name for name in (b"Host", b"host") * 64)
    + b"\r\n",
    "a long name": GET + HOST + b"X" * 64 + b": a\r\n\r\n",
    "a longer name": GET + HOST + b"X" * 65 + b": a\r\n\r\n",
    "no headers": GET + b"\r\n",
    "nothing but a blank line": b"\r\n\r\n",
    "a head that is not whole": GET + HOST + b"X: a",
    "a line end that is not whole": GET + HOST + b"\r",
}
for near in range(-3, 4):
    ODD[f"a URL near the limit {near:+}"] = (
        b"GET /" + b"a" * (SETTINGS.max_url_bytes + near) + b" HTTP/1.1\r\n" + HOST + b"\r\n"
    )
    ODD[f"a head near the limit {near:+}"] = (
        GET + HOST + b"X: " + b"a" * (SETTINGS.max_header_bytes - 17 + near) + b"\r\n\r\n"
    )
CORPUS = ODD | {name: data for name, (data, _status) in MALFORMED.items()}
QUICK = {name: data for name, data in CORPUS.items() if len(data) < 1000}


@pytest.mark.parametrize("which", CORPUS)
def test_whole(which: str) -> None:
    both([CORPUS[which]])


@pytest.mark.parametrize("which", QUICK)
def test_byte_by_byte(which: str) -> None:
    """In whatever way it is cut, it is the same request."""
    data = CORPUS[which]
    assert both([data[at : at + 1] for at in range(len(data))]) == both([data])


@pytest.mark.parametrize("which", QUICK)
def test_cut_anywhere(which: str) -> None:
    data = CORPUS[which]
    for at in range(1, len(data)):
        both([data[:at], data[at:]])


@pytest.mark.parametrize("which", CORPUS)
def test_pipelined(which: str) -> None:
    """Before a plain request, behind one, and twice; in one segment and after an earlier request."""
    data = CORPUS[which]
    for pipelined in (data + PLAIN, PLAIN + data, data + data, PLAIN + data + PLAIN):
        both([pipelined])
        both([PLAIN, pipelined])
        both([data, pipelined])


@pytest.mark.parametrize("which", MALFORMED)
def test_what_is_malformed_is_refused(which: str) -> None:
    """And nothing behind it is a request."""
    data, status = MALFORMED[which]
    parser = RequestParser(Settings(), b"http", b"")
    requests, refusal, _is_idle = outcome(parser, [data + PLAIN, PLAIN])
    assert (requests[1:], refusal) == ([], status)


def test_ordinary_requests_are_plain() -> None:
    """Else the quick way would be quick for nobody."""
    fetch = b"sec-ch-ua-platform: x\r\nSec-Fetch-Mode: cors\r\nDNT: 1\r\nOrigin: http://o\r\n"
    stamp = b"producer-id: p\r\nProducer-Epoch: 1\r\nProducer-Seq: 12\r\nX-Anything: 1\r\n"
    assert is_plain(PLAIN)
    assert is_plain(b"HEAD /a?offset=now HTTP/1.1\r\nhost: h\r\nconnection: keep-alive\r\n" + fetch + b"\r\n")
    assert is_plain(POST + HOST + stamp + b"Content-Length: 3\r\n\r\nabc")
    assert is_plain(b"DELETE /a HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n\r\n")


def test_ever_new_names_are_plain_and_not_kept_for_ever() -> None:
    for n in range(5000):
        assert is_plain(GET + HOST + b"X-%d: a\r\n\r\n" % n)
    assert len(heads._names) < 1200


@pytest.mark.parametrize("line", [b"Producer-Epoch: 1 ", b"Producer-Epoch:\t1\t ", b"Producer-Epoch:1"])
@pytest.mark.parametrize("rest", [b"", b"Connection: close\r\n"])
def test_space_around_a_value_is_not_part_of_it(line: bytes, rest: bytes) -> None:
    """RFC 9110, 5.5; the first is plain, the second is left to llhttp."""
    request = parse(GET + HOST + rest + line + b"\r\n\r\n")
    assert request.headers[b"producer-epoch"] == b"1"


@pytest.mark.parametrize("host", [b"h", b"h:", b"h:80", b"a.b-c_d", b"127.0.0.1", b"[::1]", b"[::1]:80", b""])
def test_hosts(host: bytes) -> None:
    assert parse(GET + b"Host: " + host + b"\r\n\r\n").headers[b"host"] == host


def test_a_small_body_is_not_asked_about_and_a_large_one_once() -> None:
    """Whether it has a length or chunks; and a body that was refused is dropped."""
    asked: list[Request] = []

    def refuse(request: Request) -> Reply:
        asked.append(request)
        return problems.INVALID_TOKEN

    def parser() -> RequestParser:
        return RequestParser(Settings(), b"http", b"", refuse)

    for head in (b"Content-Length: 65536\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n10000\r\n"):
        small = parser()
        small.feed(POST + HOST + head + bytes(65535))
        assert (small.refusal, asked, small.body_bytes) == (None, [], 65535)
    for head in (b"Content-Length: 65537\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n10001\r\n"):
        large = parser()
        large.feed(POST + HOST + head)
        for _ in range(3):
            large.feed(bytes(32_768))
        assert large.refusal is problems.INVALID_TOKEN
        assert (len(asked), large.body_bytes, len(large._body)) == (1, 0, 0)
        asked.clear()
    waiting = parser()
    waiting.feed(POST + HOST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert waiting.refusal is problems.INVALID_TOKEN


def test_what_a_request_is() -> None:
    body = b"\r\n\r\n{}"
    request = parse(b"POST /a%20b?x=1&y HTTP/1.1\r\nHOST: h\r\nX-Y: Z \r\nContent-Length: 6\r\n\r\n" + body)
    headers = {b"host": b"h", b"x-y": b"Z", b"content-length": b"6"}
    assert request == Request(b"POST", b"/a%20b", b"x=1&y", headers, body, b"http", "", b"192.0.2.1")


# -- Any head ------------------------------------------------------------------------------------

NAMES = [
    *(
        b"Host",
        b"host",
        b"HOST",
        b"Content-Length",
        b"content-length",
        b"Content-Type",
        b"X",
        b"x-y",
        b"Origin",
    ),
    *(
        b"Connection",
        b"Transfer-Encoding",
        b"Upgrade",
        b"Expect",
        b"Producer-Seq",
        b"Proxy-Connection",
        b"",
        b"X Y",
    ),
]
VALUES = [
    *(
        b"h",
        b"5",
        b"0",
        b"05",
        b"+5",
        b"a, b",
        b"",
        b"close",
        b"keep-alive",
        b"Upgrade",
        b"chunked",
        b"100-continue",
    ),
    *(b"h2c", b"\xe4", b"\x00", b"a\tb", b"a\rb", b"a\nb", b"a:b", b"a\x7f", b" "),
]
space = st.sampled_from([b"", b" ", b"  ", b"\t", b" \t "])
usually = st.sampled_from([b"\r\n"] * 30 + [b"\n", b"\r", b"\r\r\n", b"\r\n ", b""])
line = st.builds(
    lambda name, colon, before, value, after, end: name + colon + before + value + after + end,
    st.sampled_from(NAMES),
    st.sampled_from([b":"] * 20 + [b"", b" :", b"::"]),
    space,
    st.sampled_from(VALUES) | st.binary(max_size=4),
    space,
    usually,
)
target = st.sampled_from([b"/", b"/a", b"/a?b=c", b"/?", b"*", b"http://h/a", b"/a#b", b"a"]) | st.binary(
    max_size=6
).map(lambda path: b"/" + path)
requests = st.builds(
    lambda method, target, version, end, host, lines, body: (
        method + b" " + target + b" " + version + end + host + b"".join(lines) + b"\r\n" + body
    ),
    st.sampled_from([b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"get", b"G T", b""]),
    target,
    st.sampled_from([b"HTTP/1.1"] * 10 + [b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b""]),
    usually,
    st.sampled_from([HOST] * 5 + [b""]),
    st.lists(line, max_size=4),
    st.sampled_from([b"", b"", b"hello", b"\r\n", b"5\r\nhello\r\n0\r\n\r\n"]),
)


@given(
    st.lists(requests | st.sampled_from(list(QUICK.values())), min_size=1, max_size=4),
    st.lists(st.integers(0, 400), max_size=3),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 1), st.binary(max_size=2)), max_size=2),
)
def test_any_head(sent: list[bytes], cuts: list[int], changes: list[tuple[int, int, bytes]]) -> None:
    """Made of parts that matter, cut anywhere, with a few bytes replaced, added or left out."""
    data = b"".join(sent)
    for at, size, replacement in changes:
        data = data[:at] + replacement + data[at + size :]
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    both([data[start:end] for start, end in itertools.pairwise(places) if end > start])
