"""What a table is handed: an engine, which finds streams and makes decisions durable.

        Streams   finds entries, in memory or elsewhere
        Journal   makes changes durable, then visible; adds to `Streams` and removes from it
        Engine    holds both; opens, closes, and does what is due now and then

None of them decides anything: decisions are made by the table, with the functions of `protocol`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from millstream.protocol import configuration, lifecycle, parts, retention, streams
from millstream.protocol.configuration import Configuration
from millstream.protocol.streams import Stream, Unstored
from millstream.store.base import (
    Appended,
    Backlog,
    Committed,
    Configured,
    Created,
    Deleted,
    Dropped,
    FilePart,
    Listener,
    Staged,
)
from millstream.store.entries import Content, Ending, StreamEntry
from millstream.store.measures import Measures, Sizes
from millstream.store.pending import Eventually, Pending

D = TypeVar("D")


class Streams(Protocol):
    """Where an engine's streams are found."""

    @property
    def by_name(self) -> dict[str, StreamEntry]:
        """Those in memory."""
        ...

    @property
    def last_id(self) -> int:
        """The id that was given last."""
        ...

    def find(self, name: str) -> StreamEntry | None:
        """Find a stream, in memory or elsewhere."""
        ...

    def find_all(self, names: list[str]) -> list[StreamEntry]:
        """Find the streams that there are of some names, in that order; cheaper than one after the other."""
        ...

    def walk(self, prefix: str, after: str) -> Iterator[str]:
        """Give names in order, those of streams that are not durable yet included."""
        ...

    def existing(self, prefix: str) -> Iterator[str]:
        """Give the names below a prefix that count towards quotas."""
        ...

    def count(self) -> int:
        """Count the streams that exist."""
        ...

    def next_id(self) -> int:
        """Give an id that no stream ever had."""
        ...

    def take_rows(self) -> Mapping[str, bytes]:
        """Give the rows that were kept (`Journal.keep`), by key; called once, when the table adopts them."""
        ...

    def new_content(self, stream: Stream) -> Content:
        """Make the place for a new stream's bytes."""
        ...

    def load_producers(self, entry: StreamEntry) -> None:
        """Load the producers that a stream knows; called before the first decision about one."""
        ...

    def before_change(self, entry: StreamEntry, /) -> None:
        """Be told that a stream is about to change; called before anything of it does."""
        ...

    def locate(self, entry: StreamEntry, start: int, end: int) -> FilePart | None:
        """Give the place of bytes that are in a file, or None."""
        ...


class Journal(Backlog, Protocol):
    """Makes changes durable, then visible, in the order in which they were accepted."""

    listener: Listener
    """Called with a stream's name once a change of it is durable."""

    @property
    def refusal(self) -> Unstored | None:
        """Why no change is accepted at the moment, if none is."""
        ...

    @property
    def removal_refusal(self) -> Unstored | None:
        """Why not even a change that removes something is accepted, if none is."""
        ...

    def create(self, entry: StreamEntry, plan: lifecycle.Create) -> Eventually[Created]:
        """Record a creation, and add the stream."""
        ...

    def append(self, entry: StreamEntry, plan: streams.Append, now_ms: int) -> Eventually[Appended]:
        """Record an append."""
        ...

    def end(self, entry: StreamEntry, ending: Ending) -> Eventually[Deleted]:
        """Record a deletion, and remove what is gone."""
        ...

    def end_all(self, entries: list[StreamEntry]) -> None:
        """Record that streams are gone, all at once; none of them has forks, or is one."""
        ...

    def renew(self, entry: StreamEntry) -> None:
        """Record that a TTL was renewed, where that is worth a record."""
        ...

    def configure(
        self, entry: StreamEntry, plan: configuration.Configured, change: Configuration
    ) -> Eventually[Configured]:
        """Record another configuration; then readers see it (`StreamEntry.show_change`)."""
        ...

    def trim(self, entry: StreamEntry, change: retention.Trim) -> Eventually[retention.Trim | Unstored]:
        """Record that a stream starts later, then free the bytes before."""
        ...

    def stage(self, entry: StreamEntry, plan: parts.Stage, now_ms: int) -> Eventually[Staged]:
        """Record a part."""
        ...

    def commit(self, entry: StreamEntry, plan: parts.Commit, now_ms: int) -> Eventually[Committed]:
        """Record an append of parts."""
        ...

    def drop_parts(self, entry: StreamEntry, plan: parts.Drop) -> Eventually[Dropped]:
        """Record that parts were dropped."""
        ...

    def release_parts(self, entry: StreamEntry, numbers: list[int]) -> None:
        """Note that parts are no longer staged, so that what held their bytes can be removed."""
        ...

    def keep(self, rows: Mapping[str, bytes | None]) -> None:
        """Keep rows by key, or remove those without a value: all in one record, in order with other changes.

        What is in them is the table's business (`subscriptions.rows`). An engine stores the bytes, and gives
        them back when it is opened (`Streams.take_rows`).
        """
        ...

    def confirm(self, decision: D) -> D | Pending[Any]:
        """Delay a decision that changed nothing until all that it was made on is durable."""
        ...

    def confirm_missing(self, name: str, found: D) -> D | Pending[Any]:
        """Delay the answer that a stream is gone until its end is durable."""
        ...


class Engine(Protocol):
    """What finds a table's streams and makes its decisions durable."""

    on_recovered: Callable[[], None]
    """Called when `streams` was replaced by a recovered state."""
    on_failure: Callable[[str], None]

    @property
    def streams(self) -> Streams:
        """Where streams are found."""
        ...

    @property
    def journal(self) -> Journal:
        """What makes changes durable."""
        ...

    @property
    def unsaved_bytes(self) -> int:
        """How many bytes wait in memory for a checkpoint."""
        ...

    @property
    def failure(self) -> str | None:
        """Why no change is accepted, if none is."""
        ...

    @property
    def measures(self) -> Measures | None:
        """Measurements of the disk; None where there is none."""
        ...

    async def open(self) -> None:
        """Recover, and begin to accept changes."""
        ...

    async def close(self) -> None:
        """Finish what was begun and release everything."""
        ...

    def due(self, now_ms: int) -> Iterable[str]:
        """Give the names of streams that are due and may not be in memory, each once."""
        ...

    def maintain(self, now_ms: int) -> None:
        """Do what is due now and then."""
        ...

    def log_bytes(self) -> int:
        """Give the size of the log that a start would read."""
        ...

    def measure_sizes(self) -> Sizes | None:
        """Measure how much room the data takes."""
        ...
