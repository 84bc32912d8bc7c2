"""Limits of request bodies: how many bytes all connections may hold together, and how slowly they may arrive.

Counted are bodies that arrive, wait behind other requests, or are being checked. When there is no room, the
large body that began first is given up (503). That one is slow, or its client holds it on purpose; a client
that sends at an ordinary rate is done before it is the oldest. Small bodies are never given up, and the
number of connections limits them.

A body has a minimum rate, averaged over `body_timeout_s`: a client that sends a byte now and then must not
hold its body for ever.

Rule H4.
"""

from typing import Protocol

from millstream.server.settings import Settings


def due_bytes(received_bytes: int, settings: Settings) -> float:
    """Return how much of a body must have arrived after the next `body_timeout_s`; less of it gets 408."""
    return received_bytes + max(1.0, settings.min_body_bytes_per_s * settings.body_timeout_s)


class BodyHolder(Protocol):
    """A connection that a body arrives on."""

    def refuse_body(self) -> None:
        """Give up the body that is arriving, and report that it is gone."""
        ...


class Bodies:
    """The bodies of all connections of a server."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._arriving: dict[BodyHolder, None] = {}  # large ones, in the order in which they began

    def report(self, holder: BodyHolder, added_bytes: int, *, is_arriving: bool) -> None:
        """Count what a connection holds more, or less; `is_arriving` when a large body arrives on it."""
        self.held_bytes += added_bytes
        if is_arriving:
            self._arriving.setdefault(holder)
        else:
            self._arriving.pop(holder, None)
        while self.held_bytes > self.max_bytes and self._arriving:
            oldest = next(iter(self._arriving))
            del self._arriving[oldest]
            oldest.refuse_body()
