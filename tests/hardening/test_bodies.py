"""Bodies that try to break what reads them: JSON, compression, size (rules A3, A11, R1, L4)."""

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import zstandard

from millstream.protocol.sse import Parser, parse_control
from running import Server, millstream
from wire.raw_connection import Wire, request

MAX_BODY_BYTES = 4 * 2**20
DEEP = 100_000
JSON = "application/json"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with millstream("--max-body-bytes", str(MAX_BODY_BYTES)) as server:
        with Wire(server.url) as wire:
            assert wire.ask("PUT", "/json", Content_Type=JSON).status == 201
            assert wire.ask("PUT", "/text", Content_Type="text/plain").status == 201
        yield server


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


NO_JSON: dict[str, bytes] = {
    "arrays 100,000 deep": b"[" * DEEP + b"]" * DEEP,
    "objects 100,000 deep": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "arrays that do not end": b"[" * DEEP,
    "one level too deep": b"[" * 514 + b"]" * 514,
    "NaN": b"[NaN]",
    "Infinity": b"[Infinity]",
    "minus Infinity": b"[-Infinity]",
    "a byte that is no UTF-8": b'["\xff"]',
    "an overlong slash": b'["\xc0\xaf"]',
    "a surrogate": b'["\xed\xa0\x80"]',
    "a cut character": b'["\xe2\x82"]',
    "a byte order mark": b"\xef\xbb\xbf[1]",
    "a control character": b'["\x00"]',
    "a raw line break": b'["a\nb"]',
    "half an escape": b'["\\u12"]',
    "a leading zero": b"[01]",
    "a plus": b"[+1]",
    "hexadecimal": b"[0x10]",
    "single quotes": b"['a']",
    "a trailing comma": b"[1,]",
    "a comment": b"[1] // x",
    "two values": b"[1][2]",
    "nothing but spaces": b"   ",
    "an empty array": b"[]",
}


@pytest.mark.parametrize("which", NO_JSON)
def test_what_is_no_json_is_refused_and_nothing_is_kept(wire: Wire, which: str) -> None:
    """A3, A8."""
    before = wire.ask("HEAD", "/json").headers["stream-next-offset"]
    assert wire.ask("POST", "/json", NO_JSON[which], Content_Type=JSON).status == 400
    if which != "an empty array":  # C4: that makes an empty stream
        assert wire.ask("PUT", "/broken", NO_JSON[which], Content_Type=JSON).status == 400
        assert wire.ask("HEAD", "/broken").status == 404
    assert wire.ask("HEAD", "/json").headers["stream-next-offset"] == before


EXACT: dict[str, bytes] = {
    "more than 64 bits": b"18446744073709551617",
    "more digits than a double has": b"0.1234567890123456789012345678901234567890",
    "an exponent beyond a double": b"1e400",
    "a million digits": b"9" * 1_000_000,
    "escapes as they were written": b'"\\u0041\\/\\ud83d\\ude00"',
    "a key twice": b'{"a":1,"a":2}',
    "a prototype": b'{"__proto__":{"x":1}}',
    "512 levels": b"[" * 511 + b"]" * 511,
}


@pytest.mark.parametrize("which", EXACT)
def test_json_comes_back_as_it_was_written(wire: Wire, which: str) -> None:
    """G4: bytes stay bytes; a parser that read and printed it again would change them."""
    path = f"/exact/{list(EXACT).index(which)}"
    assert wire.ask("PUT", path, Content_Type=JSON).status == 201
    assert wire.ask("POST", path, b"[" + EXACT[which] + b"]", Content_Type=JSON).status == 204
    assert wire.ask("GET", path).body == b"[" + EXACT[which] + b"]"


# -- Compression ---------------------------------------------------------------------------------


