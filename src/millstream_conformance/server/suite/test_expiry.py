"""Lifetimes: sliding TTLs, fixed expiries, and which requests renew a TTL (protocol 4, 5.1, 5.5)."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from millstream_conformance.server.checks import each, patient, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream
from millstream_conformance.server.suite.waiting import sleep_until_gone

TTL = {"Stream-TTL": "1"}
PAST = {"Stream-Expires-At": "2001-01-01T00:00:00Z"}
ROUNDS = 4
"""How often a round that was too slow to prove anything is repeated."""


@rule("F4", "G8")
@patient
def test_an_idle_stream_expires_promptly(server: Server) -> None:
    """One second without reads or writes ends a stream of TTL 1: reads and appends are 404."""
    began_s = time.monotonic()
    stream = server.stream("text/plain", b"x", headers=TTL)
    sleep_until_gone(stream, within_s=2)
    assert time.monotonic() - began_s > 0.95, "expired early"
    assert stream.get().status == 404
    assert stream.append(b"y").status == 404


@rule("F4")
@patient
@stricter(
    "section 5.4 has 404 for a stream that does not exist; one whose bytes are still there may be deleted"
)
def test_an_expired_stream_cannot_be_deleted(server: Server) -> None:
    """DELETE of an expired stream is 404."""
    stream = server.stream("text/plain", b"x", headers=TTL)
    sleep_until_gone(stream)
    assert stream.delete().status == 404


def read_events(stream: Stream) -> None:
    """Connect as an event reader, wait for the first control event, and leave."""
    with stream.events("-1") as events:
        events.until_control()


def read_events_second(stream: Stream) -> None:
    """Be the second event reader of a stream: the first one is still connected."""
    with stream.events("-1") as first:
        first.until_control()
        time.sleep(0.6)
        read_events(stream)


RENEWALS: dict[str, Callable[[Stream], object]] = {
    "read": lambda stream: stream.get(),
    "read-at-tail": lambda stream: stream.get(stream.created.next_offset),
    "now": lambda stream: stream.get("now"),
    "append": lambda stream: stream.append(b"more"),
    "close-only": lambda stream: stream.close(),
    "long-poll": lambda stream: stream.poll("-1"),
    "sse": read_events,
}


@rule("G8")
@patient
@each("renew", RENEWALS)
@stricter("section 5.1 renews at each write, and does not say whether closing is one", rows=["close-only"])
def test_using_a_stream_renews_its_ttl(server: Server, renew: Callable[[Stream], object]) -> None:
    """A read or write at 0.6 of the TTL keeps the stream past its first deadline, but not for ever."""

    def use(stream: Stream) -> None:
        time.sleep(0.6)
        renew(stream)

    assert_renewed(server, use)


@rule("G8")
@patient
def test_a_second_event_reader_renews_the_ttl(server: Server) -> None:
    """An event reader that joins another one renews the whole TTL: it starts with the request."""
    assert_renewed(server, read_events_second)


def assert_renewed(server: Server, use: Callable[[Stream], object]) -> None:
    """Check that a stream of TTL 1, used for the last time at 0.6 s, outlives its first deadline.

    A round in which this machine was too slow proves nothing and is repeated.
    """
    for _ in range(ROUNDS):
        began_s = time.monotonic()
        stream = server.stream("text/plain", b"x", headers=TTL)
        use(stream)
        used_s = time.monotonic()
        time.sleep(0.65)
        is_there = stream.head().status == 200
        if is_there or (used_s < began_s + 0.9 and time.monotonic() < used_s + 0.9):
            break
    assert is_there, "the TTL was not renewed"
    sleep_until_gone(stream, within_s=2)


@rule("G8")
@patient
def test_head_does_not_renew_the_ttl(server: Server) -> None:
    """HEAD shows the TTL as configured and does not renew it."""
    stream = server.stream("text/plain", b"x", headers=TTL)
    time.sleep(0.6)
    assert stream.head().headers.get("Stream-TTL") == "1"
    elapsed_s = sleep_until_gone(stream, within_s=2)
    assert elapsed_s < 1, "HEAD kept the stream alive"


@rule("F4", "G8")
@patient
def test_an_expiry_is_never_renewed(server: Server) -> None:
    """A fixed expiry holds although the stream is read and written all the time."""
    expiry = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
    stream = server.stream("text/plain", b"x", headers={"Stream-Expires-At": f"{expiry:%Y-%m-%dT%H:%M:%SZ}"})
    while stream.get().status == 200:
        stream.append(b"y")
        assert datetime.now(UTC) < expiry + timedelta(seconds=1.5), "still alive"
        time.sleep(0.05)
    assert datetime.now(UTC) > expiry - timedelta(seconds=0.1), "expired early"
    assert stream.head().status == 404


@rule("C3", "F4")
def test_an_expiry_in_the_past_leaves_no_readable_stream(server: Server) -> None:
    """An expiry in the past is refused, or the stream is gone at once."""
    stream = server.at(server.path())
    stream.put(b"x", headers=PAST)
    assert stream.get().status == 404


@rule("C3")
@stricter("section 5.1 does not mention an expiry in the past")
def test_an_expiry_in_the_past_is_201_or_400(server: Server) -> None:
    """An expiry in the past creates a stream that is gone at once, or is 400."""
    assert server.at(server.path()).put(b"x", headers=PAST).status in {201, 400}
