"""Pumping: the asyncio engine under both producers.

It sends the batches that `ProducerCore` releases, one task each, and has no task while idle. The sync
producer runs it on an event loop in another thread (sync/pumping), so a lock guards the core. The lock
is held for the length of one decision, never across I/O.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from millstream.client.aio.driving import run
from millstream.client.core import errors
from millstream.client.core.endpoints import Endpoint
from millstream.client.core.exchanges import Terms
from millstream.client.core.plans import writing
from millstream.client.core.producers.epochs import Opening
from millstream.client.core.producers.producing import Batch, ProducerCore, body_of
from millstream.client.core.producers.resuming import find_session
from millstream.client.core.retry import Attempts
from millstream.client.core.transport import AsyncTransport

OnFailure = Callable[[Exception], Awaitable[None] | None]


class Pump:
    """Sends a producer's batches. All methods but `add` run on the loop."""

    def __init__(
        self,
        core: ProducerCore,
        endpoint: Endpoint,
        terms: Terms,
        transport: AsyncTransport,
        on_error: OnFailure | None,
    ) -> None:
        self.core = core
        self.lock = threading.Lock()
        self.drained = threading.Condition(self.lock)
        self.as_json = False
        self.content_type = b""
        self._endpoint = endpoint
        self._terms = terms
        self._transport = transport
        self._on_error = on_error
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []

    async def begin(self, as_json: bool, content_type: str | None) -> None:
        """Prepare for a stream's type; if a session is resumed, ask the server where it stands."""
        self.as_json = as_json
        self.content_type = (content_type or "").encode("latin-1")
        core = self.core
        if core.opening is not Opening.RESUMED:
            return
        plan = find_session(
            self._endpoint,
            self._terms,
            core.id,
            core.given_epoch,
            as_json=as_json,
            content_type=self.content_type,
        )
        core.resume(await run(self._transport, plan))

    def add(self, message: bytes, now: float) -> bool:
        """Add a message, from any thread; true if `turn` should be called."""
        with self.lock:
            if self.core.failure is not None:
                raise self.core.failure
            return self.core.add(message, now)

    def turn(self) -> None:
        """Send the batches that are ready, and set a timer for the open one."""
        loop = asyncio.get_running_loop()
        with self.lock:
            batches = list(self.core.ready())
            due_at = self.core.due_at
            if due_at is not None and due_at <= loop.time():
                if self.core.has_free_slot:  # otherwise it grows until a request has ended
                    self.core.seal()
                    batches += self.core.ready()
                due_at = None
        for batch in batches:
            task = loop.create_task(self._send(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if due_at is not None and self._timer is None:
            self._timer = loop.call_at(due_at, self._on_time)

    async def settle(self) -> None:
        """Send everything now, and wait until it is stored; raises the failure."""
        with self.lock:
            self.core.seal()
        self.turn()
        await self._until(lambda: self.core.is_settled)
        if self.core.failure is not None:
            raise self.core.failure

    async def room(self) -> None:
        """Wait until the backlog has room."""
        await self._until(lambda: not self.core.is_full or self.core.failure is not None)

    async def stop(self) -> None:
        """Wait for batches in flight; afterwards nothing runs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _on_time(self) -> None:
        self._timer = None
        self.turn()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while True:
            with self.lock:
                if is_so():
                    return
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def _send(self, batch: Batch) -> None:
        body = body_of(batch, as_json=self.as_json)
        with self.lock:
            stamp = self.core.stamp(batch)
        ask = writing.append_ask(body, self._terms, self.content_type, stamp=stamp, closes=batch.closes)
        failure: errors.MillstreamError | None = None
        error: errors.MillstreamError = errors.TransportError(
            "The producer was interrupted while a batch was in flight", url=self._endpoint.url
        )
        result = None
        attempts = Attempts(self._terms.retry, self._terms.chance)
        in_doubt = True  # until an outcome is known; a task that is cancelled leaves it so
        try:
            result = await run(self._transport, writing.append(self._endpoint, self._terms, ask, attempts))
            in_doubt = attempts.doubtful
        except errors.MillstreamError as refusal:
            error = refusal
            in_doubt = attempts.doubtful or isinstance(refusal, errors.ParseError)
        except Exception as broken:  # for example, from a user's header function
            error = errors.MillstreamError(f"A batch could not be sent ({broken})", url=self._endpoint.url)
            error.__cause__ = broken
        finally:
            with self.lock:
                batch.doubtful |= in_doubt
                if result is not None:
                    failure = self.core.stored(batch, result)
                else:
                    failure = self.core.refused(batch, error)
                self.drained.notify_all()
        if failure is not None:
            await self._report(failure)
        self.turn()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _report(self, failure: errors.MillstreamError) -> None:
        if self._on_error is None:
            return
        try:
            outcome: Any = self._on_error(failure)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "on_error of a producer raised", "exception": error})
