"""Subscriptions: creating, reading, linking and deleting them (protocol 6)."""

from __future__ import annotations

from typing import Any

from millstream_conformance.server.checks import each, needs, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.subscriptions import JSON, Subscription


@rule("S1", "S4")
@needs("subscriptions")
def test_creating_is_201_again_200_differently_409(server: Server) -> None:
    """Creating is 201, the same configuration again 200, another one 409."""
    subscription = Subscription(server)
    assert subscription.pull(lease_ttl_ms=5000, description="one").status == 201
    assert subscription.pull(lease_ttl_ms=5000, description="one").status == 200
    assert subscription.pull(lease_ttl_ms=6000, description="one").status == 409
    assert subscription.pull(lease_ttl_ms=5000, description="two").status == 409
    assert subscription.get().json()["lease_ttl_ms"] == 5000


@rule("S4")
@needs("subscriptions")
def test_reading_shows_the_configuration(server: Server) -> None:
    """GET has the protocol's fields, with the default lease of 30 s."""
    subscription = Subscription(server)
    subscription.pull(description="mine")
    answer = subscription.get()
    assert answer.status == 200
    shown = answer.json()
    assert shown["id"] == shown["subscription_id"] == subscription.id
    assert shown["type"] == "pull-wake"
    assert shown["pattern"] == subscription.relative("in/**")
    assert shown["wake_stream"] == subscription.relative("wake")
    assert shown["lease_ttl_ms"] == 30000
    assert shown["status"] == "active"
    assert shown["description"] == "mine"
    assert shown["streams"] == []
    assert shown["created_at"]


@rule("S4")
@needs("subscriptions")
@each(
    "config",
    {
        "no-type": {"pattern": "a/*", "wake_stream": "w"},
        "unknown-type": {"type": "push", "pattern": "a/*", "wake_stream": "w"},
        "no-streams": {"type": "pull-wake", "wake_stream": "w"},
        "no-wake-stream": {"type": "pull-wake", "pattern": "a/*"},
        "no-webhook": {"type": "webhook", "pattern": "a/*"},
        "short-lease": {"type": "pull-wake", "pattern": "a/*", "wake_stream": "w", "lease_ttl_ms": 999},
        "long-lease": {"type": "pull-wake", "pattern": "a/*", "wake_stream": "w", "lease_ttl_ms": 600_001},
        "lease-text": {"type": "pull-wake", "pattern": "a/*", "wake_stream": "w", "lease_ttl_ms": "soon"},
        "streams-text": {"type": "pull-wake", "streams": "a", "wake_stream": "w"},
    },
)
@stricter("section 6.2 names no status for a bad configuration")
def test_a_bad_configuration_is_400(server: Server, config: dict[str, Any]) -> None:
    """An incomplete or invalid configuration is 400 and creates nothing."""
    subscription = Subscription(server)
    assert subscription.put(**config).status == 400
    assert subscription.get().status == 404


@rule("S4")
@needs("subscriptions")
@each("body", {"not-json": b"{", "array": b"[]", "empty": b""})
@stricter("section 6.2 names no status for a bad configuration")
def test_a_body_that_is_no_object_is_400(server: Server, body: bytes) -> None:
    """A body that is not a JSON object is 400."""
    subscription = Subscription(server)
    assert server.request("PUT", subscription.base, JSON, body).status == 400


@rule("S1", "S4")
@needs("subscriptions")
def test_deleting_ends_it(server: Server) -> None:
    """Deleting is 204, then 404, and a worker's later ack fails."""
    subscription = Subscription(server)
    subscription.pull()
    stream = subscription.stream("in/a")
    stream.append(b"x")
    claimed = subscription.claim().json()
    assert subscription.delete().status == 204
    assert subscription.get().status == 404
    body = {"wake_id": claimed["wake_id"], "generation": claimed["generation"], "done": True}
    assert subscription.post("ack", body, claimed["token"]).status >= 400


@rule("S1")
@needs("subscriptions")
def test_existing_streams_are_linked_at_their_tail(server: Server) -> None:
    """A new subscription starts at the tail of existing streams."""
    subscription = Subscription(server)
    stream = subscription.stream("in/a", b"history")
    subscription.pull()
    assert subscription.links() == {
        subscription.relative("in/a"): {
            "path": subscription.relative("in/a"),
            "link_type": "glob",
            "acked_offset": stream.tail(),
        }
    }
    assert subscription.wakes() == []


@rule("S1")
@needs("subscriptions")
@each(
    "glob",
    {
        "one-segment": ("in/*", {"in/a", "in/b"}),
        "any-depth": ("in/**", {"in/a", "in/b", "in/deep/c", "in/deep/er/d"}),
        "inner": ("in/*/c", {"in/deep/c"}),
        "any-depth-inner": ("**/d", {"in/deep/er/d"}),
        "zero-segments": ("in/**/a", {"in/a"}),
        "literal": ("in/a", {"in/a"}),
    },
)
def test_globs(server: Server, glob: tuple[str, set[str]]) -> None:
    """`*` is one segment, `**` any number of them, none included."""
    pattern, expected = glob
    subscription = Subscription(server)
    for name in ("in/a", "in/b", "in/deep/c", "in/deep/er/d", "out/a"):
        subscription.stream(name)
    subscription.stream("wake", content_type="application/json")
    wake = subscription.relative("wake")
    subscription.put(type="pull-wake", pattern=subscription.relative(pattern), wake_stream=wake)
    assert set(subscription.links()) == {subscription.relative(name) for name in expected}


@rule("S1", "S4")
@needs("subscriptions")
def test_explicit_links_come_and_go(server: Server) -> None:
    """Adding and removing explicit links is idempotent, and leaves a glob link in place."""
    subscription = Subscription(server)
    both, only = subscription.stream("in/both"), subscription.stream("elsewhere/only", b"old")
    subscription.pull()
    names = [subscription.relative("in/both"), subscription.relative("elsewhere/only")]
    for _ in range(2):
        assert subscription.post("streams", {"streams": names}).status == 204
    links = subscription.links()
    assert {name: links[name]["link_type"] for name in names} == dict.fromkeys(names, "explicit")
    assert links[names[1]]["acked_offset"] == only.tail()
    for _ in range(2):
        assert all(subscription.unlink(name).status == 204 for name in names)
    assert {name: link["link_type"] for name, link in subscription.links().items()} == {names[0]: "glob"}
    assert both.head().status == 200
