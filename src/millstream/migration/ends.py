"""The two ends of a migration, and what each must do."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from millstream.migration.records import Batch
from millstream.protocol.streams import Stream


class Source(Protocol):
    """Where streams come from."""

    name: str
    """What people call it, without passwords."""
    is_exact: bool
    """Whether it gives states and appends as they are; a server tells only what clients may see."""
    not_kept: Counter[str]
    """What cannot be kept, in words, and of how many streams."""

    async def open(self) -> None:
        """Connect, or lock; a StoreError says what is in the way."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...

    async def count(self) -> int | None:
        """Count the streams, if that is known."""
        ...

    def streams(self) -> AsyncIterator[Stream]:
        """Give all streams with their producers, every fork after its source."""
        ...

    def batches(self, stream: Stream, position: int) -> AsyncIterator[Batch]:
        """Give the content that is kept, from the beginning of an append on; each batch is small."""
        ...

    async def completed(self, stream: Stream) -> Stream:
        """Give the stream that was read to its end, as it is."""
        ...

    async def rows(self) -> Mapping[str, bytes]:
        """Give the rows of subscriptions, by key."""
        ...


class Destination(Source, Protocol):
    """Where streams go to."""

    @property
    def is_saved(self) -> bool:
        """Whether all that was written is committed."""
        ...

    async def is_begun(self, source: str) -> bool:
        """Tell whether a migration from this source was begun and not finished; refuse if it was another."""
        ...

    async def begin(self, source: str) -> None:
        """Note that a migration from a source is under way."""
        ...

    async def end(self) -> None:
        """Note that it is complete."""
        ...

    async def find(self, name: str) -> Stream | None:
        """Find a stream of a name, with its producers."""
        ...

    async def free_id(self, wanted: int) -> int:
        """Give an id for a new stream: the wanted one, if no stream has it."""
        ...

    async def create(self, stream: Stream) -> None:
        """Add a stream without content, in the state that is given."""
        ...

    async def add(self, stream: Stream, batch: Batch) -> None:
        """Add to the content of the stream that was created or found last."""
        ...

    async def finish(self, stream: Stream) -> None:
        """Give that stream its state."""
        ...

    async def flush(self) -> None:
        """Commit what was written."""
        ...

    async def keep(self, rows: Mapping[str, bytes]) -> None:
        """Keep the rows of subscriptions."""
        ...
