"""HTTP/1.1 on the native server: many requests on one connection, and bodies.

What is no request is in `tests/hardening`.
"""

import time
from collections.abc import Iterator

import pytest

from running import Server, millstream
from wire.raw_connection import HungUpError, Wire, chunked, request

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


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_space_around_a_header_is_not_part_of_it(wire: Wire, path: str, connection: str) -> None:
    """RFC 9110, 5.5: for both parsers."""
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nConnection: {connection}\r\nContent-Type: text/plain\r\n"
    stamp = "Producer-Id: p\r\nProducer-Epoch: 1 \r\nProducer-Seq:\t0 \t\r\nContent-Length: 2 \r\n\r\nhi"
    wire.send((head + stamp).encode())
    answer = wire.answer()
    assert (answer.status, answer.headers["producer-epoch"], answer.headers["producer-seq"]) == (
        200,
        "1",
        "0",
    )


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


# -- Clients that leave -------------------------------------------------------------------------


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
