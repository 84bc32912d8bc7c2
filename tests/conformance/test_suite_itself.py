"""The suite's own tools: what they must get right so that its verdicts can be believed."""

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
from millstream_conformance.server.checks import Check, Notes
from millstream_conformance.server.connections import Address, Pool
from millstream_conformance.server.ed25519 import verify
from millstream_conformance.server.event_streams import EventParser
from millstream_conformance.server.explain import explain
from millstream_conformance.server.invariants import Invariants
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.offers import Offers
from millstream_conformance.server.rules import RULES, uncovered, unknown
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suites import Suite
from millstream_conformance.server.transcripts import readable
from millstream_conformance.server.wire import Answer, Headers, Request

SOURCES = sorted(Path(millstream_conformance.__file__).parent.rglob("*.py"))


def test_every_rule_has_a_check() -> None:
    assert uncovered(discover()) == []
    assert unknown(discover()) == []


def test_every_named_case_has_a_check() -> None:
    assert (len(CLOSURE_PLAN), len(CLOSE_MISTAKES)) == (36, 11)  # 35 and "14a"
    assert READ_SIDE
    assert unclaimed(discover()) == []


def test_every_rule_of_the_design_is_in_the_table() -> None:
    page = Path(__file__).parents[2].parent / "shared" / "design" / "protocol.md"
    if not page.exists():
        pytest.skip("the design is not here")
    numbers = [line[2:].partition(".")[0] for line in page.read_text().splitlines() if line.startswith("- ")]
    assert [number for number in numbers if number[1:].isdigit()] == list(RULES)


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
def test_standing_rules_see_each_answer(name: str, broken: Answer) -> None:
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


def test_bytes_that_nobody_asked_for_are_found() -> None:
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


def tried(failures: int, *, patient: bool) -> tuple[int, str, str]:
    """Run a check that fails so many times at first: how often it ran, its outcome and what was said."""
    runs = 0

    def check(_: Server) -> None:
        nonlocal runs
        runs += 1
        assert runs > failures, f"failure {runs}"

    made = Check("group", "name", "", check, {}, Notes(patient=patient))
    suite = Suite("http://127.0.0.1:1", offers=Offers(frozenset()))
    try:
        suite.start([made])
        result = suite.run(made)
    finally:
        suite.close()
    return runs, result.outcome, result.message


def test_a_check_that_goes_by_the_clock_is_tried_again_and_says_so() -> None:
    assert tried(0, patient=True) == (1, "passed", "")
    runs, outcome, message = tried(2, patient=True)
    assert (runs, outcome) == (3, "passed")
    assert message.startswith("passed when tried again\n")
    assert "failure 2" in message


def test_a_check_that_fails_each_time_has_failed() -> None:
    runs, outcome, message = tried(3, patient=True)
    assert (runs, outcome) == (3, "failed")
    assert "failure 3" in message


def test_a_check_that_does_not_go_by_the_clock_has_one_try() -> None:
    assert tried(1, patient=False)[:2] == (1, "failed")


def test_a_scripted_server_that_was_closed_waits_for_nobody() -> None:
    """Its thread would take connections of the next listener that is given its descriptor's number."""
    before = set(threading.enumerate())
    server = ScriptedServer()
    assert set(threading.enumerate()) - before
    server.close()
    assert not set(threading.enumerate()) - before
