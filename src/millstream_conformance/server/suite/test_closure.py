"""Closing a stream, and the answers of a closed stream (protocol 4.1, 5.2, 5.3)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from millstream_conformance.server.checks import case, each, rule, stricter
from millstream_conformance.server.servers import Server


@rule("A1", "A4")
@case("close-stream-empty-post", "close-returns-offset", "close-returns-header")
def test_an_empty_post_closes(server: Server) -> None:
    """Close-only is 204 with the unchanged tail and Stream-Closed."""
    stream = server.stream("text/plain", b"content")
    answer = stream.close()
    assert answer.status == 204
    assert answer.closed
    assert answer.next_offset == stream.created.next_offset
    assert stream.head().closed
    assert stream.content() == b"content"


@rule("A1")
@case("close-with-final-append")
def test_a_last_append_closes_atomically(server: Server) -> None:
    """A last append and the close are one atomic step."""
    stream = server.stream("text/plain", b"first ")
    answer = stream.close(b"last")
    assert answer.status == 204
    assert answer.closed
    read = stream.get()
    assert read.body == b"first last"
    assert read.closed
    assert read.next_offset == answer.next_offset


@rule("A6")
@case("close-idempotent")
def test_closing_again_is_204(server: Server) -> None:
    """Repeating close-only is 204 with the same final offset."""
    stream = server.stream("text/plain", b"x")
    final = stream.close().next_offset
    for _ in range(3):
        again = stream.close()
        assert again.status == 204
        assert again.closed
        assert again.next_offset == final


@rule("A4")
@each("content_type", {"missing": None, "other": "application/xml", "nonsense": "!!"})
@case("close-only-ignores-content-type")
def test_close_only_ignores_content_type(server: Server, content_type: str | None) -> None:
    """A close without a body is never refused for its Content-Type, first time or later."""
    stream = server.stream("application/json", b"[1]")
    for _ in range(2):
        answer = stream.close(content_type=content_type)
        assert answer.status == 204
        assert answer.closed


@rule("A4")
@each("value", ["TRUE", "True", "tRuE"])
def test_true_counts_in_any_case(server: Server, value: str) -> None:
    """`Stream-Closed: TRUE` closes, on POST and on PUT."""
    stream = server.stream("text/plain", b"x")
    answer = stream.append(b"", {"Stream-Closed": value}, content_type=None)
    assert answer.status == 204
    assert stream.head().closed
    assert server.stream(headers={"Stream-Closed": value}).head().closed


@rule("A4")
@each(
    "value",
    {"false": "false", "yes": "yes", "one": "1", "empty": "", "twice": "true, true", "quoted": '"true"'},
)
def test_other_values_are_as_if_absent(server: Server, value: str) -> None:
    """Any other value is ignored: nothing is closed, and an empty body is 400."""
    stream = server.stream(headers={"Stream-Closed": value})
    assert not stream.head().closed
    answer = stream.append(b"x", {"Stream-Closed": value})
    assert answer.status == 204
    assert not answer.closed
    assert not stream.head().closed
    assert stream.append(b"", {"Stream-Closed": value}).status == 400
    assert not stream.head().closed


@rule("A5")
@case("append-to-closed-stream-409", "append-to-closed-stream-header", "409-includes-stream-offset")
def test_appending_to_a_closed_stream_is_409(server: Server) -> None:
    """409 with Stream-Closed and the final offset, and nothing is stored."""
    stream = server.stream("text/plain", b"all there is")
    final = stream.close().next_offset
    answer = stream.append(b"more")
    assert answer.status == 409
    assert answer.closed
    assert answer.next_offset == final
    assert stream.content() == b"all there is"


@rule("A7", "A5")
@case("append-and-close-to-closed-stream-409")
def test_closing_with_a_body_is_not_repeatable(server: Server) -> None:
    """Closing with a body again, without a producer, is 409."""
    stream = server.stream()
    final = stream.close(b"last").next_offset
    answer = stream.close(b"last")
    assert answer.status == 409
    assert answer.closed
    assert answer.next_offset == final
    assert stream.content() == b"last"


@rule("A2")
def test_closing_a_missing_stream_is_404(server: Server) -> None:
    """Closing a missing stream is 404."""
    assert server.at(server.path()).close().status == 404


@rule("A5", "A7")
def test_of_racing_last_appends_one_wins(server: Server) -> None:
    """Eight writers close with a body at once: one 204, seven 409, and one body."""
    stream = server.stream()
    with ThreadPoolExecutor(8) as threads:
        bodies = [f"<{number}>".encode() for number in range(8)]
        answers = list(threads.map(stream.close, bodies))
    assert sorted(answer.status for answer in answers) == [204] + [409] * 7
    assert all(answer.closed for answer in answers)
    winner = bodies[[answer.status for answer in answers].index(204)]
    assert stream.content() == winner


@rule("G8")
@case("head-closed-stream")
def test_head_shows_closure(server: Server) -> None:
    """HEAD of a closed stream has Stream-Closed and the final offset."""
    stream = server.stream("text/plain", b"x")
    final = stream.close().next_offset
    answer = stream.head()
    assert answer.closed
    assert answer.next_offset == final


@rule("G8")
@case("head-open-stream")
def test_head_of_an_open_stream_does_not_mention_closure(server: Server) -> None:
    """An open stream has no Stream-Closed header at all."""
    assert "Stream-Closed" not in server.stream().head().headers


@rule("G1")
@case("read-closed-stream-at-tail", "read-closed-stream-empty-body")
def test_at_the_tail_of_a_closed_stream_is_the_end(server: Server) -> None:
    """Reading from the final offset is 200, empty, up to date and closed."""
    stream = server.stream("text/plain", b"x")
    final = stream.close().next_offset
    answer = stream.get(final)
    assert answer.status == 200
    assert answer.body == b""
    assert answer.closed
    assert answer.up_to_date
    assert answer.next_offset == final


@rule("G1")
@case("read-closed-stream-final-chunk-with-data", "state-complete")
def test_the_last_data_of_a_closed_stream_says_closed(server: Server) -> None:
    """A read that reaches the end of a closed stream says closed with the data."""
    stream = server.stream()
    stream.append(b"message-1")
    stream.append(b"message-2")
    stream.close()
    answer = stream.get()
    assert answer.body == b"message-1message-2"
    assert answer.up_to_date
    assert answer.closed


@rule("G1")
@case("state-caught-up-open")
def test_a_caught_up_reader_of_an_open_stream(server: Server) -> None:
    """At the tail of an open stream a read is up to date and does not mention closure."""
    stream = server.stream("text/plain", b"x")
    for answer in (stream.get(), stream.get(stream.tail())):
        assert answer.up_to_date
        assert "Stream-Closed" not in answer.headers


@rule("G1")
@case("read-closed-stream-partial", "state-catching-up")
@stricter("section 5.6 says SHOULD NOT")
def test_a_partial_read_of_a_closed_stream_says_neither(server: Server) -> None:
    """Partial reads are neither up to date nor closed; the last one is both."""
    stream = server.stream("application/octet-stream")
    for letter in b"abcd":
        stream.append(bytes([letter]) * 700_000)
    stream.close()
    *partial, last = stream.pages()
    for page in partial:
        assert "Stream-Up-To-Date" not in page.headers
        assert "Stream-Closed" not in page.headers
        assert page.body
    assert last.up_to_date
    assert last.closed
    assert b"".join(page.body for page in [*partial, last]) == b"".join(bytes([c]) * 700_000 for c in b"abcd")


@rule("G1")
def test_closure_is_found_after_catching_up(server: Server) -> None:
    """After a later close, a read from the tail says closed."""
    stream = server.stream("text/plain", b"x")
    caught_up = stream.get()
    assert not caught_up.closed
    stream.close()
    answer = stream.get(caught_up.next_offset)
    assert answer.status == 200
    assert answer.body == b""
    assert answer.closed
    assert answer.next_offset == caught_up.next_offset


@rule("G2")
@each("content_type", {"text": "text/plain", "json": "application/json"})
def test_now_on_a_closed_stream_says_closed(server: Server, content_type: str) -> None:
    """`offset=now` on a closed stream answers at once with Stream-Closed."""
    stream = server.stream(content_type, b"[1]", closed=True)
    answer = stream.get("now")
    assert answer.status == 200
    assert answer.closed
    assert answer.up_to_date
    assert answer.next_offset == stream.tail()
    assert answer.body == (b"[]" if content_type == "application/json" else b"")
