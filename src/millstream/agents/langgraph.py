"""LangGraph: checkpoints of a graph in streams, and its events in a stream.

    graph = builder.compile(checkpointer=StreamCheckpointer("http://127.0.0.1:4437/graphs"))

A thread has a stream for each of its namespaces, the graph itself and its subgraphs:

    /graphs/~threads              a catalog of the threads
    /graphs/thread-1              a catalog of its namespaces
    /graphs/thread-1/~            the checkpoints of the graph, and what tasks wrote after each of them
    /graphs/thread-1/child~3a17   those of a subgraph

A record is known by its content: a checkpoint by its id, a write by its checkpoint, task and number. So a
record may be sent twice, and counts once.

Every checkpoint is stored whole. The latest one is found from the stream's end (`backwards`), however long
the thread is; an older one by reading back to it. Writes come after their checkpoint in the stream. LangGraph
may put them earlier, when it does not wait for a checkpoint to be stored; then they are repeated after it.
"""

import contextlib
import threading
from base64 import b64decode, b64encode
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Sequence
from typing import Any, Final

from millstream.agents import background, catalog
from millstream.agents.backwards import BEGINNING, Message, Steps, backwards, read_from
from millstream.agents.events import write_all
from millstream.agents.extras import missing
from millstream.agents.opening import Source, Sources, Token, append_repeatable, create, opener, segment
from millstream.client.aio.streams import DurableStream
from millstream.client.core.errors import StreamNotFoundError

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise missing("LangGraph", "langgraph", error) from error

__all__ = ["StreamCheckpointer", "write_events"]

_MAX_KNOWN: Final = 1000
"""How many streams and checkpoints are remembered."""


