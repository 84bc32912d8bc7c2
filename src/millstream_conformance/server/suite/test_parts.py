"""Multipart appends: parts are staged and committed atomically (extension; X3)."""

from __future__ import annotations

import json

from millstream_conformance.server.checks import each, needs, rule
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream, stamp
from millstream_conformance.server.wire import Answer


def stage(stream: Stream, part: str, body: bytes) -> Answer:
    """Stage a part."""
    return stream.append(body, params=f"part={part}")


def commit(stream: Stream, *parts: str, headers: dict[str, str] | None = None) -> Answer:
    """Commit parts in this order."""
    body = json.dumps({"parts": parts}).encode()
    return stream.append(body, headers, content_type="application/json", params="parts=commit")


@rule("X3")
@needs("parts")
def test_parts_are_invisible_until_committed(server: Server) -> None:
    """A staged part is invisible; the commit appends all parts in the named order."""
    stream = server.stream("text/plain", b"start ")
    before = stream.tail()
    assert stage(stream, "b", b"two ").status == 204
    assert stage(stream, "a", b"one ").status == 204
    assert stream.tail() == before
    assert stream.content() == b"start "
    answer = commit(stream, "a", "b")
    assert answer.status == 204
    assert answer.next_offset == stream.tail()
    assert stream.content() == b"start one two "


@rule("X3")
@needs("parts")
def test_parts_are_consumed(server: Server) -> None:
    """A committed part is gone: committing it again is 409 PART_MISSING."""
    stream = server.stream()
    stage(stream, "a", b"x")
    assert commit(stream, "a").status == 204
    again = commit(stream, "a")
    assert again.status == 409
    assert again.json()["code"] == "PART_MISSING"
    assert stream.content() == b"x"


@rule("X3")
@needs("parts")
def test_a_missing_part_commits_nothing(server: Server) -> None:
    """One part missing: 409, nothing is appended, and the others stay staged."""
    stream = server.stream()
    stage(stream, "a", b"x")
    answer = commit(stream, "a", "nowhere")
    assert answer.status == 409
    assert answer.json()["code"] == "PART_MISSING"
    assert stream.content() == b""
    assert commit(stream, "a").status == 204
    assert stream.content() == b"x"


@rule("X3")
@needs("parts")
def test_staging_again(server: Server) -> None:
    """The same bytes under the same id are 204, other bytes 409."""
    stream = server.stream()
    assert stage(stream, "a", b"x").status == 204
    assert stage(stream, "a", b"x").status == 204
    assert stage(stream, "a", b"y").status == 409
    commit(stream, "a")
    assert stream.content() == b"x"


@rule("X3")
@needs("parts")
@each("part", {"empty": "", "space": "a%20b", "slash": "a%2Fb", "long": "x" * 201, "control": "a%00b"})
def test_a_bad_part_id_is_400(server: Server, part: str) -> None:
    """An id is 1 to 200 URL-safe characters."""
    assert stage(server.stream(), part, b"x").status == 400


@rule("X3")
@needs("parts")
def test_parts_are_validated_like_appends(server: Server) -> None:
    """Content type, JSON and emptiness are checked when a part is staged."""
    stream = server.stream("application/json")
    assert stage(stream, "a", b"[1,").status == 400
    assert stage(stream, "a", b"[]").status == 400
    assert stage(stream, "a", b"").status == 400
    assert stream.append(b"1", content_type="text/plain", params="part=a").status == 409
    assert stage(stream, "a", b"[1,2]").status == 204
    assert stage(stream, "b", b'{"n":3}').status == 204
    commit(stream, "a", "b")
    assert elements(stream.content()) == ["1", "2", '{"n":3}']
    assert stage(server.at(server.path()), "a", b"x").status == 404


@rule("X3")
@needs("parts")
def test_a_part_can_be_taken_back(server: Server) -> None:
    """DELETE with the part's id removes the part, not the stream."""
    stream = server.stream("text/plain", b"x")
    stage(stream, "a", b"y")
    assert server.request("DELETE", stream.path, query="part=a").status == 204
    assert commit(stream, "a").status == 409
    assert stream.content() == b"x"


@rule("X3", "R4")
@needs("parts")
def test_a_repeated_commit_is_a_duplicate(server: Server) -> None:
    """With a producer, a commit is 200 once and 204 when repeated."""
    stream = server.stream()
    stage(stream, "a", b"x")
    first = commit(stream, "a", headers=stamp("driver", 7, 0))
    again = commit(stream, "a", headers=stamp("driver", 7, 0))
    assert first.status == 200
    assert again.status == 204
    assert again.next_offset == first.next_offset
    assert stream.content() == b"x"
    stage(stream, "b", b"y")
    assert commit(stream, "b", headers=stamp("driver", 6, 0)).status == 403


@rule("X3", "A9")
@needs("parts")
def test_a_commit_obeys_stream_seq(server: Server) -> None:
    """A commit respects Stream-Seq as an append does."""
    stream = server.stream()
    stream.append(b"x", {"Stream-Seq": "b"})
    stage(stream, "a", b"y")
    assert commit(stream, "a", headers={"Stream-Seq": "a"}).status == 409
    assert commit(stream, "a", headers={"Stream-Seq": "c"}).status == 204


@rule("X3", "A4")
@needs("parts")
def test_a_commit_can_close(server: Server) -> None:
    """A commit can close the stream, with parts or without."""
    stream = server.stream()
    stage(stream, "a", b"x")
    closed = commit(stream, "a", headers={"Stream-Closed": "true"})
    assert closed.status == 204
    assert closed.closed
    assert stream.content() == b"x"
    other = server.stream()
    assert commit(other).status == 400
    assert commit(other, headers={"Stream-Closed": "true"}).status == 204
    assert other.head().closed
    refused = commit(other, "a")
    assert refused.status == 409
    assert refused.closed
