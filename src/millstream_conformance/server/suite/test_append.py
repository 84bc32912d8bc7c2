"""POST: appends, their answers, and the order of refusals (protocol 5.2)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import strategies as st

from millstream_conformance.server.checks import each, rule, stricter
from millstream_conformance.server.laws import any_bytes, law
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import stamp


@rule("A1")
def test_a_plain_append_is_204_with_the_new_tail(server: Server) -> None:
    """An append is 204 without a body, and its next offset is the tail."""
    stream = server.stream()
    answer = stream.append(b"hello")
    assert answer.status == 204
    assert answer.body == b""
    assert answer.next_offset == stream.tail()
    assert answer.next_offset > stream.created.next_offset
    assert not answer.closed


@rule("A1")
def test_a_producer_append_is_200_and_its_repeat_204(server: Server) -> None:
    """New data from a producer is 200, the same again 204, with the same next offset."""
    stream = server.stream()
    first = stream.append(b"hello", stamp("p", 0, 0))
    again = stream.append(b"hello", stamp("p", 0, 0))
    assert first.status == 200
    assert again.status == 204
    assert again.next_offset == first.next_offset
    assert stream.content() == b"hello"


@rule("A1")
@each("body", {"close-only": b"", "with-body": b"last"})
def test_closing_is_204_and_says_closed(server: Server, body: bytes) -> None:
    """A close without a producer is 204 with the final offset and Stream-Closed."""
    stream = server.stream("text/plain", b"first ")
    answer = stream.close(body)
    assert answer.status == 204
    assert answer.closed
    assert answer.next_offset == stream.tail()
    assert stream.content() == b"first " + body


@rule("A1")
def test_a_producer_closing_with_a_body_is_200(server: Server) -> None:
    """New data is 200 for a producer, also when it closes the stream."""
    stream = server.stream()
    answer = stream.close(b"last", stamp("p", 0, 0))
    assert answer.status == 200
    assert answer.closed
    assert answer.next_offset == stream.tail()


@rule("A1", "G1")
def test_bytes_come_back_as_they_went_in(server: Server) -> None:
    """Whatever bytes are appended, in whatever pieces, a read returns exactly their concatenation."""

    @law(pieces=st.lists(any_bytes, min_size=1, max_size=6))
    def holds(pieces: list[bytes]) -> None:
        server.transcript.clear()
        stream = server.stream("application/octet-stream")
        for piece in pieces:
            assert stream.append(piece).status == 204
        assert stream.content() == b"".join(pieces)


@rule("A1", "G1")
@each(
    "content_type", ["application/octet-stream", "text/plain", "text/html; charset=utf-8", "application/xml"]
)
def test_every_byte_value_is_kept(server: Server, content_type: str) -> None:
    """All 256 bytes, line breaks of every kind and broken UTF-8 are content, whatever the type."""
    content = bytes(range(256)) + b"\r\n\r\r\n\n\0" + b"\xff\xfe\xc3"
    stream = server.stream(content_type, content)
    assert stream.append(content).status == 204
    assert stream.content() == content + content


@rule("A1")
def test_concurrent_appends_are_all_kept_whole(server: Server) -> None:
    """Concurrent appends are stored in some order: none is lost, duplicated or interleaved."""
    stream = server.stream()
    messages = [f"<{number:02d}{'x' * 50}>".encode() for number in range(24)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(stream.append, messages))
    assert {answer.status for answer in answers} == {204}
    content = stream.content()
    assert len(content) == sum(map(len, messages))
    assert all(content.count(message) == 1 for message in messages)


@rule("A1", "O1")
@stricter("section 5.2 lets a server that joins appends answer all of them with the tail behind the last")
def test_concurrent_appends_have_offsets_of_their_own(server: Server) -> None:
    """Each of several concurrent appends is answered with the offset at the end of its own bytes."""
    stream = server.stream()
    messages = [f"<{number:02d}{'x' * 50}>".encode() for number in range(24)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(stream.append, messages))
    assert len({answer.next_offset for answer in answers}) == len(messages)
    in_order = [
        message for _, message in sorted(zip([a.next_offset for a in answers], messages, strict=True))
    ]
    assert stream.content() == b"".join(in_order)


@rule("A2")
@each(
    "headers",
    {
        "plain": {},
        "half-a-producer": {"Producer-Id": "p"},
        "close-only": {"Stream-Closed": "true"},
        "bad-producer": stamp("p", "x", "y"),
    },
)
@stricter("one order of checks makes refusals predictable for clients that recover from them")
def test_a_missing_stream_is_404_first(server: Server, headers: dict[str, str]) -> None:
    """A missing stream is 404 before anything else about the request is checked."""
    body = b"" if "Stream-Closed" in headers else b"x"
    assert server.at(server.path()).append(body, headers).status == 404


@rule("A2", "R1")
@each(
    "malformed",
    {
        "half-a-producer": (b"x", {"Producer-Id": "p"}),
        "bad-epoch": (b"x", stamp("p", "one", 0)),
        "empty-body": (b"", {}),
    },
)
@stricter("a malformed request should not learn more than that it is malformed")
def test_syntax_is_judged_before_closure(server: Server, malformed: tuple[bytes, dict[str, str]]) -> None:
    """A malformed append to a closed stream is 400."""
    body, headers = malformed
    assert server.stream(closed=True).append(body, headers).status == 400


@rule("A2", "A5")
@each(
    "also_wrong",
    {
        "content-type": {"Content-Type": "application/xml"},
        "gap": stamp("p", 0, 7),
        "stream-seq": {"Stream-Seq": "a"},
    },
)
@stricter("section 5.2 recommends this order with SHOULD")
def test_closed_is_said_before_any_other_conflict(server: Server, also_wrong: dict[str, str]) -> None:
    """An append to a closed stream that has other conflicts too is answered with Stream-Closed."""
    stream = server.stream()
    stream.append(b"x", {"Stream-Seq": "b"})
    stream.close()
    answer = stream.append(b"y", also_wrong)
    assert answer.status == 409
    assert answer.closed
    assert answer.next_offset == stream.tail()


@rule("A2")
def test_another_content_type_is_409(server: Server) -> None:
    """A body of another type is refused, and the answer does not claim that the stream is closed."""
    stream = server.stream("text/plain", b"x")
    answer = stream.append(b"<y/>", content_type="application/xml")
    assert answer.status == 409
    assert not answer.closed
    assert stream.content() == b"x"


@rule("A2")
def test_content_types_of_appends_compare_without_case(server: Server) -> None:
    """`TEXT/Plain` may be appended to `text/plain`."""
    assert server.stream("text/plain").append(b"x", content_type="TEXT/Plain").status == 204


@rule("A2")
@stricter("one order of checks makes refusals predictable for clients that recover from them")
def test_content_type_is_judged_before_the_producer(server: Server) -> None:
    """A stale epoch with the wrong content type is 409, not 403."""
    stream = server.stream()
    stream.append(b"x", stamp("p", 5, 0))
    answer = stream.append(b"y", stamp("p", 1, 0), content_type="application/xml")
    assert answer.status == 409
    assert "Producer-Expected-Seq" not in answer.headers


@rule("A2", "A9")
@stricter("the protocol gives no order for these two")
def test_the_producer_is_judged_before_stream_seq(server: Server) -> None:
    """A producer's gap is reported although Stream-Seq would be refused too."""
    stream = server.stream()
    stream.append(b"x", {**stamp("p", 0, 0), "Stream-Seq": "b"})
    answer = stream.append(b"y", {**stamp("p", 0, 5), "Stream-Seq": "a"})
    assert answer.status == 409
    assert answer.headers.get("Producer-Expected-Seq") == "1"
    fenced = stream.append(b"y", {**stamp("p", 1, 0), "Stream-Seq": "a"})
    assert fenced.status == 409
    assert "Producer-Expected-Seq" not in fenced.headers


