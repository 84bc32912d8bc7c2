"""The suite's own tools: its verdicts depend on them."""

from __future__ import annotations

import ast
import socket
import threading
from pathlib import Path

import pytest

import millstream_conformance
from millstream_conformance.client.servers import ScriptedServer
from millstream_conformance.server import discover
from millstream_conformance.server.cases import CLOSE_MISTAKES, CLOSURE_PLAN, READ_SIDE, unclaimed
from millstream_conformance.server.connections import Address, Pool
from millstream_conformance.server.ed25519 import verify
from millstream_conformance.server.event_streams import EventParser
from millstream_conformance.server.explain import explain
from millstream_conformance.server.invariants import Invariants
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.rules import uncovered, unknown
from millstream_conformance.server.servers import Server
from millstream_conformance.server.transcripts import readable
from millstream_conformance.server.wire import Answer, Headers, Request

SOURCES = sorted(Path(millstream_conformance.__file__).parent.rglob("*.py"))


def test_every_rule_has_a_check() -> None:
    assert uncovered(discover()) == []
    assert unknown(discover()) == []


def test_every_named_case_has_a_check() -> None:
    assert CLOSURE_PLAN and CLOSE_MISTAKES and READ_SIDE
    assert unclaimed(discover()) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_suite_imports_nothing_of_ours(source: Path) -> None:
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    assert "millstream" not in names


def test_check_ids_are_unique_and_titled() -> None:
    checks = discover()
    assert len({check.id for check in checks}) == len(checks)
    assert all(check.title.endswith(".") for check in checks)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_events_are_parsed_in_pieces_of_any_size(size: int, line_end: str) -> None:
    text = "event: data\ndata:a\ndata:  b\n\n: comment\n\nevent: control\ndata:{}\n\n".replace("\n", line_end)
    wire = text.encode() + (b"\n" if line_end == "\r" else b"")
    parser = EventParser()
    events = [event for at in range(0, len(wire), size) for event in parser.feed(wire[at : at + size])]
    found = [(event.kind, event.data) for event in events if event.kind != "message"]
    assert found == [("data", "a\n b"), ("control", "{}")]


def test_a_byte_that_is_not_utf8_is_not_hidden() -> None:
    with pytest.raises(UnicodeDecodeError):
        EventParser().feed(b"data:\xff\n\n")


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        ("[]", []),
        (" [ 1 , 2 ] ", ["1", "2"]),
        ('["a,b]",{"c":[1,2]}]', ['"a,b]"', '{"c":[1,2]}']),
        (r'["\"", "\\", "\\\","]', [r'"\""', r'"\\"', r'"\\\","']),
    ],
)
def test_elements_are_cut_out_as_they_are(array: str, expected: list[str]) -> None:
    assert elements(array.encode()) == expected


def test_ed25519_knows_a_good_signature_from_a_bad_one() -> None:
    key = bytes.fromhex(
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    )  # RFC 8032, 7.1, test 1
    signature = bytes.fromhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    assert verify(key, b"", signature)
    assert not verify(key, b"x", signature)
    assert not verify(key, b"", bytes([signature[0] ^ 1]) + signature[1:])
    assert not verify(key, b"", bytes(64))


def answer(status: int, headers: dict[str, str], body: bytes = b"", method: str = "GET") -> Answer:
    return Answer(Request(method, "/x", Headers()), status, "-", Headers(headers), body, 0.0)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("retry-after", answer(429, {})),
        ("retry-after", answer(503, {})),
        ("no-server-errors", answer(500, {})),
        ("no-sentinel-offsets", answer(200, {"Stream-Next-Offset": "now"})),
        ("no-content-is-empty", answer(204, {"Content-Length": "5"})),
        ("no-fork-headers", answer(200, {"Stream-Fork-Offset": "0"})),
        ("problem-documents", answer(404, {"Content-Type": "text/plain"})),
    ],
)
def test_invariants_see_each_answer(name: str, broken: Answer) -> None:
    standing = Invariants()
    standing.observe(broken, Address("http://x"))
    assert standing.broken[name] == 1
    assert standing.evidence[name]


def test_a_failed_assertion_is_explained_with_its_values() -> None:
    found = answer(409, {})
    try:
        assert found.status == 204
    except AssertionError as error:
        text = explain(error)
    assert "assert found.status == 204" in text
    assert "found.status = 409" in text


def test_long_and_binary_bodies_stay_readable() -> None:
    assert readable(b"plain") == "plain"
    assert readable(b"\x00\xff") == r"b'\x00\xff'"
    assert readable(b"x" * 5000).endswith("more bytes)")


def test_unexpected_bytes_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(4096)
                sock.sendall(b"HTTP/1.1 204 No Content\r\n\r\nsurprise")
                sock.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        pool = Pool(Address(f"http://127.0.0.1:{port}"))
        assert Server(pool, run_id="x").request("POST", "/x").status == 204
        assert pool.inspect() == [b"surprise"]
        pool.close()
        thread.join()


def test_a_closed_scripted_server_leaves_no_thread() -> None:
    """Its thread would accept connections of the next listener with the same file descriptor."""
    before = set(threading.enumerate())
    server = ScriptedServer()
    assert set(threading.enumerate()) - before
    server.close()
    assert not set(threading.enumerate()) - before
