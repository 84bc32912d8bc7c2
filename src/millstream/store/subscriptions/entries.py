"""A subscription in memory."""

from millstream.protocol.subscriptions.states import Subscription
from millstream.store.subscriptions.members import Members


class Entry:
    """Its state, its streams, and the attempt that is being made."""

    __slots__ = ("attempted", "members", "state")

    def __init__(self, state: Subscription, members: Members) -> None:
        self.state = state
        self.members = members
        self.attempted: str | None = None
        """The wake that is being delivered just now; a crash forgets it, and it is delivered again."""
