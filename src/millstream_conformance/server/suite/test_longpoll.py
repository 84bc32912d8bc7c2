"""Long-poll: data, timeout, closure (protocol 5.7)."""

from __future__ import annotations

import time

from millstream_conformance.server.checks import case, each, patient, rule, stricter
from millstream_conformance.server.servers import Server

AT_ONCE_S = 0.4


@rule("L1")
@case("live-needs-offset-400")
@each("mode", ["long-poll", "sse"])
def test_live_reads_need_an_offset(server: Server, mode: str) -> None:
    """A live read without an offset is 400."""
    assert server.stream("text/plain", b"x").get(live=mode).status == 400


@rule("L1", "L2")
@each("mode", ["long-poll", "sse"])
def test_live_reads_of_a_missing_stream_are_404(server: Server, mode: str) -> None:
    """A live read of a missing stream is 404."""
    assert server.at(server.path()).get("-1", live=mode).status == 404


@rule("L2")
@case("long-poll-returns-backlog-at-once")
@patient
def test_a_reader_that_is_behind_does_not_wait(server: Server) -> None:
    """Data that exists is returned at once, like a catch-up read with a cursor."""
    stream = server.stream("text/plain", b"hello")
    answer = stream.poll("-1")
    assert answer.status == 200
    assert answer.body == b"hello"
    assert answer.next_offset == stream.tail()
    assert answer.up_to_date
    assert answer.cursor
    assert answer.elapsed_s < AT_ONCE_S


@rule("L2")
@case("long-poll-timeout-204")
@patient
@each("offset", {"tail": "", "now": "now"})
def test_a_quiet_stream_gives_204(server: Server, offset: str) -> None:
    """At the timeout: 204, the tail, up to date, a cursor, and no closure."""
    stream = server.stream("text/plain", b"hello")
    answer = stream.poll(offset or stream.tail())
    assert answer.status == 204
    assert answer.body == b""
    assert answer.next_offset == stream.tail()
    assert answer.up_to_date
    assert answer.cursor
    assert "Stream-Closed" not in answer.headers
    assert answer.elapsed_s > 0.1, "a long-poll waits"


@rule("L2")
@case("long-poll-wakes-on-append")
@patient
@each("offset", {"tail": "", "now": "now"})
def test_an_append_wakes_the_reader(server: Server, offset: str) -> None:
    """A waiting reader gets the new bytes, and only those, at once."""
    stream = server.stream("text/plain", b"old")
    waiting = server.meanwhile(lambda: stream.poll(offset or stream.created.next_offset))
    time.sleep(0.15)
    appended = stream.append(b"new")
    answer = waiting.result()
    assert answer.status == 200
    assert answer.body == b"new"
    assert answer.next_offset == appended.next_offset
    assert answer.up_to_date
    assert answer.cursor


@rule("L2", "G4")
@patient
def test_a_json_reader_wakes_with_an_array(server: Server) -> None:
    """A waiting JSON reader gets an array of the new messages."""
    stream = server.stream("application/json", b"[1]")
    waiting = server.meanwhile(lambda: stream.poll(stream.created.next_offset))
    time.sleep(0.15)
    stream.append(b'[{"n":2},{"n":3}]')
    assert waiting.result().json() == [{"n": 2}, {"n": 3}]


@rule("L2")
@patient
def test_every_waiting_reader_wakes(server: Server) -> None:
    """One append wakes all waiting readers."""
    stream = server.stream()
    tail = stream.tail()
    waiting = [server.meanwhile(lambda: stream.poll(tail)) for _ in range(5)]
    time.sleep(0.2)
    stream.append(b"x")
    assert [reader.result().body for reader in waiting] == [b"x"] * 5


@rule("L2")
@case("longpoll-closed-stream-immediate", "longpoll-closed-returns-204")
@patient
@each("offset", {"tail": "", "now": "now"})
def test_a_closed_stream_answers_at_once(server: Server, offset: str) -> None:
    """A long-poll at the end of a closed stream is 204 with Stream-Closed at once."""
    stream = server.stream("text/plain", b"x", closed=True)
    answer = stream.poll(offset or stream.tail())
    assert answer.status == 204
    assert answer.closed
    assert answer.up_to_date
    assert answer.next_offset == stream.tail()
    assert answer.elapsed_s < AT_ONCE_S


@rule("L2")
@case("longpoll-closed-during-wait")
@patient
def test_closing_wakes_the_reader(server: Server) -> None:
    """Closing answers a waiting reader at once."""
    stream = server.stream("text/plain", b"x")
    tail = stream.tail()
    waiting = server.meanwhile(lambda: stream.poll(tail))
    time.sleep(0.1)
    stream.close()
    answer = waiting.result()
    assert answer.status == 204
    assert answer.closed
    assert answer.up_to_date
    assert answer.next_offset == tail
    assert answer.elapsed_s < AT_ONCE_S


@rule("L2")
@patient
def test_a_last_append_comes_before_the_end(server: Server) -> None:
    """A close with a body answers a waiting reader with the data, and the next request with the end."""
    stream = server.stream()
    tail = stream.tail()
    waiting = server.meanwhile(lambda: stream.poll(tail))
    time.sleep(0.1)
    final = stream.close(b"last words").next_offset
    answer = waiting.result()
    assert answer.status == 200
    assert answer.body == b"last words"
    assert answer.next_offset == final
    end = stream.poll(final)
    assert end.status == 204
    assert end.closed


@rule("L2", "G1")
def test_the_backlog_of_a_closed_stream_says_closed(server: Server) -> None:
    """A long-poll behind the end of a closed stream gets the data and Stream-Closed together."""
    stream = server.stream("text/plain", b"all", closed=True)
    answer = stream.poll("-1")
    assert answer.status == 200
    assert answer.body == b"all"
    assert answer.closed


@rule("L6", "F4")
@patient
@stricter("section 5.4 only says that later requests may be 404")
def test_deleting_ends_the_wait(server: Server) -> None:
    """Deleting a stream answers its waiting readers with 404 or 410 at once."""
    stream = server.stream("text/plain", b"x")
    tail = stream.tail()
    waiting = server.meanwhile(lambda: stream.poll(tail))
    time.sleep(0.1)
    stream.delete()
    answer = waiting.result()
    assert answer.status in {404, 410}
    assert answer.elapsed_s < AT_ONCE_S
