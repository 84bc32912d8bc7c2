"""Compare and append: a write that happens only where its writer expects the tail (extension; X6)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from millstream_conformance.server.checks import each, needs, rule
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream, stamp
from millstream_conformance.server.suite.test_parts import commit, stage
from millstream_conformance.server.wire import Answer


def expecting(offset: str) -> dict[str, str]:
    """The header of a write that must find the tail there."""
    return {"Stream-Expected-Offset": offset}


def assert_conflict(answer: Answer, tail: str) -> None:
    """The write was refused because the stream ends elsewhere, and not because it is closed."""
    assert answer.status == 409
    assert answer.json()["code"] == "EXPECTED_OFFSET_CONFLICT"
    assert answer.next_offset == tail
    assert not answer.closed


def stale(server: Server, content_type: str = "text/plain") -> tuple[Stream, str, str]:
    """A stream that has moved on, an offset that was its tail, and its tail."""
    stream = server.stream(content_type, b"one")
    before = stream.tail()
    return stream, before, stream.append(b"two").next_offset


@rule("X6")
@needs("expect")
def test_the_expected_tail_is_accepted(server: Server) -> None:
    """Appends that each expect what the last one answered all succeed, also the first on an empty stream."""
    stream = server.stream("text/plain")
    tail = stream.tail()
    for body in (b"a", b"bc", b"d"):
        answer = stream.append(body, expecting(tail))
        assert answer.status == 204
        tail = answer.next_offset
    assert stream.content() == b"abcd"


@rule("X6")
@needs("expect")
def test_a_tail_that_has_moved_is_409(server: Server) -> None:
    """Nothing is appended, and the answer has the tail: with it the next try succeeds."""
    stream, before, tail = stale(server)
    refused = stream.append(b"three", expecting(before))
    assert_conflict(refused, tail)
    assert stream.content() == b"onetwo"
    assert stream.append(b"three", expecting(refused.next_offset)).status == 204
    assert stream.content() == b"onetwothree"


@rule("X6")
@needs("expect", "numbered-offsets")
def test_an_offset_past_the_tail_is_409(server: Server) -> None:
    """A tail that is not there yet is not the tail."""
    stream = server.stream("text/plain", b"one")
    assert_conflict(stream.append(b"two", expecting("0000000000000000_0000000000000099")), stream.tail())
    assert stream.content() == b"one"


@rule("X6")
@needs("expect")
@each("value", ["", "now", "-1", "12", "abc", "a,b", "0_0 1", "../x"])
def test_a_malformed_offset_is_400(server: Server, value: str) -> None:
    """What no server gives as an offset cannot be expected."""
    stream = server.stream("text/plain", b"one")
    assert stream.append(b"two", expecting(value)).status == 400
    assert stream.content() == b"one"


@rule("X6")
@needs("expect")
def test_a_missing_stream_is_404_first(server: Server) -> None:
    """Whether the stream exists comes before what is expected of it."""
    stream = server.at(server.path(), "text/plain")
    assert stream.append(b"x", expecting("0000000000000000_0000000000000000")).status == 404
    assert stream.append(b"x", expecting("now")).status == 404
    assert stream.append(b"x", {"If-Match": "*"}).status == 404


@rule("X6", "A5")
@needs("expect")
@each("place", ["tail", "before"])
def test_a_closed_stream_says_so_first(server: Server, place: str) -> None:
    """An append to a closed stream is 409 with Stream-Closed, whatever was expected."""
    stream, before, tail = stale(server)
    stream.close()
    answer = stream.append(b"three", expecting(tail if place == "tail" else before))
    assert answer.status == 409
    assert answer.closed
    assert answer.next_offset == tail


@rule("X6", "A6")
@needs("expect")
def test_closing_again_is_204_whatever_was_expected(server: Server) -> None:
    """A close-only of a closed stream succeeds with any expectation."""
    stream, before, tail = stale(server)
    assert stream.close().status == 204
    answer = stream.close(headers=expecting(before))
    assert answer.status == 204
    assert answer.closed
    assert answer.next_offset == tail


@rule("X6")
@needs("expect")
@each("last", ["", "three"])
def test_a_close_can_expect_the_tail(server: Server, last: str) -> None:
    """A close, with or without a last body, happens at the expected tail and nowhere else."""
    stream, before, tail = stale(server)
    body = last.encode()
    assert_conflict(stream.close(body, expecting(before)), tail)
    assert not stream.head().closed
    answer = stream.close(body, expecting(tail))
    assert answer.status == 204
    assert answer.closed
    assert stream.content() == b"onetwo" + body


@rule("X6", "A2")
@needs("expect")
def test_a_repeated_append_succeeds_whatever_was_expected(server: Server) -> None:
    """A producer whose answer was lost sends the same again, and learns that it was stored."""
    stream = server.stream("text/plain", b"one")
    sent = {**stamp("p", 0, 0), **expecting(stream.tail())}
    assert stream.append(b"two", sent).status == 200
    stream.append(b"three")
    answer = stream.append(b"two", sent)
    assert answer.status == 204
    assert answer.next_offset == stream.tail()
    assert stream.content() == b"onetwothree"


@rule("X6", "R4")
@needs("expect")
def test_a_conflict_does_not_count_as_an_append(server: Server) -> None:
    """The producer's number that was refused is still the next one, and so is Stream-Seq."""
    stream, before, tail = stale(server)
    assert_conflict(stream.append(b"x", {**stamp("p", 0, 0), **expecting(before)}), tail)
    assert_conflict(stream.append(b"x", {"Stream-Seq": "5", **expecting(before)}), tail)
    assert stream.append(b"three", {**stamp("p", 0, 0), **expecting(tail)}).status == 200
    assert stream.append(b"four", {"Stream-Seq": "5", **expecting(stream.tail())}).status == 204


