"""Lifetimes: sliding TTLs, fixed expiries, and what renews which (protocol 4, 5.1, 5.5)."""

from __future__ import annotations

import time
from collections.abc import Callable

from millstream_conformance.server.checks import each, patient, rule
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream
from millstream_conformance.server.suite.waiting import in_seconds, sleep_until_gone

TTL = {"Stream-TTL": "1"}
PATIENCE = 4
"""How often a check that was too slow to tell anything is done again."""


@rule("F4", "G8")
@patient
def test_an_idle_stream_expires_promptly(server: Server) -> None:
    """One second without reads or writes ends a stream of TTL 1; every operation is 404."""
    stream = server.stream("text/plain", b"x", headers=TTL)
    elapsed_s = sleep_until_gone(stream, within_s=2.5)
    assert 0.8 < elapsed_s < 2
    assert stream.get().status == 404
    assert stream.append(b"y").status == 404
    assert stream.delete().status == 404


RENEWALS: dict[str, Callable[[Stream], object]] = {
    "read": lambda stream: stream.get(),
    "read-at-tail": lambda stream: stream.get(stream.created.next_offset),
    "now": lambda stream: stream.get("now"),
    "append": lambda stream: stream.append(b"more"),
    "close-only": lambda stream: stream.close(),
    "long-poll": lambda stream: stream.poll("-1"),
}


@rule("G8")
@patient
@each("renew", RENEWALS)
def test_using_a_stream_renews_its_ttl(server: Server, renew: Callable[[Stream], object]) -> None:
    """A read or write half-way keeps the stream past its first deadline, and not for ever."""
    for _ in range(PATIENCE):
        began_s = time.monotonic()
        stream = server.stream("text/plain", b"x", headers=TTL)
        time.sleep(0.6)
        renewed_s = time.monotonic()
        renew(stream)
        was_renewed_in_time = time.monotonic() < began_s + 1
        time.sleep(0.65)
        is_there = stream.head().status == 200
        if is_there or (was_renewed_in_time and time.monotonic() < renewed_s + 1):
            break  # otherwise something took so long that the stream may well be gone
    assert is_there, "the TTL was not renewed"
    sleep_until_gone(stream, within_s=2)


@rule("G8")
@patient
def test_head_does_not_renew_the_ttl(server: Server) -> None:
    """Looking is not using: HEAD shows the TTL as configured and lets it pass."""
    stream = server.stream("text/plain", b"x", headers=TTL)
    time.sleep(0.6)
    assert stream.head().headers.get("Stream-TTL") == "1"
    elapsed_s = sleep_until_gone(stream, within_s=2)
    assert elapsed_s < 1, "HEAD kept the stream alive"


@rule("F4", "G8")
@patient
def test_an_expiry_is_never_renewed(server: Server) -> None:
    """A fixed deadline comes although the stream is read and written all the time."""
    stream = server.stream("text/plain", b"x", headers={"Stream-Expires-At": in_seconds(1.2)})
    started = time.monotonic()
    assert stream.get().status == 200
    while stream.get().status == 200:
        stream.append(b"y")
        assert time.monotonic() - started < 3, "still alive"
        time.sleep(0.05)
    assert 0.9 < time.monotonic() - started < 2.2
    assert stream.head().status == 404


@rule("C3", "F4")
def test_an_expiry_in_the_past_leaves_no_readable_stream(server: Server) -> None:
    """Creating with a deadline that has passed is refused, or the stream is gone at once."""
    stream = server.at(server.path())
    created = stream.put(b"x", headers={"Stream-Expires-At": "2001-01-01T00:00:00Z"})
    assert created.status in {201, 400}
    assert stream.get().status == 404
