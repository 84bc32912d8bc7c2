"""HTTP/1.1 on the native server: many requests on one connection, and requests that are none."""

import contextlib
import time
from collections.abc import Iterator

import pytest

from running import Server, millstream
from server.wire import HungUpError, Wire, chunked, request

MAX_BODY_BYTES = 1_000_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with millstream("--long-poll-timeout-ms", "300", "--max-body-bytes", str(MAX_BODY_BYTES)) as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture
def path(wire: Wire, request: pytest.FixtureRequest) -> str:
    """A new text stream."""
    path = f"/http/{time.monotonic_ns()}"
    assert wire.ask("PUT", path, Content_Type="text/plain").status == 201
    return path


# -- Many requests on one connection -------------------------------------------------------------


def test_a_connection_is_used_again(wire: Wire, path: str) -> None:
    for number in range(5):
        assert wire.ask("POST", path, b"%d" % number).status == 204
    assert wire.ask("GET", path).body == b"01234"


def test_a_connection_is_closed_when_the_client_says_so(wire: Wire, path: str) -> None:
    answer = wire.ask("GET", path, Connection="close")
    assert answer.headers["connection"] == "close"
    assert wire.is_closed()


def test_pipelined_requests_are_answered_in_order(wire: Wire, path: str) -> None:
    """Hundreds in one write: more than are read ahead."""
    posts = [request("POST", path, b"%03d" % number) for number in range(300)]
    wire.send(b"".join(posts) + request("GET", path))
    tails = [wire.answer().headers["stream-next-offset"] for _ in posts]
    assert tails == sorted(tails)
    assert len(set(tails)) == 300
    assert wire.answer().body == b"".join(b"%03d" % number for number in range(300))


def test_requests_behind_a_waiting_one_wait_with_it(wire: Wire, path: str) -> None:
    """L1: the order of answers is the order of requests."""
    after = request("POST", path, b"late")
    wire.send(request("GET", f"{path}?offset=now&live=long-poll") + after * 100 + request("HEAD", path))
    assert wire.answer().status == 204
    assert [wire.answer().status for _ in range(100)] == [204] * 100
    assert wire.answer(has_body=False).headers["stream-next-offset"].endswith("400")


def test_a_broken_request_behind_a_waiting_one_waits_with_it(wire: Wire, path: str) -> None:
    wait = request("GET", f"{path}?offset=now&live=long-poll")
    wire.send(wait + request("POST", path, b"good") + b"BROKEN\r\n\r\n")
    wire.send(b"and more of it\r\n\r\n")
    assert [wire.answer().status for _ in range(3)] == [204, 204, 400]
    assert wire.is_closed()


def test_a_request_may_come_byte_by_byte(wire: Wire, path: str) -> None:
    for byte in request("POST", path, b"slow"):
        wire.send(bytes([byte]))
    assert wire.answer().status == 204
    assert wire.ask("GET", path).body == b"slow"


def test_the_end_of_a_clients_requests_is_not_the_end_of_their_answers(wire: Wire, path: str) -> None:
    wire.send(request("POST", path, b"last") + request("GET", path))
    wire.socket.shutdown(1)
    assert wire.answer().status == 204
    assert wire.answer().body == b"last"
    assert wire.is_closed()


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
def test_an_offer_to_upgrade_is_declined_and_the_connection_goes_on(
    wire: Wire, path: str, upgrade: str
) -> None:
    """Clients that offer HTTP/2 in the clear (curl, Java) do so on every request."""
    offer = request("POST", path, b"x", Connection="Upgrade, HTTP2-Settings", Upgrade=upgrade)
    wire.send(offer)
    assert wire.answer().status == 204
    wire.send(offer + offer + request("GET", path))
    assert [wire.answer().status for _ in range(2)] == [204, 204]
    assert wire.answer().body == b"xxx"


def test_http_1_0_is_answered_and_closed(wire: Wire, path: str) -> None:
    wire.send(b"GET %b HTTP/1.0\r\n\r\n" % path.encode())
    assert wire.answer().status == 200
    assert wire.is_closed()


def test_a_proxy_may_name_the_whole_url(wire: Wire, path: str) -> None:
    wire.send(request("POST", f"http://localhost{path}", b"by proxy"))
    assert wire.answer().status == 204
    assert wire.ask("GET", path).body == b"by proxy"


# -- Bodies --------------------------------------------------------------------------------------


def test_a_chunked_body_is_put_together(wire: Wire, path: str) -> None:
    head = request("POST", path, Content_Type="text/plain", Transfer_Encoding="chunked")
    wire.send(head + chunked(b"one ", b"two ", b"three"))
    assert wire.answer().status == 204
    wire.send(head + b"2;name=value\r\nOK\r\n000\r\n\r\n")
    assert wire.answer().status == 204
    assert wire.ask("GET", path).body == b"one two threeOK"


