"""What survives a restart. Runs only with a restart command; there is one restart for all.

Each test is a generator: what comes before `yield` is done before the restart, the rest after.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from millstream_conformance.server.checks import across_restart, case, needs, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import stamp
from millstream_conformance.server.subscriptions import Receiver, Subscription, settle
from millstream_conformance.server.suite.test_forks import fork_of
from millstream_conformance.server.suite.test_webhooks import DONE, subscribe
from millstream_conformance.server.suite.waiting import eventually, in_seconds


@rule("R4", "A1")
@needs("restart")
@across_restart
def test_acknowledged_appends_survive(server: Server) -> Iterator[None]:
    """Acknowledged appends survive, at the same offsets."""
    stream = server.stream("application/json", b'[{"n":0}]', headers={"Stream-TTL": "3600"})
    offsets = [stream.append(f'{{"n":{number}}}'.encode()).next_offset for number in range(1, 20)]
    before = stream.head()
    yield
    after = stream.head()
    assert after.next_offset == before.next_offset == offsets[-1]
    assert after.content_type == "application/json"
    assert after.headers.get("Stream-TTL") == "3600"
    assert stream.get().json() == [{"n": number} for number in range(20)]
    assert stream.get(offsets[9]).json() == [{"n": number} for number in range(11, 20)]


@rule("R4")
@needs("restart")
@across_restart
def test_producers_are_remembered(server: Server) -> Iterator[None]:
    """Producer state survives: a retry is a duplicate, the next seq is accepted, a stale epoch fenced."""
    stream = server.stream()
    stream.append(b"one ", stamp("p", 3, 0))
    stream.append(b"two ", {**stamp("p", 3, 1), "Stream-Seq": "m"})
    yield
    assert stream.append(b"two ", {**stamp("p", 3, 1), "Stream-Seq": "m"}).status == 204
    assert stream.append(b"old", stamp("p", 2, 0)).status == 403
    assert stream.append(b"no", {"Stream-Seq": "a"}).status == 409
    assert stream.append(b"three", stamp("p", 3, 2)).status == 200
    assert stream.content() == b"one two three"


@rule("A8", "A7")
@case("idempotent-close-after-restart")
@needs("restart")
@across_restart
def test_the_closing_tuple_is_remembered(server: Server) -> Iterator[None]:
    """A retried close is 204 after the restart, any other 409 with Stream-Closed."""
    stream = server.stream()
    final = stream.close(b"last", stamp("p", 1, 0)).next_offset
    yield
    again = stream.close(b"last", stamp("p", 1, 0))
    assert again.status == 204
    assert again.closed
    assert again.next_offset == final
    assert stream.close(headers=stamp("p", 1, 0)).status == 204
    other = stream.close(b"mine", stamp("q", 0, 0))
    assert other.status == 409
    assert other.closed
    assert stream.content() == b"last"


@rule("F4")
@needs("restart")
@across_restart
def test_deletions_survive(server: Server) -> Iterator[None]:
    """Deleted streams stay deleted."""
    stream = server.stream("text/plain", b"x")
    stream.delete()
    yield
    assert stream.get().status == 404


@rule("F4")
@needs("restart")
@across_restart
def test_expiry_keeps_its_real_deadline(server: Server) -> Iterator[None]:
    """A restart does not change when a stream expires."""
    stream = server.stream("text/plain", b"x", headers={"Stream-Expires-At": in_seconds(5)})
    long_lived = server.stream("text/plain", b"x", headers={"Stream-TTL": "3600"})
    deadline = time.monotonic() + 5
    yield
    assert long_lived.get().status == 200
    eventually(lambda: stream.get().status == 404, max(1.0, deadline - time.monotonic() + 1), "expiry")


@rule("F1", "F2")
@needs("restart", "forks")
@across_restart
def test_forks_survive(server: Server) -> Iterator[None]:
    """A fork of a deleted source stays readable, and the source 410 until the fork is deleted."""
    source = server.stream("text/plain", b"shared ")
    fork = fork_of(source)
    fork.append(b"own")
    source.delete()
    yield
    assert fork.content() == b"shared own"
    assert source.get().status == 410
    fork.delete()
    eventually(lambda: source.get().status == 404, 3, "the end of the source")


@rule("S1")
@needs("restart", "subscriptions")
@across_restart
def test_subscriptions_survive(server: Server) -> Iterator[None]:
    """Cursors and generations of subscriptions survive."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    tail = stream.append(b"x").next_offset
    claimed = subscription.claim().json()
    name = subscription.relative("in/a")
    subscription.post("ack", settle(claimed, {name: tail}, done=True), claimed["token"])
    yield
    assert subscription.links()[name]["acked_offset"] == tail
    stream.append(b"y")
    eventually(lambda: subscription.claim().status == 200, 2, "a claim")
    assert subscription.wakes()[-1]["generation"] > claimed["generation"]


@rule("S1", "S4")
@needs("restart", "subscriptions")
@across_restart
def test_claims_survive(server: Server) -> Iterator[None]:
    """A worker acks with the token of a claim that it made before the restart; nobody else can claim."""
    subscription = Subscription(server)
    subscription.pull(lease_ttl_ms=600_000)
    name = subscription.relative("in/a")
    tail = subscription.stream("in/a").append(b"x").next_offset
    claimed = subscription.claim("first").json()
    yield
    assert subscription.claim("second").status == 409
    answer = subscription.post("ack", settle(claimed, {name: tail}, done=True), claimed["token"])
    assert answer.status == 200
    assert subscription.links()[name]["acked_offset"] == tail


@rule("S1")
@needs("restart", "webhooks")
@across_restart
def test_retries_survive(server: Server) -> Iterator[None]:
    """A webhook that failed before the restart is tried again after it."""
    works = False
    with Receiver(lambda number: (200, DONE) if works else (500, {})) as receiver:
        subscription = subscribe(server, receiver)
        name = subscription.relative("in/a")
        tail = subscription.stream("in/a").append(b"x").next_offset
        receiver.next()
        eventually(lambda: subscription.get().json()["status"] == "failed", 2, "the status failed")
        yield
        works = True
        # With each attempt before the restart, the pause has grown.
        eventually(lambda: subscription.links()[name]["acked_offset"] == tail, 12, "another attempt")
        eventually(lambda: subscription.get().json()["status"] == "active", 2, "recovery")


@rule("S2")
@needs("restart", "webhooks")
@across_restart
@stricter("section 6.5 says SHOULD")
def test_the_signing_key_survives(server: Server) -> Iterator[None]:
    """The signing key survives."""
    path = f"{server.control_root}/__ds/jwks.json"
    before = server.request("GET", path).json()
    yield
    assert server.request("GET", path).json() == before
