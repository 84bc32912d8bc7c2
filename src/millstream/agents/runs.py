"""Runs: generators that write streams, each run once, whoever reads and however often.

        streams = MillstreamApp(data="streams")
        runs = Runs(streams, resume=answer)        # before the application starts

        await runs.start("/chat/1", answer, input={"question": "why?"})

A run belongs to the application, not to the request that has started it: readers come and go, and what they
read was stored before. It ends in one of these ways:

        complete      the generator ended; its stream is closed
        failed        the generator raised; the log says why
        stopped       `stop` was called
        interrupted   the process ended meanwhile, and there is no way to run it on

With `resume`, a run whose process has ended is run on when the application starts again: `resume(run)`
returns a generator for the rest, or None to leave it interrupted. `await run.text()` and `run.messages()`
tell it what is stored. `pause` and `resume` of a run work the same way, also across restarts.

A reader of a JSON stream finds a last message about an early end (`endings`). `status` tells it, too.
"""

import asyncio
import contextlib
import inspect
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from typing import Any

import msgspec

from millstream.agents.endings import Ending, ai_sdk
from millstream.agents.run_records import Record, Records, key_of
from millstream.client.aio.producer import IdempotentProducer
from millstream.client.aio.streams import DurableStream
from millstream.client.core import bodies
from millstream.client.core.errors import (
    MillstreamError,
    StreamClosedError,
    StreamGoneError,
    StreamNotFoundError,
)
from millstream.client.core.models import ProducerStamp
from millstream.server.asgi.app import MillstreamApp

_log = logging.getLogger("millstream")

_END = object()


class Run:
    """One run: its stream, its input, and what is stored of it."""

    def __init__(self, record: Record, stream: DurableStream) -> None:
        self._record = record
        self._is_ending = False
        self._task: asyncio.Task[None] | None = None
        self.path = record.path
        """The path of its stream."""
        self.id = record.id
        """Its id among the runs that write the same stream."""
        self.input = record.input
        """What `start` was given."""
        self.stream = stream
        """A handle on its stream."""

    async def messages(self) -> list[Any]:
        """Return what is stored, of a JSON stream."""
        return await (await self.stream.stream(live=False)).read_json()

    async def text(self) -> str:
        """Return what is stored, of a text stream."""
        return await (await self.stream.stream(live=False)).read_text()


Items = AsyncIterable[Any] | Iterable[Any]
Source = Items | Callable[[Run], Items | Awaitable[Items | None] | None]


