"""Cursors, which keep caches from serving the same empty answer for ever (protocol 10.1)."""

from __future__ import annotations

import time

from millstream_conformance.server.checks import case, each, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream

EPOCH_S = 1_728_432_000  # 2024-10-09T00:00:00Z
INTERVAL_S = 20
MAX_JUMP = 3600 // INTERVAL_S


def current_interval() -> int:
    """The number of the interval that we are in."""
    return int(time.time() - EPOCH_S) // INTERVAL_S


def cursor_for(stream: Stream, mode: str, sent: str | None) -> str:
    """The cursor that a live read of some existing data answers with."""
    if mode == "long-poll":
        cursor = stream.poll("-1", cursor=sent).cursor
    else:
        with stream.events("-1", cursor=sent) as events:
            cursor = events.until_control()[-1].json().get("streamCursor")
    assert cursor, f"{mode} gave no cursor"
    return str(cursor)


@rule("L3")
@case("cursor-is-interval-number")
@each("mode", ["long-poll", "sse"])
@each("sent", {"none": None, "old": "17"})
@stricter("section 10.1 gives the interval and its epoch as defaults")
def test_a_cursor_is_the_interval_number(server: Server, mode: str, sent: str | None) -> None:
    """Without a cursor, or with one that is behind, the answer is the current interval."""
    stream = server.stream("text/plain", b"x")
    before = current_interval()
    cursor = int(cursor_for(stream, mode, sent))
    assert before <= cursor <= current_interval()


@rule("L3")
@case("cursor-moves-past-the-clients")
@each("mode", ["long-poll", "sse"])
@each("ahead", {"current": 0, "next": 1, "far": 5000})
def test_a_cursor_always_moves_past_the_clients(server: Server, mode: str, ahead: int) -> None:
    """A cursor that is not behind gets a strictly greater one."""
    sent = current_interval() + ahead
    assert int(cursor_for(server.stream("text/plain", b"x"), mode, str(sent))) > sent


@rule("L3")
@stricter("section 10.1 adds up to an hour, but gives the length of the interval as a default")
@each("mode", ["long-poll", "sse"])
def test_a_cursor_moves_at_most_an_hour(server: Server, mode: str) -> None:
    """The jitter that moves a cursor past the client's is at most 3,600 s."""
    sent = current_interval() + 1
    assert int(cursor_for(server.stream("text/plain", b"x"), mode, str(sent))) <= sent + MAX_JUMP


@rule("L3")
def test_echoing_cursors_never_goes_back(server: Server) -> None:
    """A client that echoes each cursor gets an increasing sequence."""
    stream = server.stream("text/plain", b"x")
    cursors = [cursor_for(stream, "long-poll", None)]
    for _ in range(5):
        cursors.append(cursor_for(stream, "long-poll", cursors[-1]))
    numbers = [int(cursor) for cursor in cursors]
    assert numbers == sorted(set(numbers))


@rule("L3")
@each("junk", {"word": "abc", "minus": "-5", "huge": "9" * 60, "point": "1.5"})
@stricter("a damaged cursor must not cost a reader its stream")
def test_a_damaged_cursor_does_not_break_the_read(server: Server, junk: str) -> None:
    """An invalid cursor gives data with a valid one, or 400."""
    answer = server.stream("text/plain", b"x").poll("-1", cursor=junk)
    assert answer.status in {200, 400}
    if answer.status == 200:
        assert answer.cursor
        assert answer.cursor.isdigit()
