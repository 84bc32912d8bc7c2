"""What subscriptions need of the store that they belong to."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from millstream.protocol.streams import Unstored
from millstream.store.pending import Eventually, Pending
from millstream.store.subscriptions.rows import Rows

D = TypeVar("D")


class Host(Protocol):
    """The streams, the log, and time for long work."""

    @property
    def refusal(self) -> Unstored | None:
        """Why no change is accepted at the moment, if none is."""
        ...

    def keep(self, rows: Rows) -> None:
        """Make rows durable, in order with all other changes."""
        ...

    def confirm(self, decision: D) -> D | Pending[Any]:
        """Delay a decision until all that it was made on is durable."""
        ...

    def tails(self, names: list[str]) -> Mapping[str, int]:
        """Give where streams end, of those that exist."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """Give the names of streams that begin with something, in order."""
        ...

    def append_event(self, name: str, event: bytes, now_ms: int) -> Eventually[str | None]:
        """Append an event to a stream of any type; gives what is wrong, if something is."""
        ...

    def later(self, step: Callable[[], None]) -> None:
        """Take a step in one of the next turns."""
        ...

    def in_slices(self, step: Callable[[], bool]) -> Eventually[None]:
        """Take steps until one says that there are no more, with time for others in between."""
        ...