def test_trailers_are_read_and_ignored(wire: Wire, path: str) -> None:
    """A field that comes after the body was not there when the request was checked."""
    head = request("POST", path, Content_Type="text/plain", Transfer_Encoding="chunked")
    wire.send(head + b"2\r\nhi\r\n0\r\nStream-Closed: true\r\nHost: other\r\n\r\n")
    assert "stream-closed" not in wire.answer().headers
    assert wire.ask("POST", path, b"!").status == 204


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_client_that_asks_first_is_told_to_go_on(wire: Wire, path: str, method: str) -> None:
    wire.send(request(method, path, b"", Content_Length="5", Expect="100-continue"))
    assert wire.answer().status == 100
    wire.send(b"hello")
    assert wire.answer().status == {"POST": 204, "PUT": 200}[method]


def test_a_client_that_asks_first_is_told_no(wire: Wire, path: str) -> None:
    """A11: before it has sent what would be too much."""
    wire.send(request("POST", path, b"", Content_Length=str(10 * 2**30), Expect="100-continue"))
    assert wire.answer().status == 413
    assert wire.is_closed()


def test_a_client_that_asks_behind_a_waiting_request_is_told_in_its_turn(wire: Wire, path: str) -> None:
    wait = request("GET", f"{path}?offset=now&live=long-poll")
    wire.send(wait + request("POST", path, b"", Content_Length="5", Expect="100-continue"))
    assert [wire.answer().status for _ in range(2)] == [204, 100]
    wire.send(b"hello")
    assert wire.answer().status == 204


def test_a_declared_giant_is_refused_at_once(wire: Wire, path: str) -> None:
    """A11."""
    wire.send(request("POST", path, b"", Content_Length=str(10 * 2**30)))
    answer = wire.answer()
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert wire.is_closed()


def test_a_client_that_sends_a_giant_anyway_still_hears_why(wire: Wire, path: str) -> None:
    """A11: the answer is not lost in a reset."""
    wire.send(request("POST", path, bytes(2 * MAX_BODY_BYTES)))
    assert wire.answer().status == 413
    assert wire.is_closed()


