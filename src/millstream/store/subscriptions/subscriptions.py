"""All about subscriptions that a store offers.

registry   created, read, listed, deleted; members; keys
waking     what happens to streams, and what is due by time
working    claims, acknowledgements, releases; attempts to deliver webhooks
"""

from collections.abc import Mapping

from millstream.protocol.subscriptions.keys import Keys
from millstream.store.subscriptions.host import Host
from millstream.store.subscriptions.registry import Registry
from millstream.store.subscriptions.roster import Roster
from millstream.store.subscriptions.waking import Waking
from millstream.store.subscriptions.working import Working


class Subscriptions:
    """The subscriptions of a store."""

    def __init__(self, host: Host) -> None:
        self.roster = Roster(host)
        self.waking = Waking(self.roster)
        self.working = Working(self.roster, self.waking)
        self.registry = Registry(self.roster)
        self.entries = self.roster.entries
        """By key; empty while there are none, which every append looks at."""

    def adopt(self, rows: Mapping[str, bytes]) -> None:
        """Continue with what the engine has recovered."""
        self.roster.adopt(rows)
        self.entries = self.roster.entries

    @property
    def keys(self) -> Keys | None:
        """The keys of the store, if it has any yet."""
        return self.roster.keys

    @property
    def failing(self) -> int:
        """How many subscriptions had a failed attempt last."""
        return self.roster.failing
