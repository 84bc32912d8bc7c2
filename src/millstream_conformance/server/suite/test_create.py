"""PUT: create, confirm, conflict (protocol 5.1)."""

from __future__ import annotations

from collections.abc import Mapping

from millstream_conformance.server.checks import case, each, patient, rule, stricter
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suite.waiting import sleep_until_gone

FUTURE = "2099-01-02T03:04:05Z"
CLOSED = {"Stream-Closed": "true"}


@rule("C1", "A1")
def test_creating_answers_201_with_the_tail(server: Server) -> None:
    """A new stream is 201 with its content type and its next offset."""
    stream = server.at(server.path(), "text/plain")
    answer = stream.put()
    assert answer.status == 201
    assert answer.content_type == "text/plain"
    assert answer.next_offset == stream.tail()
    assert not answer.closed


@rule("C1")
@each(
    "configuration",
    {
        "plain": {},
        "ttl": {"Stream-TTL": "3600"},
        "expiry": {"Stream-Expires-At": FUTURE},
        "closed": CLOSED,
        "ttl-and-closed": {"Stream-TTL": "3600", **CLOSED},
    },
)
def test_the_same_configuration_again_is_200(server: Server, configuration: Mapping[str, str]) -> None:
    """Repeating a PUT is 200 and leaves the content alone, whatever body it carries."""
    stream = server.stream("text/plain", b"first", headers=configuration)
    again = stream.put(b"second", headers=configuration)
    assert again.status == 200
    assert again.next_offset == stream.created.next_offset
    assert again.closed is ("Stream-Closed" in configuration)
    assert stream.content() == b"first"


@rule("C1")
@each(
    "change",
    {
        "content-type": ({}, {"Content-Type": "application/octet-stream"}),
        "ttl-value": ({"Stream-TTL": "3600"}, {"Stream-TTL": "3601"}),
        "ttl-added": ({}, {"Stream-TTL": "3600"}),
        "ttl-dropped": ({"Stream-TTL": "3600"}, {}),
        "expiry-value": ({"Stream-Expires-At": FUTURE}, {"Stream-Expires-At": "2098-01-01T00:00:00Z"}),
        "expiry-added": ({}, {"Stream-Expires-At": FUTURE}),
        "expiry-dropped": ({"Stream-Expires-At": FUTURE}, {}),
        "closed-added": ({}, CLOSED),
        "closed-dropped": (CLOSED, {}),
    },
)
def test_another_configuration_is_409(
    server: Server, change: tuple[Mapping[str, str], Mapping[str, str]]
) -> None:
    """Any difference in content type, lifetime or closure is a conflict, and changes nothing."""
    before, after = change
    stream = server.stream("text/plain", b"first", headers=before)
    assert stream.put(headers=after).status == 409
    assert stream.content() == b"first"
    assert stream.put(headers=before).status == 200


@rule("C1")
def test_closing_later_counts_as_configuration(server: Server) -> None:
    """After a close, the PUT that created the stream is a conflict, and the closed one a match."""
    stream = server.stream("text/plain", b"x")
    stream.close()
    assert stream.put().status == 409
    assert stream.put(headers=CLOSED).status == 200


@rule("C1", "C6")
def test_content_types_compare_without_case(server: Server) -> None:
    """`Text/Plain` and `text/plain` are the same configuration."""
    stream = server.stream("Text/Plain")
    assert stream.put(content_type="text/plain").status == 200
    assert (stream.head().content_type or "").lower() == "text/plain"


@rule("C2")
@stricter("section 5.1 says SHOULD")
def test_location_is_the_absolute_url(server: Server) -> None:
    """201 names the stream by an absolute URL that ends in its path."""
    stream = server.stream()
    location = stream.created.headers.get("Location")
    assert location == f"{server.address.scheme}://{server.address.host}{stream.full_path}"


