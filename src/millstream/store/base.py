"""The contract of every store.

A request names a stream and carries the time. The store finds the stream, asks `protocol` for a
decision, makes it durable and returns it. Each method is one row:

        create   PUT      5.1      a new stream, a fork, or what is in the way
        append   POST     5.2      data, closure, or both, in one atomic change
        read     GET      5.6      a chunk; a live read calls it again when woken
        head     HEAD     5.5      the stream as it is
        delete   DELETE   5.4      gone, or kept for its forks
        delete_some       X11       those of a prefix or a glob, page by page
        stage    POST     X3       a part, stored but invisible; `commit` appends parts, `drop_part` drops one
        configure PATCH   X10      another lifetime, retention, other attributes, in one atomic change
        trim     POST     X10      a later start: what is before is dropped
        listing  GET      X2       names in order, page by page
        expire   -        5.1, X4  end streams whose time is over, trim those that hold too much
        subscriptions     6, 7     wake workers; a part of its own (`store.subscriptions`)

A store returns a decision, or a `Pending` of it when it has to wait for a disk, or has to scan a large
JSON append for message boundaries first (`slices`). It calls its listener with a stream's name after every
change that a waiting reader must see, once the change is durable. It is used from one event loop, and every
method decides without awaiting.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from millstream.protocol.configuration import Configured as ConfiguredPlan
from millstream.protocol.configuration import ConfigureRequest
from millstream.protocol.errors import MalformedError
from millstream.protocol.forks import ForkRefusal
from millstream.protocol.lifecycle import CreatePlan, Delete
from millstream.protocol.parts import CommitPlan, CommitRequest, Drop, StagePlan, StageRequest
from millstream.protocol.reads import Chunk, OffsetGone, OffsetUnaligned, ReadFailed
from millstream.protocol.requests import AppendRequest, CreateRequest, DeletionRequest, ReadRequest
from millstream.protocol.retention import KEEP_ALL, Retention
from millstream.protocol.streams import AppendPlan, NotFound, SoftDeleted, Stream, Unreachable, Unstored
from millstream.protocol.trims import TrimPlan, TrimRequest
from millstream.store.listening import Listening
from millstream.store.measures import Measures, ReplicaMeasures, Sizes
from millstream.store.pending import Eventually
from millstream.store.subscriptions.subscriptions import Subscriptions

Missing = NotFound | SoftDeleted
Created = CreatePlan | ForkRefusal | Unstored | MalformedError | ReadFailed
Appended = AppendPlan | Missing | Unstored
Read = Chunk | OffsetGone | OffsetUnaligned | Missing | ReadFailed | Unreachable
Head = Stream | Missing | Unreachable
Deleted = Delete | Missing | Unstored
Staged = StagePlan | Missing | Unstored
Committed = CommitPlan | Missing | Unstored
Dropped = Drop | Missing | Unstored
Configured = ConfiguredPlan | Missing | Unstored
Trimmed = TrimPlan | Missing | Unstored

NO_ATTRIBUTES: Mapping[str, str] = {}

Listener = Callable[[str], None]


def ignore(_: str) -> None:
    """Do nothing; what is called where no listener was set."""


OnCreated = Callable[[str, int], None]


def ignore_creation(_name: str, _id: int) -> None:
    """Do nothing; what is called where nobody waits for creations."""


class StoreError(Exception):
    """A store cannot open its data or continue; the message says what, where, and what to do."""


class Page(msgspec.Struct, frozen=True):
    """A page of the listing, and the name to continue after, if there is more."""

    streams: list[Stream]
    next_after: str | None


class DeletedPage(msgspec.Struct, frozen=True):
    """How many streams a deletion of many has deleted, and the name to continue after, if there is more."""

    deleted: int
    next_after: str | None


Listed = Page | Unreachable
ManyDeleted = DeletedPage | Unstored | ReadFailed


class FilePart(msgspec.Struct, frozen=True, gc=False):
    """Bytes in a file; the descriptor may be used until control returns to the event loop."""

    descriptor: int
    position: int
    size: int


class Backlog(Protocol):
    """How much is accepted and not yet durable: plain attributes, because every change looks at them."""

    unsynced_changes: int
    unsynced_bytes: int
    synced_bytes: int
    """How many bytes have become durable since the start."""


class Store(ABC):
    """Streams, and every request on them."""

    listener: Listener = staticmethod(ignore)
    """Called with the name of a stream after every change that a waiting reader must see."""

    on_created: OnCreated = staticmethod(ignore_creation)
    """Called with the name and the id of a stream after its creation, once readers may see it."""

    on_failure: Callable[[str], None] = staticmethod(ignore)
    """Called with the reason when the store can promise nothing any more; its server should stop."""

    watched: Callable[[], Iterable[str]] = staticmethod(tuple)
    """Gives the names of the streams that readers wait for; a shared store looks them up now and then."""

    is_shared: bool = False
    """Whether other servers change the same streams, so that an answer may be out of date at any time."""

    subscriptions: Subscriptions
    """Whom changes of streams wake."""

    usual_retention: Retention = KEEP_ALL
    """The retention of streams that are created without limits of their own."""

    async def open(self) -> None:  # noqa: B027  a store without a disk has nothing to open
        """Make the store ready; called once, on the loop that will use it."""

    async def close(self) -> None:  # noqa: B027  nor to close
        """Finish what was begun and release everything."""

    @property
    def failure(self) -> str | None:
        """Why the store accepts no changes, if it does not."""
        return None

    @property
    @abstractmethod
    def backlog(self) -> Backlog:
        """The changes that are accepted and not yet durable; the object stays the same."""

    @property
    def unsaved_bytes(self) -> int:
        """How many bytes wait in memory for a checkpoint."""
        return 0

    @property
    def measures(self) -> Measures | None:
        """Measurements of the disk; None where there is none."""
        return None

    @property
    def replica_measures(self) -> ReplicaMeasures | None:
        """What is read from the replica of a database; None where there is none."""
        return None

    def log_bytes(self) -> int:
        """Give the size of the log that a start would read."""
        return 0

    def measure_sizes(self) -> Sizes | None:
        """Measure how much room the data takes: slow, and safe to call from another thread."""
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

        A chunk longer than `held_bytes` comes without its data, for callers that stream it by `fetch`.
        """

    @abstractmethod
    def fetch(self, name: str, stream_id: int, start: int, end: int) -> bytes | None:
        """Give bytes that a read has promised; None when the stream has lost them since."""

    def locate(self, name: str, stream_id: int, start: int, end: int) -> FilePart | None:
        """Give the place of the first of these bytes; None when they are not in a file: use `fetch`."""
        return None

    @abstractmethod
    def head(self, name: str, now_ms: int) -> Eventually[Head]:
        """Describe a stream without renewing its TTL."""

    @abstractmethod
    def delete(self, name: str, now_ms: int) -> Eventually[Deleted]:
        """Delete a stream; its bytes stay while forks need them."""

    @abstractmethod
    def delete_some(
        self, request: DeletionRequest, may_delete: Callable[[str], bool], now_ms: int
    ) -> Eventually[ManyDeleted]:
        """Delete the streams of a page, in the order of their names; others are answered meanwhile."""

    @abstractmethod
    def stage(
        self, name: str, request: StageRequest, max_staged_bytes: int, now_ms: int
    ) -> Eventually[Staged]:
        """Store a part, invisibly."""

    @abstractmethod
    def commit(self, name: str, request: CommitRequest, now_ms: int) -> Eventually[Committed]:
        """Append parts, in one atomic change."""

    @abstractmethod
    def drop_part(self, name: str, id: str, now_ms: int) -> Eventually[Dropped]:
        """Drop a part; one that is not there counts as dropped."""

    @abstractmethod
    def configure(self, name: str, request: ConfigureRequest, now_ms: int) -> Eventually[Configured]:
        """Change how long a stream lives, what it keeps and its attributes, in one atomic change."""

    @abstractmethod
    def trim(self, name: str, request: TrimRequest, now_ms: int) -> Eventually[Trimmed]:
        """Drop the beginning of a stream; what forks share stays for them."""

    @abstractmethod
    def listing(
        self,
        prefix: str,
        glob: str | None,
        after: str,
        limit: int,
        now_ms: int,
        attributes: Mapping[str, str] = NO_ATTRIBUTES,
    ) -> Eventually[Listed]:
        """List streams in the order of their names, beginning after a name."""

    @property
    @abstractmethod
    def newest_id(self) -> int:
        """The id of the newest stream that readers may see, or may have seen; ids rise with each creation."""

    @abstractmethod
    def count_streams(self) -> int:
        """Count all streams, also those that are deleted and kept for their forks."""

    @abstractmethod
    def listen(self, glob: str, clock_ms: Callable[[], int]) -> Listening:
        """Give events of the streams that a glob matches, from now on, for the application around it."""

    @abstractmethod
    def expire(self, now_ms: int) -> bool:
        """End streams whose time is over, and trim those that hold too much; called regularly.

        It works for some milliseconds. True means that more are due: call `expire_more`, after other work.
        """

    @abstractmethod
    def expire_more(self, now_ms: int) -> bool:
        """End and trim more streams, for some milliseconds; True means that still more are due."""
