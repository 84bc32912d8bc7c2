"""Webhooks: signatures, retries, fencing, refused targets (protocol 6.5, 7.1, 12.8)."""

from __future__ import annotations

import base64
import unittest
from typing import Any

from millstream_conformance.server.checks import each, needs, patient, rule, stricter
from millstream_conformance.server.ed25519 import verify
from millstream_conformance.server.servers import Server
from millstream_conformance.server.subscriptions import Delivery, Receiver, Subscription, settle
from millstream_conformance.server.suite.waiting import eventually

DONE: dict[str, Any] = {"done": True}


def unpadded(text: str) -> bytes:
    """Base64url without its padding, decoded."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def subscribe(server: Server, receiver: Receiver, **more: Any) -> Subscription:
    """A webhook subscription to a receiver here; skipped where the server refuses loopback."""
    subscription = Subscription(server)
    pattern = subscription.relative("in/**")
    answer = subscription.put(type="webhook", pattern=pattern, webhook={"url": receiver.url}, **more)
    if answer.status == 400:
        raise unittest.SkipTest("the server does not deliver to loopback (not in development mode)")
    assert answer.status == 201
    assert b"secret" not in answer.body.lower()
    return subscription


def keys(server: Server) -> dict[str, bytes]:
    """The server's published signing keys by id."""
    answer = server.request("GET", f"{server.control_root}/__ds/jwks.json")
    return {key["kid"]: unpadded(key["x"]) for key in answer.json()["keys"]}


def is_signed(server: Server, delivery: Delivery) -> bool:
    """Whether a delivery carries a valid signature of its exact bytes by a published key."""
    given = {name.lower(): value for name, value in delivery.headers.items()}["webhook-signature"]
    fields = dict(part.strip().split("=", 1) for part in given.split(","))
    message = fields["t"].encode() + b"." + delivery.body
    assert "=" not in fields["ed25519"], "the signature is unpadded"
    return verify(keys(server)[fields["kid"]], message, unpadded(fields["ed25519"]))


@rule("S2")
@needs("webhooks")
def test_the_signing_keys_are_published(server: Server) -> None:
    """A JWK Set of Ed25519 signature keys with different ids."""
    answer = server.request("GET", f"{server.control_root}/__ds/jwks.json")
    assert (answer.content_type or "").partition(";")[0] == "application/jwk-set+json"
    for key in answer.json()["keys"]:
        assert (key["kty"], key["crv"], key["use"], key["alg"]) == ("OKP", "Ed25519", "sig", "EdDSA")
        assert len(unpadded(key["x"])) == 32
        assert "d" not in key, "that would be the private key"
    assert len(keys(server)) == len(answer.json()["keys"])


@rule("S2")
@needs("webhooks")
@stricter("section 6.5 does not prescribe the form of an id")
def test_key_ids_begin_with_ds(server: Server) -> None:
    """The ids of signing keys begin with ds_, as in the examples of the protocol."""
    assert all(key_id.startswith("ds_") for key_id in keys(server))


@rule("S3")
@needs("webhooks")
@each(
    "url",
    {
        "plain-http": "http://hooks.example.com/",
        "private-10": "https://10.0.0.1/",
        "private-192": "https://192.168.1.1/",
        "private-172": "https://172.16.5.5/",
        "link-local": "https://169.254.169.254/latest/meta-data/",
        "carrier-nat": "https://100.64.0.1/",
        "loopback-https": "https://127.0.0.1/",
        "loopback-short": "https://127.1/",
        "loopback-decimal": "https://2130706433/",
        "loopback-hex": "https://0x7f000001/",
        "loopback-octal": "https://0177.0.0.1/",
        "unspecified": "https://0.0.0.0/",
        "ipv6-loopback": "https://[::1]/",
        "ipv6-unique-local": "https://[fd00::1]/",
        "ipv6-link-local": "https://[fe80::1]/",
        "ipv4-mapped": "https://[::ffff:10.0.0.1]/",
        "ipv4-mapped-hex": "https://[::ffff:a9fe:a9fe]/",
        "ipv4-in-6to4": "https://[2002:7f00:1::1]/",
        "ipv4-in-nat64": "https://[64:ff9b::7f00:1]/",
        "octal-number": "https://017700000001/",
        "trailing-dot": "https://127.0.0.1./",
        "escaped": "https://%31%32%37.0.0.1/",
        "broadcast": "https://255.255.255.255/",
        "multicast": "https://224.0.0.1/",
        "private-http": "http://192.168.1.1/",
        "other-scheme": "ftp://hooks.example.com/",
        "file": "file:///etc/passwd",
        "not-a-url": "hooks",
        "with-user": "https://user:pass@10.0.0.1/",
    },
)
@stricter(
    "section 6.2 names neither these addresses nor these spellings",
    rows=[
        "carrier-nat", "ipv4-mapped-hex", "ipv4-in-6to4", "ipv4-in-nat64", "octal-number", "trailing-dot",
        "escaped", "broadcast", "multicast",
    ],
)  # fmt: skip
def test_private_targets_are_refused(server: Server, url: str) -> None:
    """A target inside a network, however it is spelled, is refused."""
    subscription = Subscription(server)
    answer = subscription.put(type="webhook", pattern="a/*", webhook={"url": url})
    assert 400 <= answer.status < 500
    assert subscription.get().status == 404


