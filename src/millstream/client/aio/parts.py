"""The async shell: multipart appends whose methods are awaited."""

from collections.abc import AsyncIterable, Iterable
from types import TracebackType
from typing import Any, Self

from millstream.client.aio.driving import run
from millstream.client.core.models import AppendResult, ProducerStamp
from millstream.client.core.parts import Draft
from millstream.client.core.transport import AsyncTransport


class Multipart:
    """An append of any size, written bit by bit, that becomes visible at once or not at all.

    Messages are gathered into parts and staged on the server, where nobody sees them. At the end of
    the block they are committed; an exception drops them. For one task.

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
        """What the commit gave; None before it, and when there was nothing to commit."""

    async def write(self, data: Any) -> None:
        """Take one message, as `DurableStream.append` does, and stage a part when there are enough."""
        await run(self._transport, self._draft.write(data))

    async def write_all(self, messages: Iterable[Any] | AsyncIterable[Any]) -> None:
        """Take many messages."""
        if isinstance(messages, AsyncIterable):
            async for message in messages:
                await self.write(message)
        else:
            for message in messages:
                await self.write(message)

    async def commit(
        self, *, seq: str | None = None, producer: ProducerStamp | None = None, close: bool = False
    ) -> AppendResult | None:
        """Append all that was written, now; None when there was nothing. It may be called once.

        `seq`, `producer` and `close` mean what they mean on an append. When the result is a duplicate
        the stream holds what was first committed with the producer's stamp, and nothing else.
        """
        plan = self._draft.commit(seq=seq, stamp=producer, closes=close)
        self.result = await run(self._transport, plan)
        return self.result

    async def abort(self) -> None:
        """Drop all that was written."""
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
