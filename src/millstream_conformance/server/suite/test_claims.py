"""Claims: what is refused, with which code, and whose tokens count (protocol 7.2, 7.3, 12.9)."""

from __future__ import annotations

from millstream_conformance.server.checks import each, needs, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.subscriptions import Subscription, settle


@rule("S4")
@needs("subscriptions")
@stricter("section 7.2 does not say what a claim without work is")
def test_a_claim_without_work_is_refused(server: Server) -> None:
    """A claim with nothing pending is 409 NO_PENDING_WORK."""
    subscription = Subscription(server)
    subscription.pull()
    answer = subscription.claim()
    assert answer.status == 409
    assert answer.json()["error"]["code"] == "NO_PENDING_WORK"


@rule("S4")
@needs("subscriptions")
@stricter("section 7 shows this form for conflicts only")
@each("action", ["claim", "ack", "release", "streams"])
def test_a_missing_subscription_is_404_in_the_form_of_these_routes(server: Server, action: str) -> None:
    """Actions of a subscription that is not there are 404, or 401, with a code and a message."""
    answer = Subscription(server).post(
        action, {"worker": "w", "streams": ["a"], "wake_id": "w", "generation": 1}
    )
    assert answer.status in {401, 404}
    error = answer.json()["error"]
    assert error["code"]
    assert error["message"]


@rule("S1", "S4")
@needs("subscriptions")
@each("action", ["ack", "release"])
def test_the_token_of_another_subscription_does_not_count(server: Server, action: str) -> None:
    """A claim's token is good for its own subscription only."""
    mine, other = Subscription(server), Subscription(server)
    tails = {}
    for subscription in (mine, other):
        subscription.pull()
        tails[subscription.id] = subscription.stream("in/a").append(b"x").next_offset
    claimed, foreign = mine.claim().json(), other.claim().json()
    name = mine.relative("in/a")
    start = mine.links()[name]["acked_offset"]
    body = settle(claimed, {name: tails[mine.id]}, done=True)
    assert mine.post(action, body, foreign["token"]).status in {401, 403, 409}
    assert mine.links()[name]["acked_offset"] == start
    assert mine.claim("another").status == 409, "it is still claimed"


@rule("S1", "S4")
@needs("subscriptions")
def test_the_token_of_an_old_generation_does_not_count(server: Server) -> None:
    """After a release, the former token acks nothing, even with the current wake and generation."""
    subscription = Subscription(server)
    subscription.pull()
    name = subscription.relative("in/a")
    tail = subscription.stream("in/a").append(b"x").next_offset
    old = subscription.claim("first").json()
    subscription.post("release", settle(old), old["token"])
    current = subscription.claim("second").json()
    start = subscription.links()[name]["acked_offset"]
    answer = subscription.post("ack", settle(current, {name: tail}, done=True), old["token"])
    assert answer.status in {401, 403, 409}
    assert subscription.links()[name]["acked_offset"] == start


@rule("S1")
@needs("subscriptions")
def test_a_token_does_not_outlive_its_subscription(server: Server) -> None:
    """A subscription that is deleted and created again does not know the claims of the former one."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    tail = stream.append(b"x").next_offset
    claimed = subscription.claim().json()
    subscription.delete()
    subscription.pull()
    stream.append(b"y")
    name = subscription.relative("in/a")
    answer = subscription.post("ack", settle(claimed, {name: tail}, done=True), claimed["token"])
    assert answer.status >= 400
    assert subscription.links()[name]["acked_offset"] == tail, "where the new one began"


@rule("S1", "S4")
@needs("subscriptions")
@stricter("section 7.2 does not say what such an offset is")
@each("where", ["before", "after"])
def test_a_cursor_goes_forward_and_not_past_the_end(server: Server, where: str) -> None:
    """An ack of an offset before the cursor or after the end moves nothing."""
    subscription = Subscription(server)
    subscription.pull()
    name = subscription.relative("in/a")
    stream = subscription.stream("in/a")
    start, tail = stream.tail(), stream.append(b"x").next_offset
    claimed = subscription.claim().json()
    subscription.post("ack", settle(claimed, {name: tail}), claimed["token"])
    other = subscription.stream("longer", b"much more than the other stream holds").tail()
    offset = start if where == "before" else other
    subscription.post("ack", settle(claimed, {name: offset}), claimed["token"])
    assert subscription.links()[name]["acked_offset"] == tail