def test_a_chunked_giant_is_refused_as_soon_as_it_is_one(wire: Wire, path: str) -> None:
    """A11."""
    wire.send(request("POST", path, Content_Type="text/plain", Transfer_Encoding="chunked"))
    piece = b"%x\r\n%b\r\n" % (100_000, bytes(100_000))
    for _ in range(MAX_BODY_BYTES // 100_000 + 1):
        wire.send(piece)
    assert wire.answer().status == 413
    assert wire.is_closed()


def test_a_body_of_exactly_the_limit_is_taken(wire: Wire, path: str) -> None:
    """A11."""
    assert wire.ask("POST", path, bytes(MAX_BODY_BYTES)).status == 204
    assert wire.ask("POST", path, bytes(MAX_BODY_BYTES + 1)).status == 413


# -- What is no request --------------------------------------------------------------------------

GET = b"GET /a HTTP/1.1\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\n"
BODY = b"\r\n\r\nhello"

MALFORMED: dict[str, tuple[bytes, int]] = {
    "length and chunks": (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked" + BODY, 400),
    "chunks and length": (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5" + BODY, 400),
    "two lengths": (POST + b"Content-Length: 5\r\nContent-Length: 6" + BODY, 400),
    "two equal lengths": (POST + b"Content-Length: 5\r\nContent-Length: 5" + BODY, 400),
    "a list of lengths": (POST + b"Content-Length: 5, 5" + BODY, 400),
    "a signed length": (POST + b"Content-Length: +5" + BODY, 400),
    "a negative length": (POST + b"Content-Length: -1" + BODY, 400),
    "an underscored length": (POST + b"Content-Length: 1_0" + BODY, 400),
    "a hexadecimal length": (POST + b"Content-Length: 0x5" + BODY, 400),
    "an empty length": (POST + b"Content-Length: " + BODY, 400),
    "an endless length": (POST + b"Content-Length: " + b"9" * 30 + BODY, 400),
    "unknown chunks": (POST + b"Transfer-Encoding: xchunked" + BODY, 400),
    "chunks that are not last": (POST + b"Transfer-Encoding: chunked, gzip" + BODY, 400),
    "quoted chunks": (POST + b'Transfer-Encoding: "chunked"' + BODY, 400),
    "a chunk that is not hexadecimal": (POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
    "a signed chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", 400),
    "an endless chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n", 400),
    "a chunk that goes on": (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n", 400),
    "a bare LF": (GET + b"Host: h\nX: y\r\n\r\n", 400),
    "only bare LFs": (b"GET /a HTTP/1.1\nHost: h\n\n", 400),
    "a bare CR": (GET + b"Host: h\rX: y\r\n\r\n", 400),
    "a space before the colon": (GET + b"Host : h\r\n\r\n", 400),
    "a name with a space": (GET + b"Host: h\r\nX Y: z\r\n\r\n", 400),
    "no colon": (GET + b"Host: h\r\nnonsense\r\n\r\n", 400),
    "a folded line": (GET + b"Host: h\r\nX: a\r\n b\r\n\r\n", 400),
    "a first line that is folded": (GET + b" Host: h\r\n\r\n", 400),
    "NUL in a value": (GET + b"Host: h\r\nX: a\x00b\r\n\r\n", 400),
    "NUL in a name": (GET + b"Host: h\r\nX\x00: a\r\n\r\n", 400),
    "NUL in the target": (b"GET /a\x00b HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "a space in the target": (b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "no host": (GET + b"X: y\r\n\r\n", 400),
    "two hosts": (GET + b"Host: h\r\nHost: i\r\n\r\n", 400),
    "the same host twice": (GET + b"Host: h\r\nHost: h\r\n\r\n", 400),
    "an unknown version": (b"GET /a HTTP/3.0\r\nHost: h\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /a\r\n\r\n", 400),
    "an unknown method": (b"BREW /a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60), 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a long URL": (b"GET /" + b"a" * 2**20 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 414),
    "a URL that is a little too long": (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 414),
    "a long header": (GET + b"Host: h\r\nX: " + b"a" * 2**20 + b"\r\n\r\n", 431),
    "a header that is a little too long": (GET + b"Host: h\r\nX: " + b"a" * 40_000 + b"\r\n\r\n", 431),
    "many headers": (
        GET + b"Host: h\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(10_000)) + b"\r\n",
        431,
    ),
    "a few too many headers": (
        GET + b"Host: h\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(500)) + b"\r\n",
        431,
    ),
    "one header many times": (GET + b"Host: h\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", 431),
}


@pytest.mark.parametrize("how", ["alone", "with a request behind it"])
@pytest.mark.parametrize("which", MALFORMED)
def test_a_malformed_request_gets_one_answer_and_is_closed(wire: Wire, which: str, how: str) -> None:
    """So that nothing behind it can be taken for a request (RFC 9112, 11.2)."""
    data, status = MALFORMED[which]
    with contextlib.suppress(ConnectionError):  # it may be refused before we are done
        wire.send(data + (request("PUT", "/smuggled") if how != "alone" else b""))
    answer = wire.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert answer.headers["content-type"] == "application/problem+json"
    assert wire.is_closed()


def test_nothing_was_smuggled(server: Server, wire: Wire) -> None:
    """After all of the above, in the order of this file."""
    assert wire.ask("GET", "/smuggled").status == 404


NAMES = [
    "/%",
    "/%zz",
    "/%f",
    "/%ff",
    "/%00",
    "/a%0d%0ab",
    "/../a",
    "/a/..",
    "/%2e%2e%2fetc",
    "/" + "x" * 4096,
    "/",
]


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "HEAD", "DELETE"])
@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:20])
def test_what_is_no_name_is_refused_and_the_connection_goes_on(wire: Wire, name: str, method: str) -> None:
    """P3: the request was well-formed HTTP."""
    body = b"x" if method in ("PUT", "POST") else None
    assert wire.ask(method, name, body).status == 400
    assert wire.ask("GET", "/nothing").status == 404


def test_a_name_cannot_be_injected_into_headers(wire: Wire) -> None:
    """P3, H2."""
    answer = wire.ask("PUT", "/a%0d%0aX-Forged:%201")
    assert answer.status == 400
    assert "x-forged" not in answer.headers


def test_a_body_cut_short_changes_nothing(server: Server, wire: Wire, path: str) -> None:
    """R4."""
    with Wire(server.url) as other:
        other.send(request("POST", path, b"", Content_Length="10") + b"half")
        other.socket.shutdown(1)
        assert other.is_closed()
    with Wire(server.url) as other:
        other.send(
            request("POST", path, Content_Type="text/plain", Transfer_Encoding="chunked") + b"4\r\nhalf\r\n"
        )
        other.socket.shutdown(1)
        assert other.is_closed()
    assert wire.ask("GET", path).body == b""


def test_garbage_does_not_stop_the_server(server: Server) -> None:
    for garbage in (b"\x00" * 5000, b"\r\n" * 5000, bytes(range(256)) * 20, b"GET " * 3000):
        with Wire(server.url) as wire:
            wire.send(garbage)
            wire.socket.shutdown(1)
            wire.rest()
    with Wire(server.url) as wire:
        assert wire.ask("GET", "/nothing").status == 404


def test_a_client_that_hangs_up_in_the_middle_is_forgotten(server: Server) -> None:
    for cut in range(1, 60, 7):
        with Wire(server.url) as wire:
            wire.send(request("POST", "/a", b"hello")[:cut])
    with Wire(server.url) as wire, pytest.raises(HungUpError):
        wire.send(b"\r\n")
        wire.socket.shutdown(1)
        wire.answer()
