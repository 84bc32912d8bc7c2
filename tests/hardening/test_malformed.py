"""Bytes that are no request: one answer, then the connection is closed (RFC 9112; rules P3, H2, H4)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    "a chunk that is larger than 64 bits": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nhello\r\n0\r\n\r\n",
        400,
    ),
    "a negative chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n", 400),
    "a chunk with a prefix": (POST + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", 400),
    "chunks twice": (POST + b"Transfer-Encoding: chunked, chunked" + BODY, 400),
    "chunks after a tab": (POST + b"Transfer-Encoding:\x0bchunked" + BODY, 400),
    "a declared giant": (POST + b"Content-Length: 10737418240\r\n\r\n", 413),
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
