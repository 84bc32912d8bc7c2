"""What the subscription routes answer. Fields that a server does not say have a default.

PROTOCOL.md 6, 7; docs/protocol.md, "Subscriptions".
"""

from collections.abc import Callable
from typing import Any

import msgspec

from millstream.client.core import bodies


class StreamLink(msgspec.Struct, frozen=True):
    """A stream of a subscription: everything up to `acked_offset` is processed.

    `tail_offset` and `has_pending` are known in a claim and in a webhook.
    """

    path: str
    link_type: str = "glob"
    acked_offset: str = "-1"
    tail_offset: str = ""
    has_pending: bool = False


class Signing(msgspec.Struct, frozen=True):
    """How a server signs webhooks: `jwks_url` is where its public keys are."""

    alg: str = "ed25519"
    kid: str = ""
    jwks_url: str = ""


class Webhook(msgspec.Struct, frozen=True):
    """Where a subscription's webhooks go."""

    url: str
    signing: Signing | None = None


class SubscriptionInfo(msgspec.Struct, frozen=True):
    """A subscription, as its server describes it.

    `type` is "webhook" or "pull-wake". From `generation` on, fields are ours: other servers leave them out.
    `pending_streams`, `pending_bytes` and `pending_since` are its lag; `next_attempt_at` is when a delivery
    that failed is tried again, `last_error` why it failed.
    """

    id: str
    type: str
    pattern: str | None = None
    streams: list[StreamLink] = []
    webhook: Webhook | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int = 30_000
    created_at: str | None = None
    status: str = "active"
    description: str | None = None
    root: str = "/"
    generation: int | None = None
    holder: str | None = None
    lease_expires_at: str | None = None
    stream_count: int | None = None
    pending_streams: int | None = None
    pending_bytes: int | None = None
    pending_since: str | None = None
    attempts: int = 0
    next_attempt_at: str | None = None
    last_error: str | None = None
    last_error_at: str | None = None
    last_success_at: str | None = None


class SubscriptionPage(msgspec.Struct, frozen=True):
    """Some subscriptions; `cursor` is where the next page starts, None on the last."""

    subscriptions: list[SubscriptionInfo]
    cursor: str | None = None


class Claim(msgspec.Struct, frozen=True):
    """The lease of a pull-wake subscription, and the work that comes with it."""

    wake_id: str
    generation: int
    token: str
    lease_ttl_ms: int
    streams: list[StreamLink] = []


class Wake(msgspec.Struct, frozen=True):
    """What a webhook delivers: which streams have something new.

    Answer it with `{"done": true}` to acknowledge all of it, or with anything else and `call_back` later.
    """

    subscription_id: str
    wake_id: str
    generation: int
    callback_url: str
    callback_token: str
    streams: list[StreamLink] = []

    @property
    def pending(self) -> list[StreamLink]:
        """The streams that have something new."""
        return [link for link in self.streams if link.has_pending]

    @property
    def tails(self) -> dict[str, str]:
        """Where these streams ended when the webhook was sent: what to acknowledge when all is processed."""
        return {link.path: link.tail_offset for link in self.pending}


class Acknowledged(msgspec.Struct, frozen=True):
    """An acknowledgement was accepted; with `next_wake`, there is more to do already."""

    ok: bool = True
    next_wake: bool = False


class RotatedKeys(msgspec.Struct, frozen=True):
    """The key that signs webhooks from now on, and those that are only published."""

    kid: str
    retired: list[str] = []


class Lease:
    """A claim, for as long as nobody else can have it.

    The server counts from when it got a request, this worker from when it sent it: so a worker knows of the
    end of its lease before the server gives it to another, whatever the network does.
    """

    def __init__(self, claim: Claim, sent_s: float, clock: Callable[[], float]) -> None:
        self.claim = claim
        self._clock = clock
        self._until_s = sent_s + claim.lease_ttl_ms / 1000
        self._is_fenced = False

    @property
    def is_lost(self) -> bool:
        """Whether the lease has run out, or the server says that it is another's."""
        return self._is_fenced or self._clock() >= self._until_s

    @property
    def heartbeat_s(self) -> float:
        """How often to extend it."""
        return self.claim.lease_ttl_ms / 3000

    def extend(self, sent_s: float) -> None:
        """Begin anew: the server has accepted a request that was sent then."""
        self._until_s = max(self._until_s, sent_s + self.claim.lease_ttl_ms / 1000)

    def fence(self) -> None:
        """Know that it is another's."""
        self._is_fenced = True


class Work(msgspec.Struct, frozen=True):
    """Messages of one stream that a worker is to process, up to `offset`."""

    path: str
    data: bytes
    offset: str
    content_type: str
    lease: Lease

    @property
    def items(self) -> list[Any]:
        """The messages of a JSON stream."""
        return bodies.from_json(self.data, self.path)

    @property
    def text(self) -> str:
        """The content as text."""
        return self.data.decode(errors="replace")

    @property
    def is_lost(self) -> bool:
        """Whether another worker may have this stream by now: a handler that takes long should stop then."""
        return self.lease.is_lost
