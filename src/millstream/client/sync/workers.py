"""Pull workers: `run` blocks. What to do is in core/subscriptions; the twin of aio/workers."""

import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from millstream.client.core.exchanges import Terms
from millstream.client.core.models import HeadersLike
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.core.subscriptions.models import Lease, Work
from millstream.client.core.subscriptions.pulling import HandlerError, Puller
from millstream.client.core.subscriptions.requests import Root
from millstream.client.core.transport import Transport
from millstream.client.http.sync_sockets import shared_client
from millstream.client.sync.driving import Drive, run
from millstream.client.sync.streams import DEFAULT_TIMEOUT_S

_log = logging.getLogger("millstream")


class PullWorker:
    """A worker of a pull-wake subscription: calls `handle` with what is new, one stream after the other.

    Messages are acknowledged when `handle` returns. If it raises, they come again, to this worker or another,
    after a pause that grows. While it runs, heartbeats keep the lease; `Work.is_lost` says that it is lost
    nevertheless. So each message is handled at least once, those of a stream in order, and by one worker at a
    time. `worker` is this worker's name; `on_error` is called with what `handle` raised, which is
    otherwise logged.

    >>> _ = orders.append({"order": 1})
    >>> worker = PullWorker(server, "orders", lambda work: print(work.path, work.items))
    >>> worker.run_pending()
    orders/1 [{'order': 1}]
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
        client: Transport | None = None,
    ) -> None:
        name = f"{socket.gethostname()}-{os.getpid()}" if worker is None else worker
        self._core = Puller(Root(url, headers, Terms(retry, timeout)), subscription, name, handle)
        self._on_error = on_error
        self._transport = client or shared_client()
        self._waiting: Drive | None = None

    @property
    def worker(self) -> str:
        """The name under which it claims."""
        return self._core.worker

    def run(self) -> None:
        """Work until `stop` is called. Failures of the network are retried; other refusals are raised."""
        core = self._core
        run(self._transport, core.begin())
        while not core.is_stopping:
            if core.must_wait:
                self._wait()
                continue
            try:
                self._work()
            except HandlerError as failed:
                self._report(failed)

    def run_pending(self) -> None:
        """Handle what there is now, and return. What `handle` raises is raised, after the release."""
        core = self._core
        run(self._transport, core.begin())
        core.must_wait = False
        try:
            while not core.is_stopping and not core.must_wait:
                self._work()
        except HandlerError as failed:
            raise failed.error from None

    def stop(self) -> None:
        """Finish what is being handled, acknowledge it, and return from `run`; from any thread or signal."""
        self._core.is_stopping = True
        waiting = self._waiting
        if waiting is not None:
            waiting.scope.cancel()

    def _wait(self) -> None:
        waiting = self._waiting = Drive(self._transport, self._core.idle())
        try:
            if not self._core.is_stopping:  # `stop` may have come before there was something to cancel
                waiting.next()
        finally:
            self._waiting = None
            waiting.close()

    def _work(self) -> None:
        lease = run(self._transport, self._core.claim())
        if lease is None:
            return
        with _Heartbeats(self._transport, self._core, lease):
            try:
                run(self._transport, self._core.attend(lease))
            except HandlerError:
                raise
            except BaseException:
                run(self._transport, self._core.release(lease))
                raise

    def _report(self, failed: HandlerError) -> None:
        if self._on_error is not None:
            self._on_error(failed.error, failed.work)
        else:
            _log.error(
                "the handler of %s failed, and is called again", failed.work.path, exc_info=failed.error
            )


class _Heartbeats:
    """A thread that extends a lease for as long as a block lasts."""

    def __init__(self, transport: Transport, core: Puller, lease: Lease) -> None:
        self._transport = transport
        self._core = core
        self._lease = lease
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeats", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(self._lease.heartbeat_s) and not self._lease.is_lost:
            run(self._transport, self._core.heartbeat(self._lease))
