"""Changing what lives: PATCH, attributes, trims, incarnations, +json types (extension; X10)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from millstream_conformance.server.checks import across_restart, each, needs, patient, rule
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream
from millstream_conformance.server.suite.waiting import eventually
from millstream_conformance.server.wire import Answer

EARLIEST = "Stream-Earliest-Offset"
INCARNATION = "Stream-Incarnation"
LATER = "2099-01-01T00:00:00Z"
WITHIN_S = 6.0


def patch(stream: Stream, **fields: str) -> Answer:
    """PATCH with headers named without `Stream-`."""
    named = {f"Stream-{name.replace('_', '-').title()}": value for name, value in fields.items()}
    return stream.server.request("PATCH", stream.path, named)


def trim(stream: Stream, before: str, body: bytes = b"") -> Answer:
    """POST ?trim=."""
    return stream.server.request("POST", stream.path, query=f"trim={quote(before, safe='')}", body=body)


def about(answer: Answer) -> dict[str, str]:
    """What an answer says of a stream's configuration."""
    names = ("Stream-TTL", "Stream-Expires-At", "Stream-Retain-Bytes", "Stream-Retain-Seconds")
    return {name: value for name in names if (value := answer.headers.get(name)) is not None}


def attributes(answer: Answer) -> dict[str, Any]:
    """The attributes that an answer says."""
    found: dict[str, Any] = json.loads(answer.headers.get("Stream-Attributes") or "{}")
    return found


@rule("X10")
@needs("patch")
def test_a_patch_changes_what_it_names(server: Server) -> None:
    """Each header sets one thing, `none` removes it, the rest stays; HEAD and PATCH say the same."""
    stream = server.stream("text/plain", b"hello")
    steps: list[tuple[dict[str, str], dict[str, str]]] = [
        ({"ttl": "3600"}, {"Stream-TTL": "3600"}),
        ({"retain_bytes": "1000"}, {"Stream-TTL": "3600", "Stream-Retain-Bytes": "1000"}),
        (
            {"retain_seconds": "60"},
            {"Stream-TTL": "3600", "Stream-Retain-Bytes": "1000", "Stream-Retain-Seconds": "60"},
        ),
        (
            {"expires_at": LATER, "retain_bytes": "none"},
            {"Stream-Expires-At": LATER, "Stream-Retain-Seconds": "60"},
        ),
        ({"expires_at": "none", "retain_seconds": "none"}, {}),
        ({}, {}),
    ]
    for fields, wanted in steps:
        answer = patch(stream, **fields)
        assert answer.status in {200, 204}
        assert about(answer) == wanted
        assert about(stream.head()) == wanted
    assert stream.content() == b"hello"


@rule("X10", "C3")
@needs("patch")
@each(
    "fields",
    {
        "both": {"ttl": "1", "expires_at": LATER},
        "ttl": {"ttl": "01"},
        "expiry": {"expires_at": "tomorrow"},
        "bytes": {"retain_bytes": "-1"},
        "seconds": {"retain_seconds": "1.5"},
        "attributes": {"attributes": '{"nested":{}}'},
        "no object": {"attributes": "[]"},
        "too large": {"attributes": '{"a":"%s"}' % ("x" * 5000)},
    },
)
def test_a_patch_is_all_or_nothing(server: Server, fields: dict[str, str]) -> None:
    """A malformed header refuses the whole PATCH with 400."""
    stream = server.stream("text/plain", b"hello")
    assert patch(stream, **{"retain_bytes": "1000", **fields}).status == 400
    assert about(stream.head()) == {}
    assert attributes(stream.head()) == {}


@rule("X10", "F2")
@needs("patch")
def test_a_closed_stream_can_be_patched_and_a_missing_one_is_404(server: Server) -> None:
    """What exists decides first; closure is no obstacle."""
    stream = server.stream("text/plain", b"hello", closed=True)
    assert patch(stream, ttl="3600").status in {200, 204}
    assert stream.head().closed
    assert patch(server.at(server.path()), ttl="x").status == 404