@rule("S3", "S4")
@needs("webhooks")
@stricter("section 6.2 names neither the status nor the code")
def test_a_refused_target_has_its_own_code(server: Server) -> None:
    """A private target is 400 with the code WEBHOOK_URL_REJECTED."""
    subscription = Subscription(server)
    answer = subscription.put(type="webhook", pattern="a/*", webhook={"url": "https://10.0.0.1/"})
    assert answer.status == 400
    assert answer.json()["error"]["code"] == "WEBHOOK_URL_REJECTED"


@rule("S2", "S4")
@needs("webhooks")
@patient
def test_a_delivery_is_signed_and_says_what_is_pending(server: Server) -> None:
    """An append is delivered with a verifiable signature and the protocol's fields."""
    with Receiver(lambda number: (200, DONE)) as receiver:
        subscription = subscribe(server, receiver)
        stream = subscription.stream("in/a")
        start, tail = stream.tail(), stream.append(b"x").next_offset
        delivery = receiver.next()
        wake = delivery.json()
        assert is_signed(server, delivery)
        assert not verify(next(iter(keys(server).values())), b"0." + delivery.body, bytes(64))
        assert wake["subscription_id"] == subscription.id
        assert wake["wake_id"]
        assert isinstance(wake["generation"], int)
        assert wake["callback_token"]
        origin = f"{server.address.scheme}://{server.address.host}"
        assert wake["callback_url"].startswith(origin)
        (link,) = [link for link in wake["streams"] if link["has_pending"]]
        assert link["path"] == subscription.relative("in/a")
        assert link["acked_offset"] in {start, "-1"}
        assert link["tail_offset"] == tail
        name = subscription.relative("in/a")
        eventually(lambda: subscription.links()[name]["acked_offset"] == tail, 2, "the ack of a done wake")


@rule("S2")
@needs("webhooks")
@stricter("section 6.3 says MAY")
def test_signing_metadata_names_the_clients_host(server: Server) -> None:
    """URLs in answers are built from the host that the client used."""
    with Receiver(lambda number: (200, DONE)) as receiver:
        subscription = subscribe(server, receiver)
        signing = subscription.get().json()["webhook"].get("signing")
    assert signing["alg"] == "ed25519"
    assert signing["kid"] in keys(server)
    assert signing["jwks_url"].startswith(f"{server.address.scheme}://{server.address.host}")
    assert signing["jwks_url"].endswith("/__ds/jwks.json")


@rule("S1", "S4")
@needs("webhooks")
@patient
def test_new_data_after_done_wakes_again(server: Server) -> None:
    """Each wake has its own id and a higher generation."""
    with Receiver(lambda number: (200, DONE)) as receiver:
        subscription = subscribe(server, receiver)
        stream = subscription.stream("in/a")
        stream.append(b"x")
        first = receiver.next().json()
        name = subscription.relative("in/a")
        eventually(lambda: subscription.links()[name]["acked_offset"] == stream.tail(), 2, "the ack")
        stream.append(b"y")
        second = receiver.next().json()
    assert second["generation"] > first["generation"]
    assert second["wake_id"] != first["wake_id"]


@rule("S1", "S4")
@needs("webhooks")
@patient
def test_a_handler_may_call_back_later(server: Server) -> None:
    """The callback token acks asynchronously; a stale generation is FENCED."""
    with Receiver(lambda number: (200, {})) as receiver:
        subscription = subscribe(server, receiver)
        stream = subscription.stream("in/a")
        tail = stream.append(b"x").next_offset
        wake = receiver.next().json()
        acks = {subscription.relative("in/a"): tail}
        stale = {**settle(wake, acks, done=True), "generation": wake["generation"] + 5}
        fenced = subscription.post("callback", stale, wake["callback_token"])
        assert fenced.status == 409
        assert fenced.json()["error"]["code"] == "FENCED"
        answer = subscription.post("callback", settle(wake, acks, done=True), wake["callback_token"])
        assert answer.status == 200
        assert answer.json() == {"ok": True, "next_wake": False}
        assert subscription.links()[subscription.relative("in/a")]["acked_offset"] == tail


@rule("S1")
@needs("webhooks")
@patient
def test_a_failed_delivery_is_tried_again(server: Server) -> None:
    """After a failed delivery the status is failed, and the wake is sent again about a second later."""
    with Receiver(lambda number: (500, {}) if number == 0 else (200, DONE)) as receiver:
        subscription = subscribe(server, receiver)
        subscription.stream("in/a").append(b"x")
        receiver.next()
        eventually(lambda: subscription.get().json()["status"] == "failed", 1, "the status failed")
        second = receiver.next(timeout_s=4)
        assert is_signed(server, second)
        eventually(lambda: subscription.get().json()["status"] == "active", 2, "recovery")
