"""Bytes that are no request: one answer, then the connection is closed (RFC 9112; rules P3, H2, H4)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardening.malformed import MALFORMED
from running import Server, millstream
from wire.raw_connection import Wire, request


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with millstream("--store", "log", "--data", str(folder / "data")) as server:
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


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


@pytest.mark.parametrize("tail", [b"nonsense\r\n\r\n", b"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n"])
def test_a_malformed_request_behind_a_good_one_is_refused_once(wire: Wire, tail: bytes) -> None:
    """In one segment; the server's log has no traceback, which the fixture checks."""
    wire.send(request("GET", "/nothing") + tail)
    assert [wire.answer().status, wire.answer().status] == [404, 400]
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
    "/a/%2e%2e/b",
    "/..%2f..%2fetc%2fpasswd",
    "/%2e/a",
    "/a%00.log",
    "/a%7f",
    "/a%c2%85",
    "/%c0%ae%c0%ae/etc",
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


def test_nothing_was_made_outside_of_the_data_folder(server: Server, folder: Path) -> None:
    """After all of the above, in the order of this file."""
    assert [path.name for path in folder.iterdir()] == ["data"]
    names = {path.name for path in (folder / "data").rglob("*")}
    assert not {name for name in names if "etc" in name or "passwd" in name or "x" * 20 in name}


def test_a_name_cannot_be_injected_into_headers(wire: Wire) -> None:
    """P3, H2."""
    answer = wire.ask("PUT", "/a%0d%0aX-Forged:%201")
    assert answer.status == 400
    assert "x-forged" not in answer.headers


HEADERS = [
    ("Content-Type", "text/plain\x00"),
    ("Content-Type", "text/plain\rX-Forged: 1"),
    ("Stream-Seq", "a\nX-Forged: 1"),
    ("Producer-Id", "p\r\n\r\nHTTP/1.1 200 OK"),
]


@pytest.mark.parametrize(("name", "value"), HEADERS)
def test_a_header_cannot_be_injected_into_answers(wire: Wire, name: str, value: str) -> None:
    """What a header says comes back in answers (content type, sequence): never as a line of its own."""
    wire.send(f"PUT /injected HTTP/1.1\r\nHost: h\r\n{name}: {value}\r\nContent-Length: 0\r\n\r\n".encode())
    status, headers = wire.head()
    assert "x-forged" not in headers
    assert status in (400, 201, 200)
    with Wire(wire.url) as other:
        assert "x-forged" not in other.ask("HEAD", "/injected").headers
