"""HTTP/1.1 without a network: each response is fed whole, byte by byte, and with the next one behind it."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.client.core.transport import Origin, Request
from millstream.client.http.http1 import LARGE_BODY_BYTES, Incoming, ProtocolError, locate, render

BODY = b"Hello, world"
PACKED = gzip.compress(BODY)
RESPONSES = {
    "content-length": (b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n" + BODY, BODY),
    "chunked": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nHello\r\n7;x=y\r\n, world\r\n0\r\n\r\n",
        BODY,
    ),
    "chunked with a trailer": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\nC\r\nHello, world\r\n0\r\nx: y\r\n\r\n",
        BODY,
    ),
    "no content": (b"HTTP/1.1 204 No Content\r\nstream-closed: true\r\n\r\n", b""),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 12\r\n\r\n", b""),
    "empty": (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n" + BODY, BODY),
    "gzip": (
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(PACKED), PACKED),
        BODY,
    ),
}


def take(response: bytes, sizes: list[int], method: bytes = b"GET") -> tuple[Incoming, bytes]:
    incoming, body, position = Incoming(method), b"", 0
    for size in [*sizes, len(response)]:
        piece = response[position : position + size]
        position += size
        if piece:
            body += incoming.feed(piece)
    return incoming, body


@pytest.mark.parametrize("name", RESPONSES)
@pytest.mark.parametrize("way", ["whole", "byte by byte"])
def test_a_response_reads_the_same_however_it_arrives(name: str, way: str) -> None:
    response, expected = RESPONSES[name]
    incoming, body = take(response, [1] * len(response) if way == "byte by byte" else [])
    assert (body, incoming.complete, incoming.keeps_alive) == (expected, True, True)


@given(name=st.sampled_from(sorted(RESPONSES)), sizes=st.lists(st.integers(1, 40), max_size=20))
def test_no_cut_changes_a_response(name: str, sizes: list[int]) -> None:
    response, expected = RESPONSES[name]
    incoming, body = take(response, sizes)
    assert (body, incoming.complete) == (expected, True)


@pytest.mark.parametrize("name", [name for name in RESPONSES if name != "interim"])
def test_a_connection_that_says_too_much_is_not_trusted(name: str) -> None:
    response, expected = RESPONSES[name]
    incoming, body = take(response + b"HTTP/1.1 200 OK\r\n", [])
    assert (body, incoming.complete, incoming.keeps_alive) == (expected, True, False)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    incoming, body = take(b"HTTP/1.1 200 OK\r\n\r\nHello", [3, 10])
    assert not incoming.complete
    incoming.end()
    assert (body, incoming.complete, incoming.keeps_alive) == (b"Hello", True, False)


@pytest.mark.parametrize("name", ["content-length", "chunked", "chunked with a trailer", "gzip"])
def test_a_body_that_is_cut_is_an_error(name: str) -> None:
    response, _ = RESPONSES[name]
    for length in range(len(response)):
        incoming, _ = take(response[:length], [])
        with pytest.raises(ProtocolError):
            incoming.end()


@pytest.mark.parametrize(
    "response",
    [
        b"NOPE\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n+5\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0x5\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5_0\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nplain",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000,
    ],
)
def test_what_is_not_http_is_refused(response: bytes) -> None:
    with pytest.raises(ProtocolError):
        Incoming(b"GET").feed(response)


def test_headers_are_folded_trimmed_and_joined() -> None:
    incoming, _ = take(b"HTTP/1.1 204 X\r\nVary:  a \r\nvary:b\r\nX-Empty:\r\nConnection: close\r\n\r\n", [])
    assert incoming.headers == {b"vary": b"a, b", b"x-empty": b"", b"connection": b"close"}
    assert incoming.keeps_alive is False


def test_the_answer_to_head_has_no_body() -> None:
    incoming, body = take(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n", [], b"HEAD")
    assert (body, incoming.complete) == (b"", True)


def test_a_request_is_written() -> None:
    request = Request(b"POST", "http://h/s", {b"content-type": b"text/plain"}, b"abc")
    assert render(request, b"h", b"/s") == [
        b"POST /s HTTP/1.1\r\nhost: h\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nabc"
    ]


def test_a_large_body_is_sent_without_a_copy() -> None:
    body = bytes(LARGE_BODY_BYTES)
    head, sent = render(Request(b"POST", "http://h/s", {}, body), b"h", b"/s")
    assert head.endswith(b"content-length: %d\r\n\r\n" % len(body))
    assert sent is body


@pytest.mark.parametrize("value", [b"a\r\nx: y", b"a\nb", b"a\rb", b"a\0b"])
def test_a_header_cannot_forge_another(value: bytes) -> None:
    with pytest.raises(ValueError, match="line breaks"):
        render(Request(b"GET", "http://h/", {b"authorization": value}), b"h", b"/")


@pytest.mark.parametrize(
    ("url", "origin", "host", "target"),
    [
        ("http://h/a", Origin("h", 80, False), b"h", b"/a"),
        ("https://h", Origin("h", 443, True), b"h", b"/"),
        ("http://h:4437/a?b=c&d=%20", Origin("h", 4437, False), b"h:4437", b"/a?b=c&d=%20"),
        ("http://[::1]:80/ä b", Origin("::1", 80, False), b"[::1]", b"/%C3%A4%20b"),
        (
            "http://bücher.example/%5f",
            Origin("xn--bcher-kva.example", 80, False),
            b"xn--bcher-kva.example",
            b"/%5f",
        ),
    ],
)
def test_a_url_is_located(url: str, origin: Origin, host: bytes, target: bytes) -> None:
    assert locate(url) == (origin, host, target)
