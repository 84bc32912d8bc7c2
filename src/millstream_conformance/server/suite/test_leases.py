"""Pull-wake: wakes, claims, acks, releases, and fencing (protocol 7.2, 7.3)."""

from __future__ import annotations

import time

from millstream_conformance.server.checks import each, needs, patient, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.subscriptions import Subscription, settle
from millstream_conformance.server.suite.waiting import eventually


@rule("S1", "S4")
@needs("subscriptions")
@each("by", {"append": b"", "creation": b"first"})
@stricter("section 7.1 speaks of appends only", rows=["creation"])
def test_new_data_writes_a_wake_event(server: Server, by: bytes) -> None:
    """An append, or a PUT with a body, writes a wake event with the protocol's fields."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a", by)
    if not by:
        stream.append(b"x")
    eventually(lambda: len(subscription.wakes()) == 1, 2, "a wake event")
    wake = subscription.wakes()[0]
    assert wake["type"] == "wake"
    assert wake["subscription_id"] == subscription.id
    assert wake["stream"] == subscription.relative("in/a")
    assert isinstance(wake["generation"], int)
    assert abs(wake["ts"] / 1000 - time.time()) < 60


@rule("S1")
@needs("subscriptions")
def test_a_wake_in_flight_is_not_repeated(server: Server) -> None:
    """There is one wake until it is claimed, and none for a stream outside the pattern."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    for _ in range(3):
        stream.append(b"x")
    subscription.stream("out/b").append(b"x")
    eventually(lambda: len(subscription.wakes()) >= 1, 2, "a wake event")
    assert len(subscription.wakes()) == 1


@rule("S1", "S4")
@needs("subscriptions")
def test_a_claim_shows_the_work(server: Server) -> None:
    """A claim has wake, generation, token and lease, and acked and tail offset of each stream."""
    subscription = Subscription(server)
    stream = subscription.stream("in/a", b"old")
    before = stream.tail()
    subscription.pull(lease_ttl_ms=5000)
    stream.append(b"new")
    answer = subscription.claim()
    assert answer.status == 200
    claimed = answer.json()
    assert claimed["wake_id"]
    assert claimed["token"]
    assert claimed["lease_ttl_ms"] == 5000
    assert claimed["generation"] == subscription.wakes()[0]["generation"]
    (link,) = [link for link in claimed["streams"] if link["has_pending"]]
    assert link["path"] == subscription.relative("in/a")
    assert link["acked_offset"] == before
    assert link["tail_offset"] == stream.tail()


@rule("S4")
@needs("subscriptions")
def test_a_second_worker_is_told_who_holds_it(server: Server) -> None:
    """409 ALREADY_CLAIMED with the holder and the generation."""
    subscription = Subscription(server)
    subscription.pull()
    subscription.stream("in/a").append(b"x")
    claimed = subscription.claim("worker-1").json()
    answer = subscription.claim("worker-2")
    assert answer.status == 409
    error = answer.json()["error"]
    assert error["code"] == "ALREADY_CLAIMED"
    assert error["current_holder"] == "worker-1"
    assert error["generation"] == claimed["generation"]


@rule("S1", "S4")
@needs("subscriptions")
def test_acking_everything_ends_the_work(server: Server) -> None:
    """Acking everything with done ends the work and moves the cursor."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    tail = stream.append(b"x").next_offset
    claimed = subscription.claim().json()
    name = subscription.relative("in/a")
    answer = subscription.post("ack", settle(claimed, {name: tail}, done=True), claimed["token"])
    assert answer.status == 200
    assert answer.json() == {"ok": True, "next_wake": False}
    assert subscription.links()[name]["acked_offset"] == tail


@rule("S1", "S4")
@needs("subscriptions")
def test_acking_a_part_wakes_again(server: Server) -> None:
    """With work left, next_wake is true and a newer generation follows."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    middle = stream.append(b"x").next_offset
    stream.append(b"y")
    claimed = subscription.claim().json()
    done = settle(claimed, {subscription.relative("in/a"): middle}, done=True)
    assert subscription.post("ack", done, claimed["token"]).json() == {"ok": True, "next_wake": True}
    eventually(lambda: len(subscription.wakes()) == 2, 2, "a second wake")
    assert subscription.claim().json()["generation"] > claimed["generation"]