@rule("C2")
@stricter("behind a proxy the client's own host is the only one that works for the client")
def test_location_uses_the_host_that_the_client_named(server: Server) -> None:
    """The Host header decides the Location; X-Forwarded-Host does not, unless configured."""
    stream = server.at(server.path())
    headers = {
        "Host": "localhost:8080",  # a server may refuse names that are not its own
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "gopher",
    }
    location = stream.put(headers=headers).headers.get("Location")
    assert location == f"{server.address.scheme}://localhost:8080{stream.full_path}"


@rule("C3")
@each(
    "ttl",
    {
        "plus": "+60",
        "minus": "-1",
        "leading-zero": "060",
        "point": "60.0",
        "exponent": "6e1",
        "hexadecimal": "0x10",
        "word": "soon",
        "empty": "",
        "underscore": "6_0",
        "two-numbers": "60 60",
        "arabic-digits": "٦٠".encode().decode("latin-1"),
        "superscript": "6²".encode().decode("latin-1"),
    },
)
@stricter("section 5.1 does not say that an empty value is not the same as none", rows=["empty"])
def test_bad_ttls_are_400(server: Server, ttl: str) -> None:
    """A TTL is a plain decimal number; anything else is 400 and creates nothing."""
    stream = server.at(server.path())
    assert stream.put(headers={"Stream-TTL": ttl}).status == 400
    assert stream.head().status == 404


@rule("C3")
@each("ttl", ["1", "10", "3600", "9007199254740991"])
@stricter("section 5.1 names no largest TTL, and does not forbid one", rows=["9007199254740991"])
def test_good_ttls_are_kept_as_given(server: Server, ttl: str) -> None:
    """A valid TTL is accepted and HEAD shows it as configured."""
    stream = server.stream(headers={"Stream-TTL": ttl})
    assert stream.head().headers.get("Stream-TTL") == ttl


@rule("C3")
@each(
    "expiry",
    {
        "word": "tomorrow",
        "empty": "",
        "date-only": "2099-01-01",
        "no-zone": "2099-01-01T00:00:00",
        "month-13": "2099-13-01T00:00:00Z",
        "february-30": "2099-02-30T00:00:00Z",
        "hour-25": "2099-01-01T25:00:00Z",
        "unix-time": "4070908800",
        "http-date": "Thu, 01 Jan 2099 00:00:00 GMT",
    },
)
@stricter("section 5.1 does not say that an empty value is not the same as none", rows=["empty"])
def test_bad_expiries_are_400(server: Server, expiry: str) -> None:
    """An expiry is an RFC 3339 timestamp; anything else is 400 and creates nothing."""
    stream = server.at(server.path())
    assert stream.put(headers={"Stream-Expires-At": expiry}).status == 400
    assert stream.head().status == 404


@rule("C3", "G8")
@each(
    "expiry",
    [
        "2099-01-02T03:04:05Z",
        "2099-01-02T03:04:05.678Z",
        "2099-01-02T03:04:05+02:00",
        "2099-01-02T03:04:05-11:30",
    ],
)
def test_good_expiries_are_accepted(server: Server, expiry: str) -> None:
    """`Z` and numeric zones are accepted, and HEAD shows the expiry."""
    stream = server.stream(headers={"Stream-Expires-At": expiry})
    assert "Stream-Expires-At" in stream.head().headers
    assert stream.put(headers={"Stream-Expires-At": expiry}).status == 200


@rule("C3")
@stricter("section 5.1 says SHOULD, and allows a documented precedence")
def test_ttl_and_expiry_together_are_400(server: Server) -> None:
    """Stream-TTL and Stream-Expires-At together are 400."""
    stream = server.at(server.path())
    assert stream.put(headers={"Stream-TTL": "60", "Stream-Expires-At": FUTURE}).status == 400
    assert stream.head().status == 404


@rule("C4")
def test_the_body_is_the_first_content(server: Server) -> None:
    """The body of a PUT is read back, and the next offset is its end."""
    stream = server.stream("application/octet-stream", b"\x00\xff first")
    assert stream.content() == b"\x00\xff first"
    assert stream.created.next_offset == stream.tail()
    assert stream.get(stream.created.next_offset).body == b""