@rule("X10", "G8")
@needs("patch")
@patient
def test_a_ttl_that_is_set_later_expires_the_stream(server: Server) -> None:
    """And one that is removed does not."""
    short, kept = server.stream("text/plain", b"x"), server.stream(headers={"Stream-TTL": "1"})
    assert patch(kept, ttl="none").status in {200, 204}
    assert patch(short, ttl="1").status in {200, 204}
    eventually(lambda: short.head().status == 404, WITHIN_S, "the end of the stream")
    assert kept.head().status == 200


@rule("X10", "C1")
@needs("patch")
def test_creating_again_succeeds_before_and_after_a_patch(server: Server) -> None:
    """A PUT succeeds with the configuration of the creation, and with the one that was set since."""
    stream = server.stream("text/plain", headers={"Stream-TTL": "3600"})
    patch(stream, ttl="7200", attributes='{"team":"a"}')
    for ttl, status in (("3600", 200), ("7200", 200), ("60", 409)):
        assert stream.put(headers={"Stream-TTL": ttl}).status == status
    assert stream.put(headers={"Stream-TTL": "3600", "Stream-Attributes": '{"team":"b"}'}).status == 200
    assert about(stream.head()) == {"Stream-TTL": "7200"}
    assert attributes(stream.head()) == {"team": "a"}


@rule("X10", "X4")
@needs("patch", "retain")
@patient
def test_a_limit_that_is_set_later_drops_what_is_too_much(server: Server) -> None:
    """Retention applies to what was written before it was set."""
    stream = server.stream("text/plain")
    for letter in b"abcdefgh":
        stream.append(bytes([letter]) * 600)
    patch(stream, retain_bytes="1000")
    eventually(lambda: stream.get(stream.created.next_offset).status == 410, WITHIN_S, "the end of old bytes")
    assert stream.content().endswith(b"g" * 400 + b"h" * 600)


@rule("X10")
@needs("patch")
def test_attributes_are_merged_by_name(server: Server) -> None:
    """PUT sets attributes, PATCH merges them, and null removes one."""
    stream = server.stream("text/plain", headers={"Stream-Attributes": '{"team":"a","tier":1}'})
    assert attributes(stream.created) == {"team": "a", "tier": 1}
    answer = patch(stream, attributes='{"tier":null,"hot":true,"name":"\\u00e4"}')
    wanted = {"team": "a", "hot": True, "name": "\u00e4"}
    assert attributes(answer) == wanted
    assert attributes(stream.head()) == wanted


@rule("X10", "X2")
@needs("patch", "list")
def test_streams_are_found_by_their_attributes(server: Server) -> None:
    """`attr.NAME=VALUE` selects, several of them together."""
    base = server.path()
    for name, noted in {"1": {"team": "a b", "tier": 1}, "2": {"team": "a b", "tier": 2}, "3": {}}.items():
        server.stream(path=f"{base}/{name}", headers={"Stream-Attributes": json.dumps(noted)})

    def found(query: str) -> list[str]:
        page = server.request("GET", "/__ds/streams", query=f"prefix={quote(base)}/{query}").json()
        assert all("incarnation" in entry and "attributes" in entry for entry in page["streams"])
        return [entry["path"][-1] for entry in page["streams"]]

    assert found("") == ["1", "2", "3"]
    assert found("&attr.team=a%20b") == ["1", "2"]
    assert found("&attr.team=a%20b&attr.tier=2") == ["2"]
    assert found("&attr.team=a") == []
    refused = server.request("DELETE", "/__ds/streams", query=f"prefix={quote(base)}/&attr.tier=1")
    assert refused.status == 400
    assert found("") == ["1", "2", "3"]


@rule("X10", "O4")
@needs("patch")
def test_a_trim_drops_what_is_before(server: Server) -> None:
    """Whole appends before the offset go, the answer says the new start, and later reads agree."""
    stream = server.stream("text/plain", b"aaaa")
    second = stream.tail()
    third = stream.append(b"bbbb").next_offset
    stream.append(b"cccc")
    answer = trim(stream, third)
    assert answer.status == 204
    assert answer.headers.get(EARLIEST) == third
    assert answer.next_offset == stream.tail()
    assert stream.content() == b"cccc"
    assert stream.get(second).status == 410
    assert stream.head().headers.get(EARLIEST) == third
    assert trim(stream, second).headers.get(EARLIEST) == third
    assert trim(stream, "-1").headers.get(EARLIEST) == third
    assert trim(stream, "now").headers.get(EARLIEST) == stream.tail()
    assert stream.content() == b""
    stream.append(b"dddd")
    assert stream.content() == b"dddd"


