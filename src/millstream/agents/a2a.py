"""A2A: tasks and their events in streams, so that a subscriber goes on after a restart and on any replica.

    tasks = StreamTasks("http://127.0.0.1:4437/a2a")
    handler = DefaultRequestHandler(executor, task_store=tasks, event_stream=tasks, agent_card=card)

A task is a journal (`journal`); its version is the number of its last record. A record has the event that
changed the task, in the JSON of the A2A protocol, and from time to time the whole task:

    {"n": 1, "task": {...}, "owner": "ada", "event": {"task": {...}}}
    {"n": 2, "event": {"artifactUpdate": {...}}}

A task is read from its stream's end back to where it was last written whole. That happens again when the
events since then are larger than the task, so a stream is not much longer than its events.

The store and the events are one thing: an event is stored with the change that it made, or neither is.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from millstream.agents import catalog
from millstream.agents.backwards import BEGINNING, Message
from millstream.agents.extras import missing
from millstream.agents.journal import Journal, MovedError
from millstream.agents.opening import Sources, Token, opener, segment
from millstream.client.aio.streams import DurableStream
from millstream.client.core.errors import StreamNotFoundError

try:
    from a2a.server.cluster import (
        ConcurrentTaskModificationError,
        StoredTask,
        TaskEventStream,
        TaskVersion,
        VersionedEvent,
        VersionedTaskStore,
    )
    from a2a.server.context import ServerCallContext
    from a2a.server.events import Event
    from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
    from a2a.server.tasks import InMemoryTaskStore
    from a2a.server.tasks.task_manager import append_artifact_to_task
    from a2a.types.a2a_pb2 import (
        ListTasksRequest,
        ListTasksResponse,
        StreamResponse,
        Task,
        TaskArtifactUpdateEvent,
        TaskState,
        TaskStatusUpdateEvent,
    )
    from a2a.utils.errors import A2AError
    from a2a.utils.proto_utils import to_stream_response
    from google.protobuf.json_format import MessageToDict, ParseDict
except ImportError as error:
    raise missing("the A2A SDK 1.3 or newer", "a2a", error) from error

__all__ = ["StreamTasks"]

_MAX_KNOWN: Final = 1000
"""How many tasks are remembered; for others, the next event is stored with the whole task."""

_SMALL_BYTES: Final = 16 * 1024
"""Events of so many bytes together are no reason to store the whole task again."""

_READS_AT_ONCE: Final = 8

_TERMINAL: Final = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_REJECTED,
)
_RUNNING: Final = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)


class StreamTasks(VersionedTaskStore, TaskEventStream):
    """The tasks of A2A agents and their events, in streams: pass it as `task_store` and as `event_stream`.

    `streams` is a URL above the streams, with a token if the server asks for one, or a function from a path
    to a handle of `millstream.aio`. With `ttl_seconds` a task expires that long after its last use.
    """

    def __init__(
        self,
        streams: Sources,
        *,
        token: Token | None = None,
        ttl_seconds: int | None = None,
        owner_resolver: OwnerResolver = resolve_user_scope,
    ) -> None:
        self._open = opener(streams, token)
        self._ttl_seconds = ttl_seconds
        self._owner_of = owner_resolver
        self._known: OrderedDict[str, _Known] = OrderedDict()

    # -- The store -----------------------------------------------------------------------------------

    async def save(
        self,
        task: Task,
        *,
        event: Event | None,
        prev: Task | None,
        prev_version: TaskVersion,
        context: ServerCallContext,
    ) -> TaskVersion:
        """Store a task and the event that changed it, if nobody changed it since `prev_version`.

        Cancelling needs no version: it ends a task whatever happened to it, if it has not ended.
        """
        owner = self._owner_of(context)
        if task.status.state == TaskState.TASK_STATE_CANCELED:
            return await self._cancel(task, event, owner)
        known = self._known.get(task.id)
        if prev_version.is_missing:
            await catalog.add(self._catalog(), task.id, owner=owner)
            known = _Known(self._journal(task.id), owner)
        elif known is None or known.version != prev_version:
            known = await self._load(task.id)
        if known is None or known.version != prev_version or known.owner != owner:
            raise ConcurrentTaskModificationError(task.id)
        return await self._write(known, task, event)

    async def get(self, task_id: str, context: ServerCallContext) -> StoredTask | None:
        """Return a task and its version; None if its owner has no such task."""
        known = await self._load(task_id)
        if known is None or known.owner != self._owner_of(context):
            return None
        return StoredTask(_copy(known.task), known.version)

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of the owner's tasks. Every one of them is read for it."""
        owner = self._owner_of(context)
        in_memory = InMemoryTaskStore(owner_resolver=lambda _: owner)  # it filters, sorts and pages
        for known in await self._load_all(owner):
            await in_memory.save(known.task, context)
        return await in_memory.list(params, context)

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Delete a task and its events."""
        if await self.get(task_id, context) is None:
            return
        self._known.pop(task_id, None)
        with contextlib.suppress(StreamNotFoundError):
            await self._journal(task_id).stream.delete()
        await catalog.remove(self._catalog(), task_id)

    async def fail_running(self) -> Sequence[str]:
        """Mark tasks that are submitted or working as failed, and return their ids.

        For the start of a program, when no other one runs agents: who ran these tasks has ended.
        """
        failed = []
        for known in await self._load_all():
            if known.task.status.state in _RUNNING:
                task = _copy(known.task)
                event = TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id)
                event.status.state = TaskState.TASK_STATE_FAILED
                event.status.timestamp.GetCurrentTime()
                apply(task, event)
                await self._write(known, task, event)
                failed.append(task.id)
        return failed

    # -- Its events ----------------------------------------------------------------------------------

    async def publish(self, task_id: str, event: VersionedEvent) -> None:
        """Do nothing: `save` has stored the event with the change that it made."""

    async def subscribe(self, task_id: str, *, after: TaskVersion) -> AsyncGenerator[VersionedEvent, None]:
        """Yield the events after a version, those that are there and those that come."""
        known = await self._load(task_id)
        offset = known.offset if known is not None and known.version == after else BEGINNING
        async with self._journal(task_id).stream.stream(offset=offset) as response:
            async for record in response.iter_json():
                version = TaskVersion(record["n"])
                if "event" in record and version.is_after(after):
                    yield VersionedEvent(_event(record["event"]), version)

    async def destroy(self, task_id: str) -> None:
        """Do nothing: the events of a task are kept for as long as the task."""

    # -- Streams ---------------------------------------------------------------------------------------

    def _catalog(self) -> DurableStream:
        return self._open("/~tasks")  # no task's segment looks like this

    def _journal(self, task_id: str) -> Journal:
        return Journal(self._open(f"/{segment(task_id)}"), ttl_seconds=self._ttl_seconds)

    async def _cancel(self, task: Task, event: Event | None, owner: str) -> TaskVersion:
        while True:
            known = await self._load(task.id)
            if known is None or known.owner != owner or known.task.status.state in _TERMINAL:
                raise ConcurrentTaskModificationError(task.id)
            with contextlib.suppress(ConcurrentTaskModificationError):
                return await self._write(known, task, event)

    async def _write(self, known: "_Known", task: Task, event: Event | None) -> TaskVersion:
        record: Message = {}
        event_bytes = known.event_bytes
        if event is not None:
            record["event"] = MessageToDict(to_stream_response(event))
            event_bytes += event.ByteSize()
        if _follows(known.task, event, task) and event_bytes <= max(_SMALL_BYTES, task.ByteSize()):
            pass  # whoever reads the event can apply it
        else:
            record["owner"], event_bytes = known.owner, 0
            if event != task:
                record["task"] = MessageToDict(task)
        try:
            number = await known.journal.append_after(known.number, record)
        except MovedError:
            self._known.pop(task.id, None)
            raise ConcurrentTaskModificationError(task.id) from None
        written = _Known(known.journal, known.owner, number, _copy(task), event_bytes)
        self._remember(task.id, written)
        return written.version

    async def _load(self, task_id: str) -> "_Known | None":
        """Read a task, from its stream's end back to where it was last written whole."""
        journal = self._journal(task_id)
        events: list[Message] = []
        async with contextlib.aclosing(journal.backwards()) as steps:
            async for records in steps:
                for record in reversed(records):
                    if "owner" not in record:
                        events.append(record)
                        continue
                    known = _Known(journal, record["owner"], record["n"], _task(record))
                    for one in reversed(events):
                        known.apply(one)
                    self._remember(task_id, known)
                    return known
        self._known.pop(task_id, None)
        return None

    async def _load_all(self, owner: str | None = None) -> "Sequence[_Known]":
        found = await catalog.names(self._catalog())
        mine = [task_id for task_id, facts in found.items() if owner in (None, facts["owner"])]
        limit = asyncio.Semaphore(_READS_AT_ONCE)

        async def load(task_id: str) -> _Known | None:
            async with limit:
                return await self._load(task_id)

        return [known for known in await asyncio.gather(*map(load, mine)) if known is not None]

    def _remember(self, task_id: str, known: "_Known") -> None:
        self._known[task_id] = known
        self._known.move_to_end(task_id)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)


