"""What every store offers about subscriptions, whether one server has them or several share them.

registry   created, read, listed, deleted; members; keys
working    claims, acknowledgements, releases; attempts to deliver webhooks
waking     whom to call when a webhook is due
"""

from collections.abc import Mapping
from typing import Protocol

from millstream.protocol.streams import Unstored
from millstream.protocol.subscriptions.answers import Shown
from millstream.protocol.subscriptions.configurations import Configuration
from millstream.protocol.subscriptions.keys import Keys, SigningKey
from millstream.protocol.subscriptions.problems import Unknown
from millstream.protocol.subscriptions.requests import SettleRequest
from millstream.protocol.subscriptions.tokens import Claim
from millstream.store.pending import Eventually
from millstream.store.subscriptions.entries import Entry
from millstream.store.subscriptions.registry import MayRead, Registration, Removed, RosterPage
from millstream.store.subscriptions.waking import Waking
from millstream.store.subscriptions.working import Attempt, Claiming, Settled, Settling


class OfferedRegistry(Protocol):
    """Creates and deletes subscriptions."""

    max_subscriptions: int

    def create(
        self, id: str, root: str, configuration: Configuration, base_url: str, keys: Keys, now_ms: int
    ) -> Eventually[Registration]:
        """Create a subscription, or confirm that it is there; `keys` are for a store that has none."""
        ...

    def read(self, key: str) -> Eventually[Shown | Unknown | Unstored]:
        """Show a subscription."""
        ...

    def list(self, after: str, limit: int, may_read: MayRead) -> Eventually[RosterPage | Unstored]:
        """List subscriptions in the order of their keys, beginning after one."""
        ...

    def delete(self, key: str) -> Eventually[Removed | Unstored]:
        """Delete a subscription; one that is not there counts as deleted."""
        ...

    def add_members(self, key: str, names: tuple[str, ...]) -> Eventually[Removed | Unknown | Unstored]:
        """Link streams explicitly, at their tails."""
        ...

    def remove_member(self, key: str, name: str) -> Eventually[Removed | Unknown | Unstored]:
        """Remove an explicit link; a stream that the pattern matches stays."""
        ...

    def offer_keys(self, keys: Keys) -> Eventually[Keys | Unstored]:
        """Give the keys of the store durably; those that are offered become them if it has none."""
        ...

    def rotate_keys(self, new: SigningKey, keys: Keys, now_ms: int) -> Eventually[Keys | Unstored]:
        """Let another key sign."""
        ...


class OfferedWorking(Protocol):
    """What workers do, and attempts to deliver."""

    def claim(self, key: str, worker: str, now_ms: int) -> Eventually[Claiming]:
        """Give a worker the lease, or say what is in the way."""
        ...

    def settle(
        self, key: str, action: str, claim: Claim, request: SettleRequest, now_ms: int
    ) -> Eventually[Settling]:
        """Acknowledge, extend the lease, or give it back: `ack`, `callback` or `release`."""
        ...

    def retry(self, key: str, now_ms: int) -> Eventually[Settled | Unknown | Unstored]:
        """Let an attempt that waits for its time be made now."""
        ...

    def begin_attempt(self, key: str, now_ms: int) -> Eventually[Attempt | Unstored | None]:
        """Begin to deliver a webhook that is due; None when there is nothing to deliver."""
        ...

    def succeed(self, attempt: Attempt, now_ms: int, *, is_done: bool) -> Eventually[object]:
        """Take in that a receiver has a webhook, and perhaps that it has processed what it says."""
        ...

    def fail(self, attempt: Attempt, error: str, now_ms: int) -> Eventually[object]:
        """Take in that a webhook could not be delivered, and when it is tried again."""
        ...


class OfferedSubscriptions(Protocol):
    """The subscriptions of a store."""

    @property
    def registry(self) -> OfferedRegistry:
        """Creates and deletes them."""
        ...

    @property
    def working(self) -> OfferedWorking:
        """What workers do."""
        ...

    @property
    def waking(self) -> Waking:
        """Wakes them."""
        ...

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Those that this server knows of, by key."""
        ...

    @property
    def keys(self) -> Keys | None:
        """The keys of the store, if it has any yet."""
        ...

    @property
    def failing(self) -> int:
        """How many had a failed attempt last."""
        ...
