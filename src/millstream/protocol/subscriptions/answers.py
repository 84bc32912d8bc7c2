"""Answers about subscriptions, and what is sent to workers: JSON as the protocol has it, with fields of ours.

Lists of streams have at most `MAX_LISTED` entries, those with something pending first. A worker that gets
fewer than there are is woken again for the rest.

PROTOCOL.md 6.3, 7; rules S1, S2, S4.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from millstream.protocol import caching, headers
from millstream.protocol.http import Header, Reply
from millstream.protocol.offsets import format_offset
from millstream.protocol.subscriptions.configurations import relative
from millstream.protocol.subscriptions.states import Link, Subscription
from millstream.protocol.times import format_time

MAX_LISTED: Final = 1_000

_encode = msgspec.json.Encoder().encode
_JSON: Header = (headers.CONTENT_TYPE, b"application/json")
_NO_STORE: Header = (b"cache-control", caching.NO_STORE)


class LinkedStream(msgspec.Struct, frozen=True, gc=False):
    """A stream of a subscription at one moment; a tail of None is a stream that does not exist."""

    name: str
    link: Link
    tail: int | None

    @property
    def is_pending(self) -> bool:
        """Whether it has something that is not processed."""
        return self.tail is not None and self.tail > self.link.acked


class Shown(msgspec.Struct, frozen=True):
    """A subscription as it is shown: its state, some of its streams, and how many there are."""

    subscription: Subscription
    streams: list[LinkedStream]
    stream_count: int
    pending_count: int

    @property
    def pending_bytes(self) -> int:
        """How much is not processed, of the streams that are listed."""
        return sum((one.tail or 0) - one.link.acked for one in self.streams if one.is_pending)


class Signing(msgspec.Struct, frozen=True):
    """How webhooks are signed just now."""

    kid: str
    jwks_url: str


def described(shown: Shown, signing: Signing | None, *, with_streams: bool = True) -> dict[str, Any]:
    """Describe a subscription for a client."""
    subscription = shown.subscription
    configuration, root, wake = subscription.configuration, subscription.root, subscription.wake
    found: dict[str, Any] = {
        "id": subscription.id,
        "subscription_id": subscription.id,
        "type": configuration.type,
        "pattern": _relative(configuration.pattern, root),
    }
    if with_streams:
        found["streams"] = [_linked(one, root) for one in shown.streams]
    webhook: dict[str, Any] | None = None
    if configuration.webhook_url is not None:
        webhook = {"url": configuration.webhook_url}
        if signing is not None:
            webhook["signing"] = {"alg": "ed25519", "kid": signing.kid, "jwks_url": signing.jwks_url}
    return found | {
        "webhook": webhook,
        "wake_stream": _relative(configuration.wake_stream, root),
        "lease_ttl_ms": configuration.lease_ttl_ms,
        "created_at": _time(subscription.created_ms),
        "status": "failed" if subscription.is_failing else "active",
        "description": configuration.description,
        "root": root,
        "generation": subscription.generation,
        "holder": wake.holder if wake is not None else None,
        "lease_expires_at": _time(wake.lease_until_ms) if wake is not None else None,
        "stream_count": shown.stream_count,
        "pending_streams": shown.pending_count,
        "pending_bytes": shown.pending_bytes,
        "pending_since": _time(subscription.pending_ms),
        "attempts": subscription.attempts,
        "next_attempt_at": _time(subscription.next_attempt_ms) if subscription.is_failing else None,
        "last_error": subscription.last_error,
        "last_error_at": _time(subscription.last_error_ms),
        "last_success_at": _time(subscription.last_success_ms),
    }


def shown(shown: Shown, signing: Signing | None, *, is_new: bool = False) -> Reply:
    """Answer a GET, or a PUT that has created a subscription or found it there."""
    return Reply(201 if is_new else 200, [_JSON, _NO_STORE], _encode(described(shown, signing)))


def listed(page: Iterable[tuple[Shown, Signing | None]], cursor: str | None) -> Reply:
    """Answer a listing."""
    found = [described(one, signing, with_streams=False) for one, signing in page]
    return Reply(200, [_JSON, _NO_STORE], _encode({"subscriptions": found, "cursor": cursor}))


def claimed(shown: Shown, token: str) -> Reply:
    """Answer a claim that has got the lease."""
    subscription = shown.subscription
    assert subscription.wake is not None
    found = {
        "wake_id": subscription.wake.id,
        "generation": subscription.generation,
        "token": token,
        "streams": [_pending(one, subscription.root) for one in shown.streams],
        "lease_ttl_ms": subscription.configuration.lease_ttl_ms,
    }
    return Reply(200, [_JSON, _NO_STORE], _encode(found))


def settled(*, next_wake: bool) -> Reply:
    """Answer a callback or an ack."""
    return Reply(200, [_JSON, _NO_STORE], _encode({"ok": True, "next_wake": next_wake}))


def rotated(kid: str, retired: list[str]) -> Reply:
    """Answer that another key signs."""
    return Reply(200, [_JSON, _NO_STORE], _encode({"kid": kid, "retired": retired}))


DONE: Final = Reply(204, [])
"""Answers a release, a deletion, and a change of members."""


# -- What workers get ----------------------------------------------------------------------------


def webhook_body(shown: Shown, token: str) -> bytes:
    """Make the body of a webhook."""
    subscription = shown.subscription
    assert subscription.wake is not None
    return _encode(
        {
            "subscription_id": subscription.id,
            "wake_id": subscription.wake.id,
            "generation": subscription.generation,
            "streams": [_pending(one, subscription.root) for one in shown.streams],
            "callback_url": f"{subscription.base_url}/callback",
            "callback_token": token,
        }
    )


def is_done(body: bytes) -> bool:
    """Tell whether a receiver says in its answer that everything in the webhook is processed."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(answer, dict) and answer.get("done") is True


def wake_event(subscription: Subscription, now_ms: int) -> bytes:
    """Make the event that a wake stream gets."""
    assert subscription.wake is not None
    return _encode(
        {
            "type": "wake",
            "subscription_id": subscription.id,
            "stream": relative(subscription.wake.stream, subscription.root),
            "generation": subscription.generation,
            "ts": now_ms,
        }
    )


def _linked(one: LinkedStream, root: str) -> dict[str, Any]:
    return {
        "path": relative(one.name, root),
        "link_type": "explicit" if one.link.is_explicit else "glob",
        "acked_offset": format_offset(one.link.acked).decode(),
    }


def _pending(one: LinkedStream, root: str) -> dict[str, Any]:
    tail = one.tail if one.tail is not None else one.link.acked
    return {
        **_linked(one, root),
        "tail_offset": format_offset(tail).decode(),
        "has_pending": one.is_pending,
    }


def _relative(name: str | None, root: str) -> str | None:
    return relative(name, root) if name is not None else None


def _time(time_ms: int | None) -> str | None:
    return format_time(time_ms).decode() if time_ms is not None else None