class StreamCheckpointer(BaseCheckpointSaver[int]):
    """A checkpointer that keeps threads in streams, for sync and async graphs.

    `streams` is a URL above the streams, with a token if the server asks for one, or a function from a path
    to a handle of `millstream.aio`. The sync methods run on a loop in a thread of their own, so they need
    handles that do not belong to another loop. With `ttl_seconds` a thread's streams expire that long after
    their last use.
    """

    def __init__(
        self,
        streams: Sources,
        *,
        token: Token | None = None,
        ttl_seconds: int | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._open = opener(streams, token)
        self._ttl_seconds = ttl_seconds
        self._early = EarlyWrites()
        self._steps = KnownSteps()

    # -- Async -----------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the latest one."""
        thread, namespace = _place(config)
        wanted = get_checkpoint_id(config)
        async with contextlib.aclosing(self._walk(thread, namespace)) as checkpoints:
            async for put, writes in checkpoints:
                if wanted is None or put["put"] == wanted:
                    return self._tuple(thread, namespace, put, writes)
        return None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[CheckpointTuple, None]:
        """Iterate over checkpoints, the newest of each namespace first."""
        wanted = get_checkpoint_id(config) if config else None
        bound = get_checkpoint_id(before) if before else None
        count = 0
        for thread, namespace in await self._places(config):
            async with contextlib.aclosing(self._walk(thread, namespace)) as checkpoints:
                async for put, writes in checkpoints:
                    if limit is not None and count >= limit:
                        return
                    if (wanted and put["put"] != wanted) or (bound and put["put"] >= bound):
                        continue
                    found = self._tuple(thread, namespace, put, writes)
                    if all(found.metadata.get(key) == value for key, value in (filter or {}).items()):
                        count += 1
                        yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint."""
        thread, namespace = _place(config)
        id = checkpoint["id"]
        record = {
            "put": id,
            "parent": get_checkpoint_id(config),
            "checkpoint": self._dump(checkpoint),
            "metadata": self._dump(get_checkpoint_metadata(config, metadata)),
            "writes": self._early.take((thread, namespace, id)),
        }
        await self._append(thread, namespace, record)
        while writes := self._early.take((thread, namespace, id)):
            for write in writes:  # they came meanwhile, and may be before the checkpoint
                await self._append(thread, namespace, write)
        self._early.stored((thread, namespace, id))
        return _config(thread, namespace, id)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint."""
        thread, namespace = _place(config)
        id = config["configurable"]["checkpoint_id"]
        values = [
            [WRITES_IDX_MAP.get(channel, number), channel, *self._dump(value)]
            for number, (channel, value) in enumerate(writes)
        ]
        record = {"write": id, "task": task_id, "path": task_path, "values": values}
        self._early.add((thread, namespace, id), record)
        await self._append(thread, namespace, record)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread's streams. If this fails in the middle, it can be repeated."""
        thread = str(thread_id)
        namespaces = await catalog.names(self._thread(thread))
        for stream in [*(self._namespace(thread, one) for one in namespaces), self._thread(thread)]:
            with contextlib.suppress(StreamNotFoundError):
                await stream.delete()
        if namespaces:
            await catalog.remove(self._threads(), thread)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread. If this fails in the middle, it can be repeated."""
        source, target = str(source_thread_id), str(target_thread_id)
        for namespace in await catalog.names(self._thread(source)):
            records, _ = await read_from(self._namespace(source, namespace), BEGINNING)
            for record in records:
                await self._append(target, namespace, record)

    # -- Sync: the same, on a loop in the background -------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the latest one."""
        return background.run(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Iterate over checkpoints, the newest of each namespace first."""
        return background.iterate(self.alist(config, filter=filter, before=before, limit=limit))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint."""
        return background.run(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint."""
        background.run(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread's streams. If this fails in the middle, it can be repeated."""
        background.run(self.adelete_thread(thread_id))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread. If this fails in the middle, it can be repeated."""
        background.run(self.acopy_thread(source_thread_id, target_thread_id))

    # -- Streams -----------------------------------------------------------------------------------

    def _threads(self) -> DurableStream:
        return self._open("/~threads")  # no thread's segment looks like this

    def _thread(self, thread: str) -> DurableStream:
        return self._open(f"/{segment(thread)}")

    def _namespace(self, thread: str, namespace: str) -> DurableStream:
        return self._open(f"/{segment(thread)}/{segment(namespace)}")

    async def _places(self, config: RunnableConfig | None) -> Sequence[tuple[str, str]]:
        """Return the threads and namespaces that a config asks for."""
        if config is not None and "checkpoint_ns" in config["configurable"]:
            return [_place(config)]
        threads = [_place(config)[0]] if config is not None else await catalog.names(self._threads())
        return [
            (thread, namespace)
            for thread in threads
            for namespace in await catalog.names(self._thread(thread))
        ]

    async def _append(self, thread: str, namespace: str, record: Message) -> None:
        stream = self._namespace(thread, namespace)
        try:
            await append_repeatable(stream, record)
        except StreamNotFoundError:
            await catalog.add(self._threads(), thread)
            await catalog.add(self._thread(thread), namespace)
            await create(stream, self._ttl_seconds)
            await append_repeatable(stream, record)

    async def _walk(
        self, thread: str, namespace: str
    ) -> AsyncGenerator[tuple[Message, Sequence[Message]], None]:
        """Iterate over the checkpoints of a namespace and their writes, the newest first."""
        stream = self._namespace(thread, namespace)
        seen: set[str] = set()
        writes: dict[str, deque[Message]] = {}
        async with contextlib.aclosing(backwards(stream, self._steps.of(stream.url))) as read:
            async for records, _ in read:
                puts = {record["put"]: record for record in records if "put" in record}
                for record in reversed(records):
                    if "write" in record:
                        writes.setdefault(record["write"], deque()).appendleft(record)
                for id in sorted(puts.keys() - seen, reverse=True):
                    seen.add(id)
                    self._early.stored((thread, namespace, id))
                    yield puts[id], [*puts[id]["writes"], *writes.pop(id, ())]

    # -- Values ------------------------------------------------------------------------------------

    def _dump(self, value: Any) -> tuple[str, str]:
        kind, data = self.serde.dumps_typed(value)
        return kind, b64encode(data).decode()

    def _load(self, dumped: Sequence[str]) -> Any:
        kind, data = dumped
        return self.serde.loads_typed((kind, b64decode(data)))

    def _tuple(self, thread: str, namespace: str, put: Message, writes: Sequence[Message]) -> CheckpointTuple:
        parent = put["parent"]
        return CheckpointTuple(
            _config(thread, namespace, put["put"]),
            self._load(put["checkpoint"]),
            self._load(put["metadata"]),
            _config(thread, namespace, parent) if parent else None,
            [(task, channel, self._load(dumped)) for task, channel, *dumped in pending(writes)],
        )


async def write_events(events: AsyncIterable[Any], stream: Source, *, token: Token | None = None) -> int:
    """Write what `graph.astream` yields into a stream as it comes, and close the stream at the end.

    Messages become JSON objects with their fields, tuples become lists. Returns the number of events.
    """
    return await write_all(
        (to_jsonable_python(event, fallback=repr) async for event in events), stream, token
    )


def pending(writes: Sequence[Message]) -> list[list[Any]]:
    """Order the writes of a checkpoint as its tasks ran: lists of task, channel, type and data.

    Of a write that was stored twice the first counts; of an error, an interrupt or a resume, the last.
    """
    found: dict[tuple[str, str, int], list[Any]] = {}
    for record in writes:
        for number, *value in record["values"]:
            key = (record["path"], record["task"], number)
            if number < 0 or key not in found:
                found[key] = [record["task"], *value]
    return [found[key] for key in sorted(found)]


class EarlyWrites:
    """Writes whose checkpoint is not known to be stored, to be repeated with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored: OrderedDict[_Key, None] = OrderedDict()
        self._waiting: OrderedDict[_Key, list[Message]] = OrderedDict()

    def add(self, key: "_Key", record: Message) -> None:
        """Keep a write, unless its checkpoint is known to be stored."""
        with self._lock:
            if key not in self._stored:
                self._waiting.setdefault(key, []).append(record)
                _limit(self._waiting)

    def take(self, key: "_Key") -> list[Message]:
        """Return the writes of a checkpoint that is about to be stored."""
        with self._lock:
            return self._waiting.pop(key, [])

    def stored(self, key: "_Key") -> None:
        """Record that a checkpoint is stored: what comes now is after it."""
        with self._lock:
            self._stored[key] = None
            _limit(self._stored)


class KnownSteps:
    """Where the steps of streams begin, for the streams that were last used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: OrderedDict[str, Steps] = OrderedDict()

    def of(self, url: str) -> Steps:
        """Return what is known of a stream."""
        with self._lock:
            steps = self._steps.setdefault(url, Steps())
            self._steps.move_to_end(url)
            _limit(self._steps)
            return steps


_Key = tuple[str, str, str]


def _limit(known: "OrderedDict[Any, Any]") -> None:
    if len(known) > _MAX_KNOWN:
        known.popitem(last=False)


def _place(config: RunnableConfig) -> tuple[str, str]:
    return str(config["configurable"]["thread_id"]), config["configurable"].get("checkpoint_ns", "")


def _config(thread: str, namespace: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}}