@rule("X10")
@needs("patch", "restart")
@across_restart
def test_changes_survive_a_restart(server: Server) -> Iterator[None]:
    """Configuration, attributes, start and incarnation are what they were."""
    stream = server.stream("text/plain", b"aaaa")
    stream.append(b"bbbb")
    patch(stream, ttl="3600", attributes='{"team":"a"}')
    earliest = trim(stream, stream.created.next_offset).headers.get(EARLIEST)
    yield
    found = stream.head()
    assert (about(found), attributes(found)) == ({"Stream-TTL": "3600"}, {"team": "a"})
    assert found.headers.get(EARLIEST) == earliest
    assert found.headers.get(INCARNATION) == stream.created.headers.get(INCARNATION)
    assert stream.content() == b"bbbb"


@rule("X10", "O3")
@needs("patch")
@each("before", ["", "x", "9999999999999999_9999999999999999"])
def test_a_trim_that_makes_no_sense_is_400(server: Server, before: str) -> None:
    """So is one with a body; nothing is dropped."""
    stream = server.stream("text/plain", b"hello")
    assert trim(stream, before).status == 400
    assert trim(stream, "now", b"x").status == 400
    assert stream.content() == b"hello"


@rule("X10", "F1")
@needs("patch", "forks")
def test_forks_keep_what_a_trim_of_their_source_drops(server: Server) -> None:
    """What is shared stays for the fork."""
    source = server.stream("text/plain", b"hello")
    fork = server.at(server.path("fork"))
    assert fork.put(headers={"Stream-Forked-From": source.full_path}).status == 201
    assert trim(source, "now").status == 204
    assert (source.content(), fork.content()) == (b"", b"hello")


@rule("X10", "G3")
@needs("patch")
def test_a_stream_that_is_made_anew_has_another_incarnation(server: Server) -> None:
    """Every answer says it; after deletion and creation it differs, and so do the entity tags."""
    stream = server.stream("text/plain", b"hello")
    found = stream.created.headers.get(INCARNATION)
    assert found
    read = stream.get("-1")
    tail = stream.tail()
    answers = [
        stream.put(b"", headers={}),
        stream.head(),
        read,
        stream.get("now"),
        stream.poll(tail, timeout=1),
    ]
    assert {answer.headers.get(INCARNATION) for answer in answers} == {found}
    tag = read.headers.get("ETag")
    assert tag is not None
    assert stream.delete().status == 204
    anew = stream.put(b"hello")
    assert anew.headers.get(INCARNATION) not in {None, found}
    again = stream.get("-1", headers={"If-None-Match": tag})
    assert (again.status, again.body) == (200, b"hello")


@rule("X10", "L1")
@needs("patch")
def test_a_long_poll_ends_when_its_client_wants(server: Server) -> None:
    """`timeout` is in milliseconds; 0 does not wait, and anything but digits is 400."""
    stream = server.stream("text/plain", b"x")
    begun_s = time.monotonic()
    for timeout in ("0", "1"):
        answer = stream.poll(stream.tail(), timeout=timeout)
        assert (answer.status, answer.up_to_date) == (204, True)
    assert time.monotonic() - begun_s < 0.4  # a server that waits for as long as it likes takes longer
    for timeout in ("-1", "1s", "1.5", ""):
        assert stream.get(stream.tail(), live="long-poll", timeout=timeout).status == 400


@rule("X10", "A10")
@needs("patch")
def test_types_that_end_in_json_are_json(server: Server) -> None:
    """Arrays are flattened, reads are arrays, and what is not JSON is 400."""
    stream = server.stream("application/cloudevents+json", b"[1,2]")
    typed = "Application/CloudEvents+JSON; charset=utf-8"
    assert stream.append(b'[{"n":3},[4]]', content_type=typed).status == 204
    assert json.loads(stream.get("-1").body) == [1, 2, {"n": 3}, [4]]
    assert stream.append(b"[1").status == 400
    assert stream.get("-1").headers.get("Content-Type") == "application/cloudevents+json"
