"""Names: which URLs are streams, and which are refused (protocol 3, 6, 12.2)."""

from __future__ import annotations

import socket
from urllib.parse import quote

from millstream_conformance.server.checks import each, needs, rule, stricter
from millstream_conformance.server.servers import Server

METHODS = ["PUT", "GET", "HEAD", "POST", "DELETE"]


@rule("P1")
@each(
    "shape",
    {
        "root": "/{}",
        "two-segments": "/chat/{}",
        "versioned": "/v1/stream/{}",
        "deep": "/a/b/c/d/e/f/g/h/{}",
        "spaces": "/with%20space/{}",
        "unicode": "/日本/{}",
        "punctuation": "/a-b_c~d.e!$&'()*+,;=:@/{}",
        "looks-like-a-file": "/{}.tar.gz",
    },
)
@stricter("section 3 leaves the URL structure to the server")
def test_any_path_is_a_stream(server: Server, shape: str) -> None:
    """A path of any shape can be created, written and read."""
    unique = server.path().strip("/").replace("/", "-")
    path = quote(shape.format(unique), safe="/%!$&'()*+,;=:@~")
    stream = server.stream("text/plain", b"one", path=path)
    assert stream.append(b"two").status == 204
    assert stream.content() == b"onetwo"
    assert stream.delete().status == 204


@rule("P1")
@stricter("section 3 leaves the URL structure to the server")
def test_a_stream_and_the_streams_below_it_are_independent(server: Server) -> None:
    """`/x` and `/x/y` are two streams, not a folder and its file."""
    parent = server.stream("text/plain", b"parent")
    child = server.stream("text/plain", b"child", path=f"{parent.path}/y")
    assert parent.content() == b"parent"
    assert parent.delete().status == 204
    assert child.content() == b"child"


@rule("P2")
@each(
    "spelling",
    {
        "plain": "/__ds/{}",
        "percent-encoded": "/%5f%5fds/{}",
        "percent-encoded-upper": "/%5F%5Fds/{}",
        "half-encoded": "/__%64s/{}",
        "double-slash": "//__ds/{}",
        "below-v1-stream": "/v1/stream/__ds/{}",
        "below-v1-stream-encoded": "/v1/stream/%5f_ds/{}",
    },
)
@stricter("a spelling that slips past a prefix test would let applications shadow the control APIs")
def test_the_reserved_segment_is_never_a_stream(server: Server, spelling: str) -> None:
    """No spelling of `__ds` can be created or read as a stream."""
    stream = server.at(spelling.format(server.path().strip("/").replace("/", "-")))
    created = stream.put(b"x")
    assert created.status >= 400
    read = stream.get()
    assert read.status >= 400
    assert read.body != b"x"


@rule("P2")
@stricter("section 3 leaves the URL structure to the server")
def test_the_reserved_segment_is_only_the_first_one(server: Server) -> None:
    """`__ds` further down a path is an ordinary name."""
    for below in ("/__ds/x", "/a/__ds/x"):
        stream = server.stream("text/plain", b"mine", path=server.path() + below)
        assert stream.content() == b"mine"


@rule("P3")
@each(
    "name",
    {
        "nul": "a%00b",
        "line-feed": "a%0ab",
        "carriage-return": "a%0Db",
        "unit-separator": "a%1fb",
        "delete": "a%7fb",
        "tab": "a%09b",
        "broken-utf-8": "a%ffb",
        "truncated-utf-8": "a%e3%81",
        "dot-segment": "a/./b",
        "dot-dot-segment": "a/../b",
        "encoded-dot-dot": "a/%2e%2e/b",
        "half-encoded-dot-dot": "a/.%2E/b",
        "trailing-dot-dot": "a/..",
    },
)
@stricter("a name that tools rewrite or cannot show is a way to reach somebody else's stream")
def test_impossible_names_are_refused(server: Server, name: str) -> None:
    """A name with control characters, dot segments or broken UTF-8 is 400, whatever the method."""
    path = f"{server.path()}/{name}"
    for method in METHODS:
        body = b"x" if method in {"PUT", "POST"} else b""
        answer = server.request(method, path, {"Content-Type": "text/plain"} if body else {}, body)
        assert answer.status == 400


@rule("P3")
@stricter("without a limit a name can outgrow what stores and proxies keep")
def test_names_have_a_length_limit(server: Server) -> None:
    """1,000 bytes of name are accepted and 1,100 are 400."""
    base = server.path()
    assert server.at(base + "/" + "x" * (998 - len(base))).put().status == 201
    assert server.at(base + "/" + "x" * (1100 - len(base))).put().status == 400
    japanese = quote("日" * ((1100 - len(base)) // 3))
    assert server.at(f"{base}/{japanese}").put().status == 400, "the limit counts bytes after decoding"


@rule("P3")
@each(
    "pair",
    {
        "case": ("Name", "name"),
        "normal-form": (quote("é"), quote("e\u0301")),
        "trailing-character": ("name", "name."),
    },
)
@stricter("section 3 leaves the URL structure to the server")
def test_two_spellings_are_two_streams(server: Server, pair: tuple[str, str]) -> None:
    """Case and Unicode normal form are part of a name."""
    base = server.path()
    first = server.stream("text/plain", b"first", path=f"{base}/{pair[0]}")
    second = server.stream("text/plain", b"second", path=f"{base}/{pair[1]}")
    assert first.content() == b"first"
    assert second.content() == b"second"


@rule("P3")
@stricter("section 3 leaves the URL structure to the server; RFC 3986 calls these URLs equivalent")
def test_percent_encoding_is_not_part_of_the_name(server: Server) -> None:
    """`%61` and `a`, `%e6` and `%E6` are the same stream."""
    base = server.path()
    server.stream("text/plain", b"same", path=f"{base}/abc-{quote('日')}")
    encoded = "".join(f"%{byte:02x}" for byte in "abc-日".encode())
    assert server.at(f"{base}/{encoded}").content() == b"same"


@rule("P4")
@needs("default-port")
@stricter("section 13.1 names a port only; a server without access control must not be open to a network")
def test_the_default_interface_is_loopback(server: Server) -> None:
    """A server that was started with its defaults cannot be reached through another interface."""
    addresses = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), 4437, socket.AF_INET)}
    for address in sorted(addresses):
        if not address.startswith("127."):
            with socket.socket() as probe:
                probe.settimeout(1)
                assert probe.connect_ex((address, 4437)) != 0, f"reachable at {address}:4437"
