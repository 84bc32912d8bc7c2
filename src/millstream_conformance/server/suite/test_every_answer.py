"""The invariants of every answer of this run. Runs last."""

from __future__ import annotations

from millstream_conformance.server.checks import each, rule, stricter
from millstream_conformance.server.servers import Server


def holds(server: Server, name: str) -> None:
    """Fail with the evidence when an answer of this run broke a standing rule."""
    for evidence in server.standing.evidence.get(name, []):
        server.transcript.note(evidence)
    number = server.standing.broken[name]
    assert number == 0, f"{number} of {server.standing.seen} answers broke it: {name}"


@rule("H1")
@each("name", ["nosniff", "resource-policy", "allowed-origin", "no-credentials-for-any-origin"])
@stricter("section 12.7 says SHOULD, and the protocol does not mention CORS; browsers need both")
def test_every_answer_was_safe_for_browsers(server: Server, name: str) -> None:
    """No answer lacked a header that browsers need."""
    holds(server, name)


@rule("H2")
@stricter("programs act on a code; prose changes")
def test_every_error_was_a_problem_document(server: Server) -> None:
    """No error came as anything but application/problem+json."""
    holds(server, "problem-documents")


@rule("H4")
@each("name", ["retry-after", "no-server-errors"])
@stricter("the protocol does not mention Retry-After; clients need it", rows=["retry-after"])
@stricter(
    "no sentence forbids 500; where the text gives a status, its check asks for it", rows=["no-server-errors"]
)
def test_every_trouble_was_answered_properly(server: Server, name: str) -> None:
    """No 429 or 503 came without Retry-After, and no request broke the server."""
    holds(server, name)


@rule("F3")
@stricter("section 4.2 describes these headers for requests, but does not forbid them in answers")
def test_no_answer_showed_a_fork(server: Server) -> None:
    """No answer had a fork header."""
    holds(server, "no-fork-headers")


@rule("O2")
def test_no_answer_had_a_sentinel_as_offset(server: Server) -> None:
    """No answer had `-1`, `now` or an empty text as its next offset."""
    holds(server, "no-sentinel-offsets")


@rule("G1")
def test_no_answer_repeated_a_header(server: Server) -> None:
    """No answer repeated a header that has one value."""
    holds(server, "single-headers")


@rule("A1")
def test_no_content_had_no_length(server: Server) -> None:
    """No 204 had a Content-Length above zero."""
    holds(server, "no-content-is-empty")


@rule("A1", "G3", "G8")
def test_no_answer_had_bytes_after_its_end(server: Server) -> None:
    """No 204, 304 or HEAD answer carried a body, and no body was longer than declared."""
    assert not server.pool.inspect()