@rule("C4")
def test_an_empty_array_creates_an_empty_json_stream(server: Server) -> None:
    """`[]` creates an empty stream: 201, and a read gives `[]`."""
    stream = server.stream("application/json", b"[]")
    empty = server.stream("application/json")
    assert elements(stream.content()) == []
    assert stream.created.next_offset == empty.created.next_offset


@rule("C4", "A10")
def test_a_json_body_is_flattened_like_an_append(server: Server) -> None:
    """An array in PUT is a batch of messages."""
    stream = server.stream("application/json", b'[{"a":1},[2]]')
    assert stream.get().json() == [{"a": 1}, [2]]


@rule("C4", "A3")
def test_an_invalid_json_body_is_not_stored(server: Server) -> None:
    """After a PUT whose body is not JSON, a read is 404 or an array."""
    stream = server.at(server.path(), "application/json")
    stream.put(b'{"a":')
    answer = stream.get()
    assert answer.status == 404 or elements(answer.body) == []


@rule("C4", "A3")
@stricter("section 9.1.4 gives the status for appended data only")
def test_an_invalid_json_body_is_400_and_creates_nothing(server: Server) -> None:
    """A PUT whose body is not JSON is 400, and there is no stream afterwards."""
    stream = server.at(server.path(), "application/json")
    assert stream.put(b'{"a":').status == 400
    assert stream.head().status == 404


@rule("C4")
@case("create-closed-stream", "create-closed-stream-empty", "create-closed-returns-header")
def test_a_stream_can_be_created_closed(server: Server) -> None:
    """`Stream-Closed: true` on PUT creates an empty closed stream, and the answer says so."""
    stream = server.stream("text/plain", closed=True)
    assert stream.created.closed
    assert stream.head().closed
    assert stream.append(b"late").status == 409
    answer = stream.get()
    assert answer.status == 200
    assert answer.body == b""
    assert answer.closed


@rule("C4")
@case("create-closed-stream-with-body")
def test_a_stream_can_be_created_closed_with_its_content(server: Server) -> None:
    """The body of a closed PUT is the whole content, and a read of it says closed."""
    stream = server.stream("text/plain", b"all of it", closed=True)
    answer = stream.get()
    assert answer.body == b"all of it"
    assert answer.closed
    assert answer.next_offset == stream.created.next_offset


@rule("C5")
@patient
@stricter("section 4 does not say that an expired path can be used again")
def test_an_expired_path_can_be_created_anew(server: Server) -> None:
    """After expiry another configuration is 201, without the old content."""
    stream = server.stream("text/plain", b"old", headers={"Stream-TTL": "1"})
    sleep_until_gone(stream)
    again = server.stream("application/json", b"[1]", path=stream.path, headers={"Stream-TTL": "3600"})
    assert elements(again.content()) == ["1"]


@rule("C6")
@stricter("section 5.1 says MAY")
def test_the_default_content_type_is_octet_stream(server: Server) -> None:
    """A PUT without Content-Type creates an application/octet-stream."""
    stream = server.stream(None, b"\x01\x02")
    assert stream.head().content_type == "application/octet-stream"
    assert stream.get().content_type == "application/octet-stream"
    assert stream.append(b"\x03", content_type="application/octet-stream").status == 204


@rule("C6", "G4")
@each(
    "content_type",
    [
        "text/plain",
        "text/plain; charset=UTF-8",
        "Text/HTML;level=1",
        "application/json",
        "application/json; charset=utf-8",
        "application/vnd.example+json; v=1",
        "application/x-protobuf",
        'multipart/mixed; boundary="a b"',
    ],
)
@stricter("the protocol does not demand the same spelling; a client that compares text needs it")
def test_the_content_type_is_echoed_exactly(server: Server, content_type: str) -> None:
    """PUT, HEAD and GET show the content type as it was given, with nothing added or changed."""
    stream = server.stream(content_type)
    assert stream.created.content_type == content_type
    assert stream.head().content_type == content_type
    assert stream.get().content_type == content_type
