"""Retention: streams that keep only their newest bytes or their last seconds (extension; X4, O4)."""

from __future__ import annotations

from millstream_conformance.server.checks import case, each, needs, patient, rule
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suite.waiting import eventually


@rule("X4", "O4")
@case("stale-offset-410")
@needs("retain")
@patient
@each("limit", {"bytes": {"Stream-Retain-Bytes": "1000"}, "seconds": {"Stream-Retain-Seconds": "1"}})
def test_an_offset_that_was_dropped_is_410(server: Server, limit: dict[str, str]) -> None:
    """Old bytes go, their offsets are 410, and the newest stay readable."""
    stream = server.stream("text/plain", headers=limit)
    first = stream.append(b"a" * 600).next_offset
    for letter in b"bcdefgh":
        last = stream.append(bytes([letter]) * 600)
    eventually(lambda: stream.get(stream.created.next_offset).status == 410, 6, "the end of old bytes")
    assert stream.get(last.next_offset).status == 200
    if "Stream-Retain-Bytes" in limit:
        assert stream.get(first).status == 410
    assert stream.append(b"new").status == 204
    assert stream.get(last.next_offset).body == b"new"


@rule("X4")
@needs("retain")
@each("header", ["Stream-Retain-Bytes", "Stream-Retain-Seconds"])
@each("value", ["-1", "1.5", "many", "", "+1"])
def test_a_malformed_limit_is_400(server: Server, header: str, value: str) -> None:
    """Limits are plain numbers."""
    assert server.at(server.path()).put(headers={header: value}).status == 400


@rule("X4", "C1")
@needs("retain")
def test_retention_is_configuration(server: Server) -> None:
    """Another limit for the same path is a conflict."""
    stream = server.stream(headers={"Stream-Retain-Bytes": "1000"})
    assert stream.put(headers={"Stream-Retain-Bytes": "1000"}).status == 200
    assert stream.put(headers={"Stream-Retain-Bytes": "2000"}).status == 409