@rule("X6", "A2")
@needs("expect")
def test_other_refusals_come_first(server: Server) -> None:
    """The content type, the producer and Stream-Seq are checked before the expected tail."""
    stream, before, tail = stale(server)
    stream.append(b"!", {"Stream-Seq": "5"})
    stream.append(b"!", stamp("p", 3, 0))
    wrong_type = stream.append(b"x", expecting(before), content_type="text/html")
    assert (wrong_type.status, wrong_type.json()["code"]) == (409, "CONTENT_TYPE_MISMATCH")
    assert stream.append(b"x", {**stamp("p", 2, 0), **expecting(before)}).status == 403
    gap = stream.append(b"x", {**stamp("p", 3, 7), **expecting(before)})
    assert gap.headers.get("Producer-Expected-Seq") == "1"
    regressed = stream.append(b"x", {"Stream-Seq": "4", **expecting(before)})
    assert (regressed.status, regressed.json()["code"]) == (409, "SEQUENCE_REGRESSION")
    assert stream.tail() > tail


@rule("X6", "A9")
@needs("expect")
def test_a_sequence_that_did_not_rise_has_the_tail(server: Server) -> None:
    """A 409 of Stream-Seq says where the stream ends, too, and not that it is closed."""
    stream = server.stream("text/plain")
    stream.append(b"one", {"Stream-Seq": "5"})
    refused = stream.append(b"two", {"Stream-Seq": "5"})
    assert refused.status == 409
    assert refused.next_offset == stream.tail()
    assert not refused.closed


@rule("X6", "G8")
@needs("expect")
def test_head_has_a_tag_that_changes_with_the_tail(server: Server) -> None:
    """HEAD gives an ETag; it stays while nothing happens, and changes with an append and a close."""
    stream = server.stream("text/plain", b"one")
    tags = [stream.head().etag]
    assert tags[0]
    assert stream.head().etag == tags[0]
    stream.append(b"two")
    tags.append(stream.head().etag)
    stream.close()
    tags.append(stream.head().etag)
    assert len(set(tags)) == 3


@rule("X6")
@needs("expect")
def test_if_match_with_the_tag_of_the_tail(server: Server) -> None:
    """`If-Match` with what HEAD gave is done while the tail is there, and 412 with the tail afterwards."""
    stream = server.stream("text/plain", b"one")
    tag = str(stream.head().etag)
    assert stream.append(b"two", {"If-Match": tag}).status == 204
    refused = stream.append(b"three", {"If-Match": tag})
    assert refused.status == 412
    assert refused.next_offset == stream.tail()
    assert not refused.closed
    assert stream.content() == b"onetwo"
    assert stream.append(b"three", {"If-Match": f'"other", {stream.head().etag}'}).status == 204
    assert stream.close(headers={"If-Match": tag}).status == 412
    assert stream.close(headers={"If-Match": str(stream.head().etag)}).status == 204


@rule("X6")
@needs("expect")
def test_if_match_compares_strongly(server: Server) -> None:
    """A weak tag never matches, nor does another stream's."""
    stream, other = server.stream("text/plain", b"one"), server.stream("text/plain", b"two")
    assert stream.append(b"x", {"If-Match": f"W/{stream.head().etag}"}).status == 412
    assert stream.append(b"x", {"If-Match": str(other.head().etag)}).status == 412
    assert stream.content() == b"one"


@rule("X6")
@needs("expect")
def test_if_match_star_asks_for_a_stream(server: Server) -> None:
    """`If-Match: *` holds for every stream that exists."""
    stream = server.stream("text/plain", b"one")
    assert stream.append(b"two", {"If-Match": "*"}).status == 204
    assert stream.content() == b"onetwo"


@rule("X6", "X3")
@needs("expect", "parts")
def test_a_commit_can_expect_the_tail(server: Server) -> None:
    """A commit of parts happens at the expected tail; after a conflict the parts are still staged."""
    stream, before, tail = stale(server)
    stage(stream, "a", b"three")
    assert_conflict(commit(stream, "a", headers=expecting(before)), tail)
    assert stream.content() == b"onetwo"
    assert commit(stream, "a", headers=expecting(tail)).status == 204
    assert stream.content() == b"onetwothree"
    again = commit(stream, "a", headers=expecting(tail))
    assert (again.status, again.json()["code"]) == (409, "PART_MISSING")


@rule("X6", "H1")
@needs("expect")
def test_pages_of_other_origins_may_send_and_read_it(server: Server) -> None:
    """The headers are allowed in preflight answers, and what they answer is exposed."""
    stream = server.stream()
    origin = {"Origin": "https://example.com"}
    asked = {**origin, "Access-Control-Request-Method": "POST"}
    allowed = server.request("OPTIONS", stream.path, asked).headers.tokens("Access-Control-Allow-Headers")
    assert {"stream-expected-offset", "if-match"} <= {name.lower() for name in allowed}
    exposed = stream.head(origin).headers.tokens("Access-Control-Expose-Headers")
    assert {"stream-next-offset", "etag"} <= {name.lower() for name in exposed}


@rule("X6")
@needs("expect")
def test_one_of_many_writers_wins_each_offset(server: Server) -> None:
    """Eight writers expect the same tail: one is accepted, the others learn where the stream ends now."""
    stream = server.stream("text/plain")
    for turn in range(5):
        tail = stream.tail()
        bodies = [b"%d" % number for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(stream.append, bodies, [expecting(tail)] * 8))
        won = [answer for answer in answers if answer.status == 204]
        assert len(won) == 1, f"{len(won)} of eight writers won the same offset"
        for answer in answers:
            if answer is not won[0]:
                assert_conflict(answer, won[0].next_offset)
        assert len(stream.content()) == turn + 1