@rule("S1")
@needs("subscriptions")
def test_an_ack_without_done_keeps_the_lease(server: Server) -> None:
    """An ack without done moves the cursor and keeps the lease."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    tail = stream.append(b"x").next_offset
    claimed = subscription.claim("worker-1").json()
    name = subscription.relative("in/a")
    assert subscription.post("ack", settle(claimed, {name: tail}), claimed["token"]).status == 200
    assert subscription.links()[name]["acked_offset"] == tail
    assert subscription.claim("worker-2").status == 409


@rule("S4")
@needs("subscriptions")
@each("action", ["ack", "release"])
@each("stale", {"generation": {"generation": 99999}, "wake": {"wake_id": "w_other"}})
def test_a_stale_request_is_fenced(server: Server, action: str, stale: dict[str, object]) -> None:
    """Another generation or wake is 409 FENCED and moves no cursor."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    name = subscription.relative("in/a")
    tail = stream.append(b"x").next_offset
    claimed = subscription.claim().json()
    start = subscription.links()[name]["acked_offset"]
    body = {**settle(claimed, {name: tail}, done=True), **stale}
    answer = subscription.post(action, body, claimed["token"])
    assert answer.status == 409
    assert answer.json()["error"]["code"] == "FENCED"
    assert subscription.links()[name]["acked_offset"] == start


@rule("S1", "S4")
@needs("subscriptions")
@each("token", {"invented": "nonsense", "empty": ""})
def test_a_wrong_token_moves_nothing(server: Server, token: str) -> None:
    """Without the claim's own token nothing is acked."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    name = subscription.relative("in/a")
    tail = stream.append(b"x").next_offset
    claimed = subscription.claim().json()
    start = subscription.links()[name]["acked_offset"]
    answer = subscription.post("ack", settle(claimed, {name: tail}, done=True), token)
    assert answer.status in {401, 403, 409}
    assert subscription.links()[name]["acked_offset"] == start


@rule("S4")
@needs("subscriptions")
@each("bad", {"unknown-stream": ("{}/in/nowhere", None), "bad-offset": ("{}/in/b", "abc,def")})
@stricter("section 7.2 does not say what a bad entry in acks does")
def test_acks_are_atomic(server: Server, bad: tuple[str, str | None]) -> None:
    """One bad entry refuses the whole request with 400, and no cursor moves."""
    subscription = Subscription(server)
    subscription.pull()
    first, second = subscription.stream("in/a"), subscription.stream("in/b")
    tail = first.append(b"x").next_offset
    second.append(b"y")
    claimed = subscription.claim().json()
    name = subscription.relative("in/a")
    start = subscription.links()[name]["acked_offset"]
    acks = {name: tail, bad[0].format(subscription.folder): bad[1] or tail}
    answer = subscription.post("ack", settle(claimed, acks, done=True), claimed["token"])
    assert answer.status == 400
    assert subscription.links()[name]["acked_offset"] == start


@rule("S1", "S4")
@needs("subscriptions")
def test_releasing_wakes_somebody_else(server: Server) -> None:
    """Releasing is 204, wakes again for the remaining work, and fences the old claim."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    tail = stream.append(b"x").next_offset
    claimed = subscription.claim("worker-1").json()
    assert subscription.post("release", settle(claimed), claimed["token"]).status == 204
    eventually(lambda: len(subscription.wakes()) == 2, 2, "another wake")
    again = subscription.claim("worker-2")
    assert again.status == 200
    assert again.json()["generation"] > claimed["generation"]
    late = settle(claimed, {subscription.relative("in/a"): tail}, done=True)
    assert subscription.post("ack", late, claimed["token"]).json()["error"]["code"] == "FENCED"


@rule("S1")
@needs("subscriptions")
@patient
def test_a_lease_that_runs_out_frees_the_work(server: Server) -> None:
    """An expired lease can be claimed by another worker, and the old one is fenced."""
    subscription = Subscription(server)
    subscription.pull(lease_ttl_ms=1000)
    stream = subscription.stream("in/a")
    tail = stream.append(b"x").next_offset
    claimed = subscription.claim("dead").json()
    assert subscription.claim("worker-2").status == 409
    eventually(lambda: len(subscription.wakes()) == 2, 3, "a wake after the lease")
    again = subscription.claim("worker-2")
    assert again.status == 200
    assert again.json()["generation"] > claimed["generation"]
    late = settle(claimed, {subscription.relative("in/a"): tail}, done=True)
    assert subscription.post("ack", late, claimed["token"]).status == 409
