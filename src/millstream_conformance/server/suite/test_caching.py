"""Caching: ETags, conditional reads, Cache-Control (protocol 10.1)."""

from __future__ import annotations

from millstream_conformance.server.checks import case, each, patient, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.wire import Answer

CACHEABLE = {"max-age=60", "stale-while-revalidate=300"}


def tag_of(answer: Answer) -> str:
    """The ETag of an answer, which must be a quoted string."""
    tag = answer.etag
    assert tag, f"{answer!r} has no ETag"
    assert tag.removeprefix("W/").startswith('"'), f"an ETag is a quoted string, this is {tag}"
    assert tag.endswith('"')
    return tag


@rule("G3")
def test_the_same_read_has_the_same_etag(server: Server) -> None:
    """The same read has the same ETag while nothing changes."""
    stream = server.stream("text/plain", b"hello")
    assert tag_of(stream.get("-1")) == tag_of(stream.get("-1"))


@rule("G3")
def test_more_data_changes_the_etag(server: Server) -> None:
    """A read that returns more has another ETag."""
    stream = server.stream("text/plain", b"one")
    before = tag_of(stream.get())
    stream.append(b"two")
    assert tag_of(stream.get()) != before


@rule("G3")
@stricter("an ETag identifies one URL only in HTTP; section 5.6 puts the start into its format")
def test_etags_differ_by_start(server: Server) -> None:
    """Two reads with the same end and different starts have different ETags."""
    stream = server.stream("text/plain", b"one")
    assert tag_of(stream.get()) != tag_of(stream.get(stream.tail()))


@rule("G3")
@stricter("an ETag identifies one URL only in HTTP; section 5.6 puts the stream into its format")
def test_etags_differ_between_streams(server: Server) -> None:
    """Two streams with the same bytes have different ETags."""
    assert tag_of(server.stream(body=b"same").get()) != tag_of(server.stream(body=b"same").get())


@rule("G3")
@stricter("a cache would otherwise serve a deleted stream's bytes as the new stream's")
def test_etags_differ_between_a_stream_and_its_successor(server: Server) -> None:
    """A stream that was deleted and created again has other ETags, even with content of the same length."""
    stream = server.stream("text/plain", b"old!")
    before = tag_of(stream.get())
    stream.delete()
    again = server.stream("text/plain", b"new!", path=stream.path)
    assert tag_of(again.get()) != before
    answer = again.get(headers={"If-None-Match": before})
    assert answer.status == 200
    assert answer.body == b"new!"


@rule("G3")
def test_closing_changes_the_etag(server: Server) -> None:
    """Closing changes the ETag, with data and at the tail."""
    stream = server.stream("text/plain", b"hello")
    tail = stream.tail()
    whole, empty = tag_of(stream.get()), tag_of(stream.get(tail))
    stream.close()
    for offset, before in (("-1", whole), (tail, empty)):
        answer = stream.get(offset, headers={"If-None-Match": before})
        assert answer.status == 200
        assert answer.closed
        assert tag_of(answer) != before


@rule("G3")
@each("shape", {"exact": "{tag}", "list": '"other", {tag}', "weak": "W/{opaque}", "any": "*"})
@stricter("section 10.1 speaks of a header that matches the ETag; `*` is RFC 9110's", rows=["any"])
def test_a_matching_etag_is_304(server: Server, shape: str) -> None:
    """A matching If-None-Match is 304 without a body."""
    stream = server.stream("text/plain", b"hello")
    tag = tag_of(stream.get("-1"))
    condition = shape.format(tag=tag, opaque=tag.removeprefix("W/"))
    answer = stream.get("-1", headers={"If-None-Match": condition})
    assert answer.status == 304
    assert answer.body == b""


@rule("G3")
@stricter("sections 5.6 and 10.1 do not list headers of a 304")
def test_a_304_has_the_stream_headers(server: Server) -> None:
    """304 carries the ETag, the next offset and Stream-Up-To-Date of the 200."""
    stream = server.stream("text/plain", b"hello")
    full = stream.get("-1")
    answer = stream.get("-1", headers={"If-None-Match": tag_of(full)})
    assert answer.status == 304
    assert tag_of(answer) == tag_of(full)
    assert answer.next_offset == full.next_offset
    assert answer.up_to_date
    assert "Stream-Closed" not in answer.headers


@rule("G3")
@stricter("sections 5.6 and 10.1 do not list headers of a 304")
def test_a_304_of_a_closed_stream_says_closed(server: Server) -> None:
    """A 304 of a closed stream has Stream-Closed."""
    stream = server.stream("text/plain", b"hello", closed=True)
    answer = stream.get(headers={"If-None-Match": tag_of(stream.get())})
    assert answer.status == 304
    assert answer.closed
    assert answer.up_to_date


@rule("G3")
def test_another_etag_gets_the_data(server: Server) -> None:
    """Another ETag, or more data, gives the full answer."""
    stream = server.stream("text/plain", b"hello")
    tag = tag_of(stream.get())
    assert stream.get(headers={"If-None-Match": '"other"'}).body == b"hello"
    stream.append(b" world")
    grown = stream.get(headers={"If-None-Match": tag})
    assert grown.status == 200
    assert grown.body == b"hello world"


@rule("G6")
@case("cache-control-catch-up-public")
@stricter("section 10.1 says SHOULD, and allows private")
def test_catch_up_reads_are_cacheable(server: Server) -> None:
    """`public, max-age=60, stale-while-revalidate=300`, with data and at the tail."""
    stream = server.stream("text/plain", b"hello")
    for answer in (stream.get(), stream.get(stream.tail())):
        assert answer.cache_control == {"public", *CACHEABLE}


@rule("G6")
@stricter("a shared cache must not hand one user's stream to another")
def test_reads_with_credentials_are_private(server: Server) -> None:
    """The answer to a read with Authorization is private."""
    stream = server.stream("text/plain", b"hello")
    answer = stream.get(headers={"Authorization": "Bearer conformance"})
    assert "public" not in answer.cache_control
    assert "private" in answer.cache_control


@rule("G6")
@case("cache-control-head-no-store")
@stricter("sections 5.5 and 8 say SHOULD")
def test_metadata_is_not_stored(server: Server) -> None:
    """HEAD and `offset=now` are no-store."""
    stream = server.stream("text/plain", b"hello")
    assert "no-store" in stream.head().cache_control
    assert "no-store" in stream.get("now").cache_control


@rule("G6")
@patient
@stricter("section 10.1 only asks caches not to store it")
def test_an_empty_long_poll_is_not_stored(server: Server) -> None:
    """The 204 of a long-poll is no-store."""
    stream = server.stream("text/plain", b"hello")
    answer = stream.poll(stream.tail())
    assert answer.status == 204
    assert "no-store" in answer.cache_control