BOMB = bytes(100 * 2**20)
BOMBS: dict[str, tuple[bytes, str, int]] = {
    "a gzip bomb": (gzip.compress(BOMB), "gzip", 413),
    "a deflate bomb": (zlib.compress(BOMB), "deflate", 413),
    "a bomb in a bomb": (gzip.compress(gzip.compress(BOMB)), "gzip, gzip", 415),
    "nothing, twice": (gzip.compress(b""), "deflate, gzip", 415),
    "too many members": (gzip.compress(b"") * 2000, "gzip", 413),
    "too many frames": (zstandard.compress(b"") * 2000, "zstd", 413),
    "a hundred layers": (b"x", ", ".join(["gzip"] * 100), 415),
    "a hundred layers of nothing": (b"x", ", ".join(["identity"] * 100), 415),
    "two members": (gzip.compress(bytes(3 * 2**20)) * 2, "gzip", 413),
    "garbage": (b"not gzip at all", "gzip", 400),
    "half of it": (gzip.compress(b"hello" * 1000)[:-12], "gzip", 400),
    "an unknown coding": (b"x", "lzw", 415),
}


@pytest.mark.parametrize("which", BOMBS)
def test_a_body_that_grows_too_much_is_refused(wire: Wire, which: str) -> None:
    """A11: by what it would become, without becoming it."""
    body, coding, status = BOMBS[which]
    answer = wire.ask("POST", "/text", body, Content_Encoding=coding)
    assert answer.status == status, answer.body
    assert wire.ask("GET", "/text").body == b""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_neither_bombs_nor_giants_fill_the_memory(server: Server) -> None:
    def peak_bytes() -> int:
        text = Path(f"/proc/{server.pid}/status").read_text()
        return int(text.split("VmHWM:")[1].split()[0]) * 1024

    before = peak_bytes()
    bomb = gzip.compress(BOMB)
    for _ in range(10):
        with Wire(server.url) as wire:
            assert wire.ask("POST", "/text", bomb, Content_Encoding="gzip").status == 413
        with Wire(server.url) as wire:
            wire.send(request("POST", "/text", Content_Type="text/plain", Transfer_Encoding="chunked"))
            piece = b"%x\r\n%b\r\n" % (2**20, bytes(2**20))
            for _ in range(5):
                wire.send(piece)
            assert wire.answer().status == 413
    assert peak_bytes() - before < 8 * MAX_BODY_BYTES


# -- Events that pretend -------------------------------------------------------------------------

FORGERIES = [
    b'x\n\nevent: control\ndata:{"streamNextOffset":"forged","streamClosed":true}\n\n',
    b'x\r\n\r\nevent: control\r\ndata:{"streamNextOffset":"forged","streamClosed":true}\r\n\r\n',
    b'x\r\revent: control\rdata:{"streamNextOffset":"forged","streamClosed":true}\r\r',
    b"id: 7\nretry: 1\n: comment\n\n",
    b"data:data:data:\n event: control\n",
    "x\u2028\u2029\x85event: control\n".encode(),
]


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_looks_like_an_event_is_data(wire: Wire, server: Server, forgery: bytes) -> None:
    """L4: payload lines are split at CRLF, CR and LF, so none of them can begin a field."""
    path = f"/forged/{FORGERIES.index(forgery)}"
    wire.ask("PUT", path, forgery, Content_Type="text/plain")
    wire.ask("POST", path, Stream_Closed="true")
    with Wire(server.url) as reader:
        reader.request("GET", f"{path}?offset=-1&live=sse")
        reader.head()
        received = b"".join(reader.chunks())
    events = list(Parser().feed(received))
    assert [event.type for event in events] == ["data", "control"]
    assert parse_control(events[1].data).stream_next_offset != "forged"
    assert events[0].data == forgery.decode().replace("\r\n", "\n").replace("\r", "\n")
    assert b"\nid:" not in received
    assert b"\nretry:" not in received


def test_json_that_looks_like_an_event_is_data(server: Server, wire: Wire) -> None:
    message = {"x": '\n\nevent: control\ndata:{"streamClosed":true}\n\n'}
    wire.ask("PUT", "/forged/json", json.dumps([message]).encode(), Content_Type=JSON, Stream_Closed="true")
    answer = httpx.get(server.url + "/forged/json?offset=-1&live=sse")
    events = list(Parser().feed(answer.content))
    assert json.loads(events[0].data) == [message]
    assert len(events) == 2
