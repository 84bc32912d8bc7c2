"""Retention: streams limited to their newest bytes or their last seconds (extension; X4, O4)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from millstream_conformance.server.checks import across_restart, case, each, needs, patient, rule
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream
from millstream_conformance.server.suite.waiting import eventually

EARLIEST = "Stream-Earliest-Offset"
WITHIN_S = 6.0


def overfull(server: Server, content_type: str = "text/plain", **headers: str) -> Stream:
    """A stream that keeps a thousand bytes and was given eight times 600; some of them are gone by now."""
    stream = server.stream(content_type, headers={"Stream-Retain-Bytes": "1000", **headers})
    for letter in "abcdefgh":
        stream.append((f'"{letter * 598}"' if content_type == "application/json" else letter * 600).encode())
    wait_until_gone(stream, stream.created.next_offset)
    return stream


def wait_until_gone(stream: Stream, offset: str) -> None:
    """Wait until an offset is refused."""
    eventually(lambda: stream.get(offset).status == 410, WITHIN_S, "the end of old bytes")


def earliest_of(stream: Stream) -> str:
    """Where a stream says that it begins."""
    return stream.head().headers.get(EARLIEST) or ""


@rule("X4", "O4")
@case("stale-offset-410")
@needs("retain")
@patient
@each("limit", {"bytes": {"Stream-Retain-Bytes": "1000"}, "seconds": {"Stream-Retain-Seconds": "1"}})
def test_an_offset_that_was_dropped_is_410(server: Server, limit: dict[str, str]) -> None:
    """Offsets of dropped bytes are 410, and the newest bytes stay readable."""
    stream = server.stream("text/plain", headers=limit)
    first = stream.append(b"a" * 600).next_offset
    for letter in b"bcdefgh":
        last = stream.append(bytes([letter]) * 600)
    wait_until_gone(stream, stream.created.next_offset)
    assert stream.get(last.next_offset).status == 200
    if "Stream-Retain-Bytes" in limit:
        wait_until_gone(stream, first)  # perhaps not at once: a server may have looked between two appends
    assert stream.append(b"new").status == 204
    assert stream.get(last.next_offset).body == b"new"


@rule("X4", "O4")
@needs("retain")
@patient
@each("mode", {"catch-up": None, "long-poll": "long-poll", "sse": "sse"})
def test_a_410_says_where_the_rest_begins(server: Server, mode: str | None) -> None:
    """The 410 has the code OFFSET_GONE and the earliest readable offset."""
    stream = overfull(server)
    gone = stream.get(stream.created.next_offset, live=mode)
    assert gone.status == 410
    assert json.loads(gone.body)["code"] == "OFFSET_GONE"
    earliest = gone.headers.get(EARLIEST)
    assert earliest == earliest_of(stream)
    assert earliest is not None
    assert stream.get(earliest).body == stream.content()


@rule("X4")
@needs("retain")
@patient
def test_at_least_the_newest_bytes_are_kept_and_old_ones_go(server: Server) -> None:
    """At least the newest bytes within the limit are kept, from a whole append on, and older ones dropped."""
    stream = overfull(server)
    kept = stream.content()
    assert kept.endswith(b"g" * 400 + b"h" * 600)
    assert len(kept) % 600 == 0
    assert len(kept) < 8 * 600


@rule("X4", "O2")
@needs("retain")
@patient
def test_the_start_is_the_beginning_of_what_is_kept(server: Server) -> None:
    """offset=-1 reads from the earliest kept offset, now is still the tail."""
    stream = overfull(server)
    answer = stream.get("-1")
    assert answer.status == 200
    assert answer.next_offset == stream.tail()
    assert answer.body == stream.get(earliest_of(stream)).body
    assert stream.get("now").next_offset == stream.tail()


@rule("X4", "O1")
@needs("retain", "numbered-offsets")
@patient
def test_offsets_go_on_counting(server: Server) -> None:
    """Offsets do not change when older bytes are dropped."""
    stream = overfull(server)
    assert int(stream.tail().rpartition("_")[2]) == 8 * 600
    before = stream.tail()
    assert stream.append(b"more").next_offset > before
    assert stream.get(before).body == b"more"


@rule("X4", "G4")
@needs("retain")
@patient
def test_json_streams_lose_whole_messages(server: Server) -> None:
    """What is left of a JSON stream is an array of whole messages."""
    stream = overfull(server, "application/json")
    left = elements(stream.get("-1").body)
    assert left[-1] == f'"{"h" * 598}"'
    assert all(len(element) == 600 for element in left)
    assert len(left) < 8


@rule("X4")
@needs("retain")
@patient
def test_what_is_young_is_kept(server: Server) -> None:
    """A limit of seconds keeps what is younger, however much it is."""
    stream = server.stream("text/plain", headers={"Stream-Retain-Seconds": "3600"})
    for _ in range(20):
        stream.append(b"x" * 1000)
    time.sleep(1)
    assert len(stream.content()) == 20_000


@rule("X4", "L6")
@needs("retain")
@patient
def test_a_reader_at_the_tail_reads_on(server: Server) -> None:
    """Dropping bytes that a live reader has read does not affect it."""
    stream = server.stream("text/plain", headers={"Stream-Retain-Bytes": "1000"})
    with stream.events("now") as events:
        events.until_control()
        for letter in "abcdef":
            stream.append((letter * 600).encode())
            assert [event.data for event in events.until_control()][:-1] == [letter * 600]
        wait_until_gone(stream, stream.created.next_offset)
        stream.append(b"on")
        assert [event.data for event in events.until_control()][:-1] == ["on"]


@rule("X4", "F1")
@needs("retain", "forks")
@patient
def test_a_fork_keeps_what_it_shares(server: Server) -> None:
    """What its source drops after the fork stays readable through the fork, without a gap."""
    source = server.stream("text/plain", headers={"Stream-Retain-Bytes": "1000"})
    first = source.append(b"a" * 600).next_offset
    fork = server.at(server.path("fork"), "text/plain")
    limit = {"Stream-Retain-Bytes": "1000000"}
    assert fork.put(headers={"Stream-Forked-From": source.full_path, **limit}).status == 201
    fork.append(b"F")
    for letter in b"bcdefgh":
        source.append(bytes([letter]) * 600)
    wait_until_gone(source, source.created.next_offset)
    assert fork.content() == b"a" * 600 + b"F"
    late = server.at(server.path("fork"), "text/plain")
    wait_until_gone(source, first)
    refused = late.put(headers={"Stream-Forked-From": source.full_path, "Stream-Fork-Offset": first})
    assert refused.status == 410


@rule("X4", "G8")
@needs("retain")
def test_head_shows_the_limits(server: Server) -> None:
    """HEAD shows the limits as configured."""
    limits = {"Stream-Retain-Bytes": "1000", "Stream-Retain-Seconds": "3600"}
    head = server.stream(headers=limits).head()
    assert {name: head.headers.get(name) for name in limits} == limits


@rule("X4")
@needs("retain")
@each("header", ["Stream-Retain-Bytes", "Stream-Retain-Seconds"])
@each("value", ["-1", "1.5", "many", "", "+1", "0", "010", "1e3", "9007199254740992"])
def test_a_malformed_limit_is_400(server: Server, header: str, value: str) -> None:
    """Limits are plain numbers, from 1 to 2^53-1, and a refused request creates nothing."""
    stream = server.at(server.path())
    assert stream.put(headers={header: value}).status == 400
    assert stream.head().status == 404


@rule("X4", "C1")
@needs("retain")
@each(
    "other",
    {
        "none": {},
        "another": {"Stream-Retain-Bytes": "2000"},
        "more": {"Stream-Retain-Bytes": "1000", "Stream-Retain-Seconds": "60"},
    },
)
def test_retention_is_configuration(server: Server, other: dict[str, str]) -> None:
    """Another limit for the same path is a conflict."""
    stream = server.stream(headers={"Stream-Retain-Bytes": "1000"})
    assert stream.put(headers={"Stream-Retain-Bytes": "1000"}).status == 200
    assert stream.put(headers=other).status == 409


@rule("X4", "O4")
@needs("retain", "restart")
@across_restart
def test_what_was_dropped_stays_dropped(server: Server) -> Iterator[None]:
    """After a restart a stream begins where it did or later, and keeps what is within its limits."""
    stream = overfull(server)
    earliest, tail = earliest_of(stream), stream.tail()
    yield
    assert stream.get(stream.created.next_offset).status == 410
    assert earliest_of(stream) >= earliest
    assert stream.tail() == tail
    assert stream.content().endswith(b"g" * 400 + b"h" * 600)
    assert stream.head().headers.get("Stream-Retain-Bytes") == "1000"
