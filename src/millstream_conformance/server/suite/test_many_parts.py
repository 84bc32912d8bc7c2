"""Parts of many streams in one request, and fingerprints of commits (extension; X5)."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from millstream_conformance.server.checks import each, needs, rule
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream, stamp
from millstream_conformance.server.suite.test_parts import stage
from millstream_conformance.server.wire import Answer

Outcome = dict[str, Any]
PRODUCER = {"id": "driver", "epoch": 7, "seq": 0}


def staged(stream: Stream, part: str, data: bytes) -> dict[str, Any]:
    """An entry that stages a part."""
    written = base64.b64encode(data).decode()
    return {"path": stream.path, "part": part, "contentType": stream.content_type, "bytes": written}


def committed(stream: Stream, *parts: str, **more: Any) -> dict[str, Any]:
    """An entry that commits parts."""
    return {"path": stream.path, "parts": parts, **more}


def post(server: Server, action: str, *entries: Any) -> list[Outcome]:
    """The outcome of each entry."""
    body = json.dumps({"entries": entries}).encode()
    answer = server.request("POST", "/__ds/parts", {"Content-Type": "application/json"}, body, query=action)
    assert answer.status == 200
    found: list[Outcome] = answer.json()["outcomes"]
    assert len(found) == len(entries)
    return found


def commit_alone(stream: Stream, part: str, fingerprint: str, headers: dict[str, str]) -> Answer:
    """Commit a part of one stream, with a fingerprint."""
    body = json.dumps({"parts": [part], "fingerprint": fingerprint}).encode()
    return stream.append(body, headers, content_type="application/json", params="parts=commit")


@rule("X5")
@needs("many")
def test_many_streams_are_staged_and_committed(server: Server) -> None:
    """Parts of several streams are staged by one request, invisibly, and committed by another."""
    streams = [server.stream("text/plain", b"start ") for _ in range(3)]
    found = post(server, "stage", *(staged(stream, "a", b"%d" % n) for n, stream in enumerate(streams)))
    assert [one["status"] for one in found] == [204] * 3
    assert [stream.content() for stream in streams] == [b"start "] * 3
    done = post(server, "commit", *(committed(stream, "a") for stream in streams))
    assert [one["status"] for one in done] == [204] * 3
    assert [one["nextOffset"] for one in done] == [stream.tail() for stream in streams]
    assert [stream.content() for stream in streams] == [b"start 0", b"start 1", b"start 2"]


@rule("X5")
@needs("many")
def test_raw_bodies_stage_the_same(server: Server) -> None:
    """`application/vnd.millstream.parts`: a length and a JSON head, a length and the bytes, big-endian."""
    streams = [server.stream("application/octet-stream") for _ in range(2)]
    body = b""
    for stream in streams:
        entry = staged(stream, "a", b"")
        del entry["bytes"]
        head = json.dumps(entry).encode()
        body += struct.pack(">I", len(head)) + head + struct.pack(">I", 3) + b"\x00\xff\n"
    kind = {"Content-Type": "application/vnd.millstream.parts"}
    answer = server.request("POST", "/__ds/parts", kind, body, query="stage")
    assert [one["status"] for one in answer.json()["outcomes"]] == [204, 204]
    post(server, "commit", *(committed(stream, "a") for stream in streams))
    assert [stream.content() for stream in streams] == [b"\x00\xff\n"] * 2


@rule("X5")
@needs("many")
def test_one_bad_entry_spoils_no_other(server: Server) -> None:
    """A missing stream, a missing part and a malformed entry are told in their places."""
    first, last = server.stream(), server.stream()
    stage(first, "a", b"x")
    stage(last, "a", b"y")
    found = post(
        server,
        "commit",
        committed(first, "a"),
        committed(server.at(server.path()), "a"),
        committed(first, "nowhere"),
        {"parts": ["a"]},
        committed(last, "a"),
    )
    assert [one["status"] for one in found] == [204, 404, 409, 400, 204]
    assert found[2]["code"] == "PART_MISSING"
    assert (first.content(), last.content()) == (b"x", b"y")


@rule("X5", "R4")
@needs("many")
def test_an_entry_has_a_producer(server: Server) -> None:
    """A commit with a producer is 200 once, 204 when repeated, here and by a request of its own."""
    stream = server.stream()
    stage(stream, "a", b"x")
    entry = committed(stream, "a", producer=PRODUCER)
    first, again = post(server, "commit", entry, entry)
    assert (first["status"], again["status"]) == (200, 204)
    assert first["nextOffset"] == again["nextOffset"]
    assert commit_alone(stream, "a", "f", stamp("driver", 7, 0)).status == 204
    assert stream.content() == b"x"


@rule("X5", "X6")
@needs("many", "expect")
def test_an_entry_expects_an_offset_and_closes(server: Server) -> None:
    """`expectedOffset` and `closed` mean what the headers mean."""
    stream = server.stream("text/plain", b"start ")
    stage(stream, "a", b"x")
    [missed] = post(
        server, "commit", committed(stream, "a", expectedOffset=stream.created.next_offset[:-1] + "9")
    )
    assert (missed["status"], missed["code"]) == (409, "EXPECTED_OFFSET_CONFLICT")
    [closed] = post(server, "commit", committed(stream, "a", expectedOffset=stream.tail(), closed=True))
    assert (closed["status"], closed["closed"]) == (204, True)
    assert stream.head().closed
    assert stream.content() == b"start x"


@rule("X5")
@needs("many", "parts")
@each("by", {"one": "one", "many": "many"})
def test_a_duplicate_with_another_fingerprint_is_409(server: Server, by: str) -> None:
    """A repeated commit that says of itself that it holds something else is 409, and nothing changes."""
    stream = server.stream()
    stage(stream, "a", b"x")

    def commit(fingerprint: str) -> tuple[int, str | None]:
        if by == "one":
            answer = commit_alone(stream, "a", fingerprint, stamp("driver", 7, 0))
            return answer.status, answer.json()["code"] if answer.body else None
        [found] = post(server, "commit", committed(stream, "a", producer=PRODUCER, fingerprint=fingerprint))
        return found["status"], found.get("code")

    assert commit("10 rows") == (200, None)
    assert commit("10 rows") == (204, None)
    assert commit("12 rows") == (409, "FINGERPRINT_DIFFERS")
    assert commit("10 rows") == (204, None)
    assert stream.content() == b"x"


@rule("X5")
@needs("many")
@each("query", {"neither": "", "both": "stage&commit"})
def test_a_request_stages_or_commits(server: Server, query: str) -> None:
    """Neither `stage` nor `commit`, or both, is 400."""
    kind = {"Content-Type": "application/json"}
    assert server.request("POST", "/__ds/parts", kind, b'{"entries":[]}', query=query).status == 400
