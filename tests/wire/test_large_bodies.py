"""A body that a worker checks is decided like a small one that the event loop checks."""

import gzip
from collections.abc import Iterator

import pytest

from running import Server, millstream
from wire.raw_connection import Answer, Wire

JSON = "application/json"
PADDING = {"small": b"x", "large": b"x" * 200_000}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with millstream() as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["plain", "compressed"])
def coding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(size: str, coding: str, request: pytest.FixtureRequest) -> str:
    """Names of its own for each test."""
    return f"/{request.function.__name__}/{size}/{coding}"


def ask(wire: Wire, method: str, target: str, body: bytes, coding: str, **headers: str) -> Answer:
    encoded = {"Content_Encoding": "gzip"} if coding == "compressed" else {}
    sent = gzip.compress(body) if coding == "compressed" else body
    return wire.ask(method, target, sent, **{"Content_Type": JSON, **headers, **encoded})


def text(size: str) -> bytes:
    return b'"' + PADDING[size] + b'"'


def test_appends(wire: Wire, root: str, size: str, coding: str) -> None:
    """A2, A3, A5: what is missing, malformed, new, repeated or closed."""
    valid, broken = b"[" + text(size) + b", 1]", b"[" + text(size) + b", ]"
    assert ask(wire, "POST", root, valid, coding).status == 404
    assert ask(wire, "POST", root, broken, coding).status == 404
    assert wire.ask("PUT", root, Content_Type=JSON).status == 201
    assert ask(wire, "POST", root, broken, coding).status == 400
    stamp = {"Producer_Id": "p", "Producer_Epoch": "0", "Producer_Seq": "0"}
    assert ask(wire, "POST", root, valid, coding, **stamp).status == 200
    assert ask(wire, "POST", root, valid, coding, **stamp).status == 204
    assert ask(wire, "POST", root, valid, coding, Content_Type="text/plain").status == 409
    assert ask(wire, "POST", root, valid, coding, Stream_Closed="true").status == 204
    assert ask(wire, "POST", root, valid, coding).status == 409
    assert wire.ask("GET", root).body == b"[" + b",".join([text(size), b"1"] * 2) + b"]"


def test_creates(wire: Wire, root: str, size: str, coding: str) -> None:
    """C1, C4: a stream that exists is not asked what is in the body."""
    valid, broken = b"[" + text(size) + b" ,1 ]", b"[" + text(size) + b", ]"
    assert ask(wire, "PUT", root, broken, coding).status == 400
    assert wire.ask("HEAD", root).status == 404
    assert ask(wire, "PUT", root, valid, coding).status == 201
    assert wire.ask("GET", root).body == b"[" + text(size) + b",1]"
    assert ask(wire, "PUT", root, broken, coding).status == 200
    assert ask(wire, "PUT", root, valid, coding, Content_Type="text/plain").status == 409


def test_forks(wire: Wire, root: str, size: str, coding: str) -> None:
    """F1: the content type may be the source's."""
    wire.ask("PUT", root, b"[0]", Content_Type=JSON)
    encoded = {"Content_Encoding": "gzip"} if coding == "compressed" else {}
    for number, (body, status) in enumerate([(b"[" + text(size) + b"]", 201), (b"[" + text(size), 400)]):
        sent = gzip.compress(body) if encoded else body
        head = [f"PUT {root}/{number} HTTP/1.1", "Host: h", f"Stream-Forked-From: {root}"]
        head += [f"Content-Length: {len(sent)}", *(["Content-Encoding: gzip"] if encoded else []), "", ""]
        wire.send("\r\n".join(head).encode() + sent)
        assert wire.answer().status == status
    assert wire.ask("GET", f"{root}/0").body == b"[0," + text(size) + b"]"


def test_parts(wire: Wire, root: str, size: str, coding: str) -> None:
    """X3."""
    wire.ask("PUT", root, Content_Type=JSON)
    assert ask(wire, "POST", f"{root}?part=a", b"[" + text(size) + b"]", coding).status in (200, 201, 204)
    assert ask(wire, "POST", f"{root}?part=b", b"[" + text(size), coding).status == 400
    commit = b'{"parts": ["a"]' + b" " * len(PADDING[size]) + b"}"
    assert ask(wire, "POST", f"{root}?parts=commit", commit, coding).status in (200, 204)
    assert wire.ask("GET", root).body == b"[" + text(size) + b"]"


def test_a_commit_names_so_many_parts_at_most(wire: Wire) -> None:
    wire.ask("PUT", "/commit", Content_Type=JSON)
    ids = b",".join(b'"%d"' % n for n in range(10_001))
    answer = wire.ask("POST", "/commit?parts=commit", b'{"parts":[%b]}' % ids, Content_Type=JSON)
    assert answer.status == 400
    assert b"INVALID_PARTS" in answer.body
