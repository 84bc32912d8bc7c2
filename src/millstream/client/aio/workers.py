"""Pull workers: `run` is awaited. What to do is in core/subscriptions; the twin of sync/workers."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

from millstream.client.aio.driving import Drive, run, settled
from millstream.client.aio.streams import DEFAULT_TIMEOUT_S
from millstream.client.core.exchanges import Terms
from millstream.client.core.models import HeadersLike
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.core.subscriptions.models import Lease, Work
from millstream.client.core.subscriptions.pulling import HandlerError, Puller
from millstream.client.core.subscriptions.requests import Root
from millstream.client.core.transport import AsyncTransport
from millstream.client.http.aio_sockets import shared_client

_log = logging.getLogger("millstream")


class PullWorker:
    """A worker of a pull-wake subscription: calls `handle` with what is new, one stream after the other.

    Messages are acknowledged when `handle` returns, or when what it returned was awaited. If it raises, they
    come again, to this worker or another, after a pause that grows. While it runs, heartbeats keep the lease;
    `Work.is_lost` says that it is lost nevertheless. So each message is handled at least once, those of a
    stream in order, and by one worker at a time. `worker` is this worker's name; `on_error` is called with
    what `handle` raised, which is otherwise logged.

    >>> async def handle(work):
    ...     print(work.path, work.items)
    >>> _ = orders.append({"order": 2})
    >>> asyncio.run(PullWorker(server, "orders", handle).run_pending())
    orders/1 [{'order': 2}]
    """

    def __init__(
        self,
        url: str,
        subscription: str,
        handle: Callable[[Work], Any],
        *,
        worker: str | None = None,
        on_error: Callable[[Exception, Work], Any] | None = None,
        headers: HeadersLike | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retry: Retry | None = DEFAULT,
        client: AsyncTransport | None = None,
    ) -> None:
        name = f"{socket.gethostname()}-{os.getpid()}" if worker is None else worker
        self._core = Puller(Root(url, headers, Terms(retry, timeout)), subscription, name, handle)
        self._on_error = on_error
        self._client = client
        self._waiting: Drive | None = None

    @property
    def _transport(self) -> AsyncTransport:
        """The client given, or the one of the running loop."""
        return self._client or shared_client()

    @property
    def worker(self) -> str:
        """The name under which it claims."""
        return self._core.worker

    async def run(self) -> None:
        """Work until `stop` is called. Failures of the network are retried; other refusals are raised."""
        core = self._core
        await run(self._transport, core.begin())
        while not core.is_stopping:
            if core.must_wait:
                await self._wait()
                continue
            try:
                await self._work()
            except HandlerError as failed:
                await self._report(failed)

    async def run_pending(self) -> None:
        """Handle what there is now, and return. What `handle` raises is raised, after the release."""
        core = self._core
        await run(self._transport, core.begin())
        core.must_wait = False
        try:
            while not core.is_stopping and not core.must_wait:
                await self._work()
        except HandlerError as failed:
            raise failed.error from None

    def stop(self) -> None:
        """Finish what is being handled, acknowledge it, and return from `run`; call it in the event loop."""
        self._core.is_stopping = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _wait(self) -> None:
        waiting = self._waiting = Drive(self._transport, self._core.idle())
        try:
            await waiting.next()
        finally:
            self._waiting = None
            waiting.close()

    async def _work(self) -> None:
        lease = await run(self._transport, self._core.claim())
        if lease is None:
            return
        async with self._heartbeats(lease):
            try:
                await run(self._transport, self._core.attend(lease))
            except HandlerError:
                raise
            except BaseException:
                # Also when this task is cancelled: the release is one short request.
                await asyncio.shield(run(self._transport, self._core.release(lease)))
                raise

    @contextlib.asynccontextmanager
    async def _heartbeats(self, lease: Lease) -> AsyncIterator[None]:
        """Extend a lease for as long as a block lasts."""
        beating = asyncio.create_task(self._beat(lease))
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, lease: Lease) -> None:
        while not lease.is_lost:
            await asyncio.sleep(lease.heartbeat_s)
            await run(self._transport, self._core.heartbeat(lease))

    async def _report(self, failed: HandlerError) -> None:
        if self._on_error is not None:
            await settled(self._on_error(failed.error, failed.work))
        else:
            _log.error(
                "the handler of %s failed, and is called again", failed.work.path, exc_info=failed.error
            )
