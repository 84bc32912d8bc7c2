"""The sync producer: the engine of the async one, on an event loop in its own thread."""

import os
import threading
import time
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from millstream.client.aio.pumping import Pump
from millstream.client.core import bodies
from millstream.client.core.errors import ProducerStoppedError
from millstream.client.core.exchanges import Terms
from millstream.client.core.models import CloseResult
from millstream.client.core.producers.epochs import Opening
from millstream.client.core.producers.producing import MAX_BATCH_BYTES, ProducerCore
from millstream.client.core.retry import DEFAULT, Retry
from millstream.client.sync.pumping import LoopThread, async_transport
from millstream.client.sync.streams import DurableStream


class IdempotentProducer:
    """Appends that are stored exactly once and in order, pipelined.

    `append` returns at once; `flush` waits until everything is stored. A failure is passed to `on_error`
    (in the producer's thread) and raised by the next call. As a context manager it detaches at the end.
    Threads may share a producer. A forked process may not use its parent's.

    A producer begins a new session (`epoch`), above any earlier one of its id on the stream. A program that
    is started again is never taken for a retry of itself, and an older one that still runs is refused with
    `StaleEpochError`. `resume` continues the last session instead, or that of an `epoch`, from the number
    that the server expects. `epoch` alone names a new session, and `repeat` with it sends an earlier run's
    messages again and skips those that are stored. `auto_claim` takes the stream back from newer sessions.

    >>> with IdempotentProducer(log, "job-17") as producer:
    ...     producer.append({"line": "Starting"})
    >>> producer.next_seq, producer.pending_count
    (1, 0)
    >>> with IdempotentProducer(log, "job-17", resume=True) as later:
    ...     later.epoch == producer.epoch, later.next_seq
    (True, 1)
    """

    def __init__(
        self,
        stream: DurableStream,
        producer_id: str,
        *,
        epoch: int | None = None,
        resume: bool = False,
        repeat: bool = False,
        auto_claim: bool = False,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        linger_ms: float = 5,
        max_in_flight: int = 5,
        on_error: Callable[[Exception], None] | None = None,
        retry: Retry | None = DEFAULT,
    ) -> None:
        self._stream = stream
        self._core = ProducerCore(
            producer_id,
            epoch=epoch,
            resume=resume,
            repeat=repeat,
            auto_claim=auto_claim,
            max_batch_bytes=max_batch_bytes,
            linger_s=linger_ms / 1000,
            max_in_flight=max_in_flight,
            url=stream.url,
        )
        self._transport = async_transport(stream._transport)
        terms = Terms(retry, stream._terms.timeout_s)
        self._pump = Pump(self._core, stream._endpoint, terms, self._transport, on_error)
        self._process = os.getpid()
        self._starting = threading.Lock()
        self._worker: LoopThread | None = None
        self._stopped: str | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the appends."""
        return self._core.epoch

    @property
    def next_seq(self) -> int:
        """The sequence number of the next batch."""
        return self._core.next_seq

    @property
    def pending_count(self) -> int:
        """How many messages are not sent yet."""
        with self._pump.lock:
            return self._core.pending_count

    @property
    def in_flight_count(self) -> int:
        """How many batches are in flight."""
        return self._core.in_flight_count

    @property
    def last_offset(self) -> str | None:
        """Where the stream ended after the last stored batch."""
        return self._core.last_offset

    @property
    def duplicate_count(self) -> int:
        """How many batches the server had already stored."""
        return self._core.duplicates

    def append(self, data: Any) -> None:
        """Queue one message; blocks only when the backlog is full."""
        worker = self._worker or self._start()
        pump = self._pump
        if self._process != os.getpid():
            self._check()
        if pump.add(bodies.message(data, as_json=pump.as_json), time.monotonic()):
            worker.loop.call_soon_threadsafe(pump.turn)
            if self._core.is_full:
                with pump.drained:
                    pump.drained.wait_for(lambda: not self._core.is_full or self._core.failure is not None)

    def flush(self) -> None:
        """Wait until every message is stored; raises the producer's failure."""
        self._check()
        if self._worker is not None:
            self._worker.run(self._pump.settle())

    def close(self, final: Any = None) -> CloseResult:
        """Store everything, then the last message if given, and close the stream.

        Idempotent, also after an error: the last message is stored once.
        """
        if self._core.close_result is not None:
            return self._core.close_result
        worker = self._worker or self._start()
        message = bodies.message(final, as_json=self._pump.as_json) if final is not None else None
        if self._core.failure is None:
            worker.run(self._pump.settle())
        with self._pump.lock:
            self._core.begin_close(message)
        worker.run(self._pump.settle())
        self._stop("closed")
        return self._core.closed()

    def detach(self) -> None:
        """Store everything and stop, leaving the stream open. Idempotent."""
        if self._stopped is not None:
            return
        try:
            self.flush()
        finally:
            self._stop("detached")

    def restart(self) -> None:
        """Begin a new epoch, after a failure or to fence an older session. Also allowed after `detach`."""
        if self._core.close_result is not None or self._process != os.getpid():
            self._check()
        if self._worker is not None:
            if self._core.failure is None:
                self._worker.run(self._pump.settle())
            self._worker.run(self._pump.stop())
        with self._pump.lock:
            self._core.restart()
        self._stopped = None

    def __enter__(self) -> Self:
        if self._core.opening is Opening.RESUMED:
            self._start()  # so that `next_seq` is known
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.detach()
        else:
            self._stop("detached")

    def __del__(self) -> None:
        worker: LoopThread | None = getattr(self, "_worker", None)
        if worker is None or self._process != os.getpid():
            return
        worker.stop()
        if self._core.pending_count and self._core.failure is None:
            warnings.warn(
                f"a producer of {self._stream.url} was garbage-collected with unsent messages",
                ResourceWarning,
                2,
            )

    def _check(self) -> None:
        if self._process != os.getpid():
            raise ProducerStoppedError(
                "This producer belongs to the parent process; create one with another id",
                url=self._stream.url,
            )
        if self._stopped is not None:
            raise ProducerStoppedError(f"The producer was {self._stopped}", url=self._stream.url)

    def _start(self) -> LoopThread:
        self._check()
        with self._starting:
            if self._worker is None:
                as_json = self._stream._knows_json()
                worker = LoopThread(self._transport)
                try:
                    worker.run(self._pump.begin(as_json, self._stream.content_type))
                except BaseException:
                    worker.stop()
                    worker.join()
                    raise
                self._worker = worker
            return self._worker

    def _stop(self, how: str) -> None:
        self._stopped = self._stopped or how
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.run(self._pump.stop())
            worker.stop()
            worker.join()