class _Known:
    """A task as of a record of its journal, and how many bytes of events came since it was written whole."""

    def __init__(
        self,
        journal: Journal,
        owner: str,
        number: int = 0,
        task: Task | None = None,
        event_bytes: int = 0,
    ) -> None:
        self.journal = journal
        self.owner = owner
        self.number = number
        self.task = task or Task()
        self.event_bytes = event_bytes
        self.offset = journal.offset

    @property
    def version(self) -> TaskVersion:
        return TaskVersion(self.number)

    def apply(self, record: Message) -> None:
        event = _event(record["event"])
        apply(self.task, event)
        self.number = record["n"]
        self.event_bytes += event.ByteSize()


def apply(task: Task, event: Event) -> None:
    """Change a task as the SDK does when its agent sends an event."""
    if isinstance(event, TaskStatusUpdateEvent):
        if task.status.HasField("message"):
            task.history.append(task.status.message)
        if event.metadata:
            task.metadata.MergeFrom(event.metadata)
        task.status.CopyFrom(event.status)
    elif isinstance(event, TaskArtifactUpdateEvent):
        append_artifact_to_task(task, event)


def _follows(before: Task, event: Event | None, after: Task) -> bool:
    """Tell whether a task becomes another by applying an event."""
    if not before.id or not isinstance(event, TaskStatusUpdateEvent | TaskArtifactUpdateEvent):
        return False
    applied = _copy(before)
    try:
        apply(applied, event)
    except A2AError:
        return False
    return applied == after


def _copy(task: Task) -> Task:
    copy = Task()
    copy.CopyFrom(task)
    return copy


def _task(record: Message) -> Task:
    written: Any = record["task"] if "task" in record else record["event"]["task"]
    task: Task = ParseDict(written, Task(), ignore_unknown_fields=True)
    return task


def _event(written: Any) -> Event:
    response = ParseDict(written, StreamResponse(), ignore_unknown_fields=True)
    event: Event = getattr(response, response.WhichOneof("payload"))
    return event
