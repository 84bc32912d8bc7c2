"""Multipart appends of the async shell: methods are awaited. The twin of sync/parts."""

from collections.abc import AsyncIterable, Iterable
from types import TracebackType
from typing import Any, Self

from millstream.client.aio.driving import run
from millstream.client.core.models import AppendResult, ProducerStamp
from millstream.client.core.plans.parts import Draft
from millstream.client.core.transport import AsyncTransport


class Multipart:
    """An append of any size, written in steps, that becomes visible atomically.

    Messages are collected into parts and staged on the server, invisible to readers. The end of the
    block commits them; an exception drops them. For use by one task.

    >>> async def main():
    ...     async with DurableStream(url).multipart() as batch:
    ...         for number in range(3):
    ...             await batch.write({"n": number})
    ...     return batch.result.next_offset[-2:]
    >>> asyncio.run(main())
    '24'
    """

    def __init__(self, transport: AsyncTransport, draft: Draft) -> None:
        self._transport = transport
        self._draft = draft
        self.result: AppendResult | None = None
        """The result of the commit; None before it, and if there was nothing to commit."""

    async def write(self, data: Any) -> None:
        """Add one message, as `DurableStream.append` takes it, and stage a part when it is full."""
        await run(self._transport, self._draft.write(data))

    async def write_all(self, messages: Iterable[Any] | AsyncIterable[Any]) -> None:
        """Add many messages."""
        if isinstance(messages, AsyncIterable):
            async for message in messages:
                await self.write(message)
        else:
            for message in messages:
                await self.write(message)

    async def commit(
        self,
        *,
        seq: str | None = None,
        producer: ProducerStamp | None = None,
        close: bool = False,
        expected_offset: str | None = None,
    ) -> AppendResult | None:
        """Append everything written so far; None if that is nothing. Call it once.

        `seq`, `producer`, `close` and `expected_offset` mean the same as on an append. If the result is a
        duplicate, the stream holds what was first committed with this producer's stamp, and nothing of this
        one.
        """
        plan = self._draft.commit(seq=seq, stamp=producer, closes=close, expected_offset=expected_offset)
        self.result = await run(self._transport, plan)
        return self.result

    async def abort(self) -> None:
        """Drop everything written so far."""
        await run(self._transport, self._draft.abort())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            await self.abort()
        elif not self._draft.is_over:
            try:
                await self.commit()
            except BaseException:
                await self.abort()
                raise