@rule("A9")
def test_stream_seq_must_rise(server: Server) -> None:
    """A Stream-Seq at or below the last one is 409 without Stream-Closed and changes nothing."""
    stream = server.stream()
    assert stream.append(b"1", {"Stream-Seq": "b"}).status == 204
    for late in ("b", "a", "B", "1"):
        answer = stream.append(b"no", {"Stream-Seq": late})
        assert answer.status == 409
        assert not answer.closed
    assert stream.append(b"2").status == 204, "appends without Stream-Seq are free"
    assert stream.append(b"no", {"Stream-Seq": "b"}).status == 409, "and do not reset it"
    assert stream.append(b"3", {"Stream-Seq": "ba"}).status == 204
    assert stream.content() == b"123"


@rule("A9")
def test_stream_seq_compares_bytewise(server: Server) -> None:
    """Stream-Seq values are compared as bytes, not as numbers or words."""

    @law(
        examples=25, values=st.lists(st.text("019aAbBzZ_.~-", min_size=1, max_size=4), min_size=2, max_size=6)
    )
    def holds(values: list[str]) -> None:
        server.transcript.clear()
        stream, last = server.stream(), ""
        for value in values:
            expected = 204 if value > last else 409
            assert stream.append(b"x", {"Stream-Seq": value}).status == expected
            last = max(last, value)


@rule("A9")
@stricter("section 5.2 also lets the scope be the writer")
def test_stream_seq_belongs_to_one_stream(server: Server) -> None:
    """Each stream has its own sequence, and a refused append does not advance it."""
    first, second = server.stream(), server.stream()
    assert first.append(b"x", {"Stream-Seq": "z"}).status == 204
    assert second.append(b"x", {"Stream-Seq": "a"}).status == 204
    refused = second.append(b"x", {"Stream-Seq": "z"}, content_type="application/xml")
    assert refused.status == 409
    assert second.append(b"x", {"Stream-Seq": "b"}).status == 204
