"""The receiver's side of webhooks (rule S2): when keys are fetched, and what is refused, against a script."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from millstream import ParseError, UnexpectedStatusError
from millstream.client.core.exchanges import Terms
from millstream.client.core.retry import Chance
from millstream.client.core.subscriptions.models import Wake
from millstream.client.core.subscriptions.verifying import MIN_FETCH_S, Verifier
from millstream.client.core.transport import Answer
from millstream.client.sync.driving import run
from millstream.protocol import signatures
from millstream.subscriptions import WebhookError
from unit.client.scripted import Scripted, answer

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number] * 32)) for number in range(3)]
PUBLIC = [key.public_key().public_bytes_raw() for key in KEYS]
BODY = json.dumps(
    {
        "subscription_id": "orders",
        "wake_id": "w_1",
        "generation": 1,
        "streams": [
            {"path": "a", "link_type": "glob", "acked_offset": "0", "tail_offset": "5", "has_pending": True},
            {"path": "b", "link_type": "glob", "acked_offset": "7", "tail_offset": "7", "has_pending": False},
        ],
        "callback_url": "http://h/__ds/subscriptions/orders/callback",
        "callback_token": "t",
        "of a later version": 1,
    }
).encode()


class Clock:
    """Monotonic and wall time, moved by the test."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


class Receiver:
    """A verifier, its script and its clock."""

    def __init__(self, *steps: Any, **more: Any) -> None:
        self.clock = Clock()
        self.transport = Scripted(*steps)
        terms = Terms(None, 5.0, Chance(self.clock, self.clock))
        options = {"subscriptions": None, "window_s": 300, "headers": None, **more}
        self.verifier = Verifier("http://h/__ds/jwks.json", terms=terms, **options)

    def verify(
        self, key: int = 0, body: bytes = BODY, time_s: int | None = None, name: str = "Webhook-Signature"
    ) -> Wake:
        stamp = int(self.clock.now_s) if time_s is None else time_s
        kid = signatures.key_id(PUBLIC[key])
        header = signatures.sign_delivery(body, kid=kid, time_s=stamp, sign=KEYS[key].sign).decode()
        return run(self.transport, self.verifier.verify(body, {"Content-Type": "x", name: header}))

    def fault(self, **more: Any) -> str:
        with pytest.raises(WebhookError) as caught:
            self.verify(**more)
        return caught.value.code


def key_set(*numbers: int) -> Answer:
    return answer(200, signatures.jwk_set([PUBLIC[number] for number in numbers]))


@pytest.mark.parametrize("name", ["Webhook-Signature", "webhook-signature", "WEBHOOK-SIGNATURE"])
def test_a_genuine_webhook_is_read(name: str) -> None:
    wake = Receiver(key_set(0)).verify(name=name)
    assert (wake.subscription_id, wake.generation, wake.callback_token) == ("orders", 1, "t")
    assert wake.tails == {"a": "5"}


def test_keys_are_fetched_once() -> None:
    receiver = Receiver(key_set(0, 1))
    for key in (0, 1, 0):
        receiver.verify(key)
    assert len(receiver.transport.asked) == 1


def test_a_new_key_is_fetched_when_it_is_first_used() -> None:
    receiver = Receiver(key_set(0), key_set(0, 1))
    receiver.verify(0)
    receiver.clock.now_s += MIN_FETCH_S + 1
    receiver.verify(1)
    assert receiver.transport.finished


def test_invented_keys_do_not_make_a_receiver_ask_again_and_again() -> None:
    receiver = Receiver(key_set(0), key_set(0))
    for _ in range(20):
        assert receiver.fault(key=2) == "UNKNOWN_KEY"
    receiver.clock.now_s += MIN_FETCH_S + 1
    for _ in range(20):
        assert receiver.fault(key=2) == "UNKNOWN_KEY"
    assert len(receiver.transport.asked) == 2


def test_a_key_that_is_withdrawn_is_refused_after_a_while() -> None:
    receiver = Receiver(key_set(0), key_set(1))
    receiver.verify(0)
    receiver.clock.now_s += signatures.JWKS_MAX_AGE_S + 1
    assert receiver.fault(key=0) == "UNKNOWN_KEY"


@pytest.mark.parametrize("off_s", [-301, 301])
def test_a_replay_is_refused(off_s: int) -> None:
    receiver = Receiver(key_set(0))
    assert receiver.fault(time_s=int(receiver.clock.now_s) + off_s) == "OUTSIDE_WINDOW"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", b'{"subscription_id": 1}'])
def test_a_signed_body_of_another_kind_is_refused(body: bytes) -> None:
    assert Receiver(key_set(0)).fault(body=body) == "INVALID_BODY"


def test_subscriptions_of_others_are_refused() -> None:
    assert Receiver(key_set(0), subscriptions={"bills"}).fault() == "OTHER_SUBSCRIPTION"
    assert Receiver(key_set(0), subscriptions=["orders"]).verify().subscription_id == "orders"


@pytest.mark.parametrize(
    ("headers", "code"), [({}, "MISSING_SIGNATURE"), ({"webhook-signature": "x"}, "INVALID_SIGNATURE_HEADER")]
)
def test_without_a_signature_no_key_is_fetched(headers: dict[str, str], code: str) -> None:
    receiver = Receiver()
    with pytest.raises(WebhookError) as caught:
        run(receiver.transport, receiver.verifier.verify(BODY, headers))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("step", "error"), [(answer(404), UnexpectedStatusError), (answer(200, b"<html>"), ParseError)]
)
def test_keys_that_cannot_be_fetched_are_not_the_senders_fault(step: Answer, error: type[Exception]) -> None:
    receiver = Receiver(step, key_set(0))
    with pytest.raises(error):
        receiver.verify()
    receiver.verify()
