"""The async producer: exactly-once appends, pipelined."""

import asyncio
from typing import Any, Self

from millstream.client.aio.pumping import OnFailure, Pump
from millstream.client.aio.streams import DurableStream
from millstream.client.core import bodies
from millstream.client.core.errors import ProducerStoppedError
from millstream.client.core.exchanges import Terms
from millstream.client.core.models import CloseResult
from millstream.client.core.producers.epochs import Opening
from millstream.client.core.producers.producing import MAX_BATCH_BYTES, ProducerCore
from millstream.client.core.retry import DEFAULT, Retry


class IdempotentProducer:
    """Appends that are stored exactly once and in order, pipelined.

    `append` returns at once; `flush` waits until everything is stored. A failure is passed to `on_error`
    and raised by the next call. As a context manager it detaches at the end.

    A producer begins a new session (`epoch`), above any earlier one of its id on the stream. A program that
    is started again is never taken for a retry of itself, and an older one that still runs is refused with
    `StaleEpochError`. `resume` continues the last session instead, or that of an `epoch`, from the number
    that the server expects. `epoch` alone names a new session, and `repeat` with it sends an earlier run's
    messages again and skips those that are stored. `auto_claim` takes the stream back from newer sessions.

    >>> async def produce():
    ...     async with IdempotentProducer(DurableStream(url), "job-17") as producer:
    ...         await producer.append({"line": "Starting"})
    ...     return producer.next_seq, producer.pending_count
    >>> asyncio.run(produce())
    (1, 0)
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
        on_error: OnFailure | None = None,
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
        self._terms = Terms(retry, stream._terms.timeout_s)
        self._on_error = on_error
        self._starting = asyncio.Lock()
        self._pump: Pump | None = None
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

    async def append(self, data: Any) -> None:
        """Queue one message; blocks only when the backlog is full."""
        pump = self._pump if self._pump is not None else await self._start()
        self._check()
        if pump.add(bodies.message(data, as_json=pump.as_json), asyncio.get_running_loop().time()):
            pump.turn()
            if self._core.is_full:
                await pump.room()

    async def flush(self) -> None:
        """Wait until every message is stored; raises the producer's failure."""
        self._check()
        if self._pump is not None:
            await self._pump.settle()

    async def close(self, final: Any = None) -> CloseResult:
        """Store everything, then the last message if given, and close the stream.

        Idempotent, also after an error: the last message is stored once.
        """
        if self._core.close_result is not None:
            return self._core.close_result
        pump = self._pump if self._pump is not None else await self._start()
        self._check()
        message = bodies.message(final, as_json=pump.as_json) if final is not None else None
        if self._core.failure is None:
            await pump.settle()
        with pump.lock:
            self._core.begin_close(message)
        await pump.settle()
        await self._stop("closed")
        return self._core.closed()

    async def detach(self) -> None:
        """Store everything and stop, leaving the stream open. Idempotent."""
        if self._stopped is not None:
            return
        try:
            await self.flush()
        finally:
            await self._stop("detached")

    async def restart(self) -> None:
        """Begin a new epoch, after a failure or to fence an older session. Also allowed after `detach`."""
        if self._core.close_result is not None:
            self._check()
        if self._pump is not None:
            if self._core.failure is None and self._stopped is None:
                await self._pump.settle()
            await self._pump.stop()
        self._core.restart()
        self._stopped = None

    async def __aenter__(self) -> Self:
        if self._core.opening is Opening.RESUMED:
            await self._start()  # so that `next_seq` is known
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.detach()
        else:
            await self._stop("detached")

    def _check(self) -> None:
        if self._stopped is not None:
            raise ProducerStoppedError(f"The producer was {self._stopped}", url=self._stream.url)

    async def _start(self) -> Pump:
        self._check()
        async with self._starting:  # several first appends share one pump
            if self._pump is None:
                stream = self._stream
                as_json = await stream._knows_json()
                pump = Pump(self._core, stream._endpoint, self._terms, stream._transport, self._on_error)
                await pump.begin(as_json, stream.content_type)
                self._pump = pump
            return self._pump

    async def _stop(self, how: str) -> None:
        self._stopped = self._stopped or how
        if self._pump is not None:
            await self._pump.stop()
