"""The contract of every engine.

A request names a stream and comes with the time. The engine finds the stream, asks `protocol` what
should happen, makes that durable and returns the decision; so each method is one row:

        create   PUT      5.1      a new stream, a fork, or what is in the way
        append   POST     5.2      data, closure, or both, in one atomic change
        read     GET      5.6      a chunk; a live read calls it again when woken
        head     HEAD     5.5      the stream as it is
        delete   DELETE   5.4      gone, or kept for its forks
        stage    POST     X3       a part, kept but invisible; `commit` appends parts, `drop_part` forgets one
        listing  GET      X2       names in order, page by page
        expire   -        5.1, X4  end what has outlived its time, let go of what need not be kept

An engine returns a decision, or a `Pending` of it when it has to wait for a disk or a database. It
calls its listener with a stream's name after every change that a waiting reader must see, once the
change is durable. It is used from one event loop, and every method decides without awaiting.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import msgspec

from millstream.protocol.forks import ForkRefusal
from millstream.protocol.parts import CommitPlan, CommitRequest, Drop, StagePlan, StageRequest
from millstream.protocol.reads import Chunk, OffsetGone, OffsetUnaligned
from millstream.protocol.requests import AppendRequest, CreateRequest, ReadRequest
from millstream.protocol.retention import KEEP_ALL, Retention
from millstream.protocol.streams import (
    AppendPlan,
    CreatePlan,
    Delete,
    NotFound,
    SoftDeleted,
    Stream,
    Unstored,
)
from millstream.store.measures import Measures, Sizes
from millstream.store.pending import Eventually

Missing = NotFound | SoftDeleted
Created = CreatePlan | ForkRefusal | Unstored
Appended = AppendPlan | Missing | Unstored
Read = Chunk | OffsetGone | OffsetUnaligned | Missing
Head = Stream | Missing
Deleted = Delete | Missing | Unstored
Staged = StagePlan | Missing | Unstored
Committed = CommitPlan | Missing | Unstored
Dropped = Drop | Missing | Unstored

Listener = Callable[[str], None]


class StoreError(Exception):
    """An engine cannot open its data or go on; the message says what, where, and what to do."""


class Page(msgspec.Struct, frozen=True):
    """A part of the listing, and the name to go on after, if there is more."""

    streams: list[Stream]
    next_after: str | None


class FilePart(msgspec.Struct, frozen=True, gc=False):
    """Bytes that lie in a file; the descriptor is lent until control is back in the event loop."""

    descriptor: int
    position: int
    size: int


class Store(ABC):
    """Where streams are kept."""

    listener: Listener = staticmethod(lambda name: None)
    """Told the name of a stream after every change that a waiting reader must see."""

    unsynced_changes: int = 0
    """How many changes are decided and not yet durable."""

    unsynced_bytes: int = 0
    """How many bytes they have."""

    synced_bytes: int = 0
    """How many bytes have become durable since the beginning."""

    on_failure: Callable[[str], None] = staticmethod(lambda reason: None)
    """Told when the engine can promise nothing any more; its server should stop."""

    count_reads: Callable[[], int] = staticmethod(lambda: 0)
    """Tells how often somebody has read so far: an engine may be more considerate in company."""

    usual_retention: Retention = KEEP_ALL
    """What streams keep that are created without limits of their own."""

    async def open(self) -> None:  # noqa: B027  an engine without a disk has nothing to open
        """Make the engine ready; called once, on the loop that will use it."""

    async def close(self) -> None:  # noqa: B027  nor to close
        """Finish what was begun and let go of everything."""

    @property
    def failure(self) -> str | None:
        """Why the engine takes no more changes, if it does not."""
        return None

    @property
    def measures(self) -> Measures | None:
        """What the engine has measured of itself; None where there is no disk."""
        return None

    @property
    def undurable(self) -> int:
        """How many changes were accepted and are not durable yet."""
        return 0

    def log_bytes(self) -> int:
        """How large the log is that a start would read."""
        return 0

    def measure_sizes(self) -> Sizes | None:
        """Look how much room the data takes: slow, and safe to call from another thread."""
        return None

    @abstractmethod
    def create(self, name: str, request: CreateRequest, now_ms: int) -> Eventually[Created]:
        """Create a stream or a fork, or say what is in the way."""

    @abstractmethod
    def append(self, name: str, request: AppendRequest, now_ms: int) -> Eventually[Appended]:
        """Append, close, or both."""

    @abstractmethod
    def read(
        self,
        name: str,
        request: ReadRequest,
        max_bytes: int,
        now_ms: int,
        *,
        peek: bool = False,
        held_bytes: int | None = None,
    ) -> Eventually[Read]:
        """Read a chunk and renew the stream's TTL; a peek does neither, it only measures the chunk.

        A chunk longer than `held_bytes` comes without its data, for who then fetches it in pieces.
        """

    @abstractmethod
    def fetch(self, name: str, stream_id: int, start: int, end: int) -> bytes | None:
        """Give bytes that a read has promised; None when the stream has lost them since."""

    def locate(self, name: str, stream_id: int, start: int, end: int) -> FilePart | None:
        """Tell where the first of these bytes lie; None when not in a file, then `fetch` gives them."""
        return None

    @abstractmethod
    def head(self, name: str, now_ms: int) -> Eventually[Head]:
        """Describe a stream without renewing its TTL."""

    @abstractmethod
    def delete(self, name: str, now_ms: int) -> Eventually[Deleted]:
        """Delete a stream; its bytes stay while forks need them."""

    @abstractmethod
    def stage(
        self, name: str, request: StageRequest, max_staged_bytes: int, now_ms: int
    ) -> Eventually[Staged]:
        """Keep a part, invisibly."""

    @abstractmethod
    def commit(self, name: str, request: CommitRequest, now_ms: int) -> Eventually[Committed]:
        """Append parts, in one atomic change."""

    @abstractmethod
    def drop_part(self, name: str, id: str, now_ms: int) -> Eventually[Dropped]:
        """Drop a part; one that is not there is as good as dropped."""

    @abstractmethod
    def listing(self, prefix: str, glob: str | None, after: str, limit: int, now_ms: int) -> Eventually[Page]:
        """List streams in the order of their names, beginning after a name."""

    @abstractmethod
    def expire(self, now_ms: int) -> None:
        """End the streams whose time is over, and let go of what streams need not keep."""