class Runs:
    """The runs of an application; made before it starts, so that runs of an ended process are found.

    An application that needs another `resume` or `ending` for some of them has several, each with a `name`.
    """

    def __init__(
        self,
        streams: MillstreamApp,
        *,
        resume: Callable[[Run], Items | Awaitable[Items | None] | None] | None = None,
        ending: Ending | None = ai_sdk,
        name: str = "runs",
    ) -> None:
        self.name = name
        owners = [getattr(hook, "__self__", None) for hook in streams.on_open]
        if any(isinstance(owner, Runs) and owner.name == name for owner in owners):
            raise ValueError(
                f"these streams have Runs of the name {name!r} already; give these another name=."
            )
        self.streams = streams
        self._resume = resume
        self._ending = ending
        self._records = Records(streams, name)
        self._active: dict[str, Run] = {}
        self._starting = asyncio.Lock()
        streams.on_open.append(self._recover)
        streams.on_close.append(self._interrupt)

    async def start(
        self,
        path: str,
        source: Source,
        *,
        id: str = "",
        input: Any = None,
        content_type: str = "application/json",
        closes: bool = True,
    ) -> bool:
        """Begin a run, unless it has begun before, in this process or in an earlier one; tell whether it did.

        `source` is a generator, or a function that returns one, of a `Run`. With `closes=False` the stream
        stays open for further runs, such as the turns of a conversation; each has an `id` then.
        """
        if not closes and not id:
            raise ValueError(
                "a run that leaves its stream open needs an id: it is not started twice by that."
            )
        async with self._starting:
            if await self.status(path, id=id) is not None:
                await _discard(source)
                return False
            record = Record(path, id, input, content_type, closes)
            await self._records.begin(record)
            try:
                await self._begin(record, source)
            except MillstreamError:  # for example, the stream exists with another content type
                await self._records.forget(record.key)
                raise
            return True

    async def stop(self, path: str, *, id: str = "") -> bool:
        """End a run early, for good; tell whether it was active."""
        run = await self._halted(path, id)
        if run is None:
            return False
        await self._end(run, "stopped")
        return True

    async def pause(self, path: str, *, id: str = "") -> bool:
        """End the generator of a run, and keep the run for `resume`; tell whether it was active."""
        run = await self._halted(path, id)
        if run is None:
            return False
        run._task, run._record = None, msgspec.structs.replace(run._record, paused=True)
        await self._records.update(run._record)
        return True

    async def resume(self, path: str, source: Source | None = None, *, id: str = "") -> bool:
        """Run a paused run on, with `source` or the `resume` of these runs; tell whether it was paused."""
        chosen = source if source is not None else self._resume
        async with self._starting:
            run = self._active.get(key_of(path, id))
            if run is None or run._task is not None:
                await _discard(source)
                return False
            if chosen is None:
                raise ValueError("there is no way to run it on: pass a source, or resume= to Runs.")
            record = msgspec.structs.replace(run._record, paused=False)
            await self._records.update(record)
            await self._begin(record, chosen)
            return True

    async def status(self, path: str, *, id: str = "") -> str | None:
        """Return running, paused, complete, failed, stopped or interrupted; None if there is no such run."""
        await self.streams.client.ready()
        key = key_of(path, id)
        run = self._active.get(key)
        if run is not None:
            return "running" if run._task is not None else "paused"
        outcome = await self._records.outcome(key)
        if outcome is None and not id:
            outcome = "complete" if await self._is_closed(self.streams.stream(path)) else None
        return outcome

    async def wait(self, path: str, *, id: str = "") -> None:
        """Wait until a run is not running any more."""
        run = self._active.get(key_of(path, id))
        if run is not None and run._task is not None:
            await asyncio.wait([run._task])

    # -- The life of a run -------------------------------------------------------------------------

    async def _begin(self, record: Record, source: Source) -> None:
        stream = await self.streams.create(record.path, content_type=record.content_type)
        run = self._active[record.key] = Run(record, stream)
        run._task = asyncio.create_task(self._drive(run, source), name=f"run of {record.path}")

    async def _drive(self, run: Run, source: Source) -> None:
        # A producer of its own: appends are in order, and repeated safely when the server is overloaded.
        producer = IdempotentProducer(
            run.stream, f"run-{uuid.uuid4()}", epoch=0, linger_ms=0, max_in_flight=1
        )
        outcome = "complete"
        try:
            try:
                items = source(run) if callable(source) else source
                found = await items if inspect.isawaitable(items) else items
                if found is None:
                    outcome = "interrupted"
                else:
                    async with contextlib.aclosing(_iterate(found)) as each:
                        async for item in each:
                            await producer.append(item)
            finally:
                await producer.detach()  # what was yielded is stored, whatever comes next
        except Exception:
            _log.exception("a run failed: %s", run.path)
            outcome = "failed"
        run._is_ending = True
        try:
            await self._end(run, outcome)
        except Exception:  # for example, the disk is full
            _log.exception("the end of a run could not be stored; the next start does it: %s", run.path)
            self._active.pop(run._record.key, None)

    async def _end(self, run: Run, outcome: str) -> None:
        """Store the end of a run. Every step can be repeated: a process may end between any two."""
        record, key = run._record, run._record.key
        is_complete = outcome == "complete"
        if not is_complete or not record.closes:
            await self._records.end(key, outcome)
        is_json = bodies.is_json(record.content_type)
        message = self._ending(outcome) if self._ending is not None and is_json and not is_complete else None
        with contextlib.suppress(StreamClosedError, StreamNotFoundError, StreamGoneError):  # by somebody else
            if message is not None:
                await run.stream.append(message, producer=ProducerStamp(f"end-of-run-{key}", epoch=0, seq=0))
            if record.closes:
                await run.stream.close()
        await self._records.forget(key)
        self._active.pop(key, None)

    async def _halted(self, path: str, id: str) -> Run | None:
        """Cancel the generator of a run and wait for its end; None if the run has ended by itself."""
        run = self._active.get(key_of(path, id))
        if run is not None and run._task is not None:
            if not run._is_ending:
                run._task.cancel()
            await asyncio.wait([run._task])
        return run if run is not None and self._active.get(run._record.key) is run else None

    # -- The start and the end of the process --------------------------------------------------------

    async def _recover(self) -> None:
        """Go on with what a process left that is gone."""
        self._active.clear()
        async for record in self._records.active():
            stream = self.streams.stream(record.path, content_type=record.content_type)
            run = Run(record, stream)
            closed = await self._is_closed(stream)
            if closed or (closed is None and self._resume is None):  # it is over, or has shown nothing
                await self._records.forget(record.key)
            elif (outcome := await self._records.outcome(record.key)) is not None:
                await self._end(run, outcome)
            elif record.paused:
                self._active[record.key] = run
            elif self._resume is not None:
                await self._begin(record, self._resume)
            else:
                await self._end(run, "interrupted")

    async def _is_closed(self, stream: DurableStream) -> bool | None:
        """Tell whether a stream is closed; None if it does not exist."""
        with contextlib.suppress(StreamNotFoundError, StreamGoneError):
            return (await stream.head()).stream_closed
        return None

    async def _interrupt(self) -> None:
        """End generators with the process; runs that can be run on are left to the next one."""
        for run in list(self._active.values()):
            if run._task is not None:
                halted = await self._halted(run.path, run.id)
                if halted is not None and self._resume is None:
                    await self._end(halted, "interrupted")
        self._active.clear()


async def _iterate(items: Items) -> AsyncGenerator[Any, None]:
    """Iterate over a generator of either kind; a blocking one runs in threads."""
    if isinstance(items, AsyncIterable):
        try:
            async for item in items:
                yield item
        finally:
            await _discard(items)
        return
    iterator = iter(items)
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield item


async def _discard(source: object) -> None:
    """Close a generator that is not run, or not to its end."""
    if inspect.isasyncgen(source):
        await source.aclose()
    elif inspect.isgenerator(source):
        with contextlib.suppress(ValueError):  # a thread is in it, and it ends with its next item
            source.close()
