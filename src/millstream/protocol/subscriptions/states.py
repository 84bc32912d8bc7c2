"""The state of a subscription: all that decisions about it depend on, and that survives a crash.

        idle --something is pending--> woken --accepted--> handled --done, or the lease ends--> idle
                                         ^  |
                                         +--+ an attempt failed: again, by the schedule

A wake is one notice to one worker. It has a generation, which rises with every wake, and an id that nobody
can guess. While a subscription has a wake, it gets no other one; what arrives meanwhile is found when the
wake ends.

        webhook     delivered when the receiver has answered with success; leased from each attempt on
        pull-wake   delivered when its event is in the wake stream; leased from a worker's claim on

States are values: every decision gives a new one (`wakes`). Cursors are beside them (`Link`), one for each
stream, because a subscription may have very many.

PROTOCOL.md 6.1, 7; rules S1, S4.
"""

import msgspec

from millstream.protocol.subscriptions.configurations import WEBHOOK, Configuration


class Link(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream of a subscription: how far it is processed, and whether it was named or found by the glob."""

    acked: int
    is_explicit: bool = False


class Wake(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A wake that is in flight, or that a worker handles."""

    id: str
    stream: str
    """The stream that caused it."""
    is_delivered: bool = False
    holder: str | None = None
    """The worker that has claimed it; a webhook's receiver has no name."""
    lease_until_ms: int | None = None
    """When it ends by itself; None while nobody has it."""


class Subscription(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything about a subscription but its cursors."""

    id: str
    root: str
    """The stream root that its paths are relative to."""
    configuration: Configuration
    base_url: str
    """The URL of its control API, as the client that created it addresses the server."""
    created_ms: int
    generation: int = 0
    wake: Wake | None = None
    pending_ms: int | None = None
    """Since when something has been pending; None while it is idle."""
    attempts: int = 0
    """How many attempts to deliver have failed, one after the other."""
    next_attempt_ms: int | None = None
    last_error: str | None = None
    last_error_ms: int | None = None
    last_success_ms: int | None = None

    @property
    def key(self) -> str:
        """What tells it from all others of a store: the same id may exist below two roots."""
        return self.root + self.id

    @property
    def is_webhook(self) -> bool:
        """Whether it is delivered by a webhook, and not through a wake stream."""
        return self.configuration.type == WEBHOOK

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to deliver has failed."""
        return self.attempts > 0

    def is_leased(self, now_ms: int) -> bool:
        """Tell whether somebody has the wake, and still has time."""
        wake = self.wake
        return wake is not None and wake.lease_until_ms is not None and now_ms < wake.lease_until_ms

    @property
    def due_ms(self) -> int | None:
        """When something has to happen by itself: the next attempt, or the end of the lease."""
        wake = self.wake
        if wake is None:
            return None
        if not wake.is_delivered and wake.holder is None:
            return self.next_attempt_ms
        return wake.lease_until_ms
